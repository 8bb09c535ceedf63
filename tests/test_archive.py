"""Archives that one reader sees one way and another reader another, or that claim more than they are, are not read."""

from __future__ import annotations

import io
import os
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers.wheels import change_header

from hatch_tensoracle._archive import Archive
from hatch_tensoracle.errors import WheelError

FILES = {"pkg/a.txt": b"first\n" * 100, "pkg/b.bin": bytes(range(256)) * 10, "pkg/c/d": b""}


def write(path: Path, files: Mapping[str, bytes] = FILES, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good.zip")


def contents(path: Path) -> dict[str, bytes]:
    archive = Archive(path)
    try:
        return {name: b"".join(archive.chunks(name)) for name in archive.names}
    finally:
        archive.close()


def refused(path: Path) -> str:
    """Why the archive is not opened."""
    with pytest.raises(WheelError) as caught:
        Archive(path)
    assert caught.value.where.startswith(str(path))
    return caught.value.cause


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
def test_files_are_read_by_name(tmp_path: Path, compression: int) -> None:
    path = write(tmp_path / "good.zip", compression=compression)
    assert contents(path) == FILES


class Unseekable(io.RawIOBase):
    """A stream, as of a pipe: zipfile writes sizes behind the files then."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        """Write on."""
        return self._file.write(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def test_an_archive_that_was_written_to_a_pipe_is_read(tmp_path: Path) -> None:
    """Its sizes stand behind each file."""
    path = tmp_path / "piped.zip"
    with Unseekable(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    with zipfile.ZipFile(path) as archive:
        assert all(member.flag_bits & 8 for member in archive.infolist())
    assert contents(path) == FILES


def test_a_large_file_may_have_its_sizes_in_an_extra_field(tmp_path: Path) -> None:
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(path, "w") as archive, archive.open("pkg/a", "w", force_zip64=True) as member:
        member.write(b"small")
    assert contents(path) == {"pkg/a": b"small"}


def test_bytes_before_the_archive_are_refused(good: Path) -> None:
    """A program that is an archive too: Python reads it as an archive."""
    good.write_bytes(b"#!/bin/sh\nexit\n" + good.read_bytes())
    assert zipfile.is_zipfile(good)
    assert refused(good) == "begins at byte 15 of the archive, what is before it ends at 0"


def test_a_file_that_the_directory_does_not_name_is_found(tmp_path: Path) -> None:
    """Readers that go from file to file, as installers that unpack while they download, would see it."""
    path = tmp_path / "hidden.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**FILES, "pkg/hidden.py": b"import evil\n"}.items():
            archive.writestr(name, data)
        archive.filelist = [member for member in archive.filelist if member.filename != "pkg/hidden.py"]
        del archive.NameToInfo["pkg/hidden.py"]
    assert "pkg/hidden.py" not in zipfile.ZipFile(path).namelist()
    assert refused(path).startswith("has its directory at byte")


def test_files_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """The bomb of which every file is the same one, a thousand times."""
    path = tmp_path / "overlapping.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pkg/0", bytes(1 << 16))
        for i in range(1, 1000):
            again = zipfile.ZipInfo(f"pkg/{i}")
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type", "flag_bits"):
                setattr(again, field, getattr(archive.filelist[0], field))
            archive.filelist.append(again)
    cause = refused(path)
    assert cause.startswith("begins at byte 0 of the archive, what is before it ends at")


@pytest.mark.parametrize(
    ("offset", "value", "cause"),
    [
        pytest.param(6, 0x8, "has flags and method (8, 8), in the directory (0, 8)", id="flags"),
        pytest.param(8, 0, "has flags and method (0, 0), in the directory (0, 8)", id="method"),
        pytest.param(18, 7, "has sizes (7, 600), in the directory", id="compressed size"),
        pytest.param(22, 7, "7), in the directory", id="size"),
        pytest.param(0, 0, "has no header before it", id="signature"),
        pytest.param(26, 8, "begins at byte", id="length of the name"),
    ],
)
def test_what_stands_before_a_file_must_be_what_the_directory_has(
    good: Path, offset: int, value: int, cause: str
) -> None:
    data = bytearray(good.read_bytes())
    struct.pack_into("<H", data, offset, value)
    good.write_bytes(data)
    assert cause in refused(good)


def test_another_name_before_a_file_than_in_the_directory_is_found(good: Path) -> None:
    data = good.read_bytes()
    good.write_bytes(data.replace(b"pkg/a.txt", b"pkg/e.txt", 1))
    archive = Archive(good)
    with pytest.raises(WheelError, match=r"in directory 'pkg/a\.txt' and header b'pkg/e\.txt' differ"):
        list(archive.chunks("pkg/a.txt"))
    archive.close()


def test_a_comment_is_refused(good: Path) -> None:
    with zipfile.ZipFile(good, "a") as archive:
        archive.comment = b"PK"
    assert "carries a comment" in refused(good)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR], ids=["link", "pipe", "device"])
def test_what_is_no_file_is_refused(good: Path, kind: int) -> None:
    link = zipfile.ZipInfo("pkg/link")
    link.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(good, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert refused(good) == f"is no file, but of kind {kind:#o}, such as a link"


@pytest.mark.parametrize("name", ["pkg/a\nb", "pkg/\x1b[2J", "pkg/\u202egpj.so", "pkg/\u200b"], ids=ascii)
def test_a_name_that_cannot_be_shown_is_refused(good: Path, name: str) -> None:
    with zipfile.ZipFile(good, "a") as archive:
        archive.writestr(name, b"")
    with pytest.raises(WheelError, match="cannot be printed") as caught:
        Archive(good)
    assert str(caught.value).isprintable()


def test_names_in_any_script_are_read(tmp_path: Path) -> None:
    files = {"pkg/größe.txt": b"1", "pkg/大きさ": b"2"}
    assert contents(write(tmp_path / "names.zip", files)) == files


def test_a_file_in_the_place_of_a_directory_is_refused(good: Path) -> None:
    with zipfile.ZipFile(good, "a") as archive:
        archive.writestr("pkg/a.txt/below", b"")
    assert refused(good) == "lies below 'pkg/a.txt', which is a file"


def test_a_directory_of_millions_of_files_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    count = (8 << 20) // len(entry) + 1
    path.write_bytes(entry * count + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, count * len(entry), 0, 0))
    tracemalloc.start()
    cause = refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"a directory of {count * len(entry)} bytes; at most {8 << 20} are read" in cause
    assert peak < 1 << 20


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "wheel.whl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    assert "is not a regular file" in refused(path)  # nobody ever writes to the pipe, and the device has no end


def test_a_file_whose_size_is_a_lie_is_refused(good: Path) -> None:
    change_header(good, "pkg/a.txt", "size", 100)
    archive = Archive(good)
    with pytest.raises(WheelError, match="cannot be read"):
        list(archive.chunks("pkg/a.txt"))
    archive.close()
