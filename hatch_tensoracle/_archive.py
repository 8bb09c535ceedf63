"""Opens a zip archive that may be hostile: names, sizes and layout are checked before anything is read.

What it accepts looks the same to every reader, to those that go by the central directory and to those that go from file
to file: the files lie one behind the other, with nothing before, between or behind them.
Time and memory are in proportion to the size of the archive.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from hatch_tensoracle._files import open_regular
from hatch_tensoracle.errors import WheelError

__all__ = ["Archive"]

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
"""Header before each file (APPNOTE.TXT, 4.3.7)."""
_HAS_DESCRIPTOR = 0x8
_IN_EXTRA_FIELD = 0xFFFFFFFF
"""A size that ZIP64 has elsewhere."""
_DESCRIPTORS = (12, 16, 20, 24)
"""Bytes behind a file whose header has no sizes: with and without signature, ZIP64 or not (4.3.9)."""
_MAX_DIRECTORY = 8 << 20
"""Bytes of the central directory: that of 60,000 files, of which Python makes some 40 MB."""
_MAX_MEMBER = 4 << 30
"""Bytes: no library of a wheel is larger; TensorRT maps it whole."""
_MAX_TOTAL = 16 << 30
_FREE, _RATIO = 128 << 20, 100
"""Files may unpack to as many bytes, and to as many times the archive's size. Deflate can do 1030 times."""
_CHUNK = 1 << 20


class Archive:
    """The files in an archive by name. Opening and reading raise WheelError; nothing is extracted to disk by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open_regular(path)
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self._members = self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the archive."""
        self._file.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the files."""
        return tuple(self._members)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return self._members[name].file_size

    def chunks(self, name: str, *, limit: int = _MAX_MEMBER) -> Iterator[bytes]:
        """A file in parts of at most a megabyte; WheelError if it has more than `limit` bytes."""
        member, where, count = self._members[name], f"{self.path}: {name}", 0
        if member.file_size > limit:
            raise WheelError(f"has {member.file_size} bytes, more than {limit}", where=where)
        try:
            with self._zip.open(member) as stream:
                while chunk := stream.read(_CHUNK):
                    count += len(chunk)
                    yield chunk
        except (OSError, EOFError, RuntimeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error) as error:
            raise WheelError(f"cannot be read: {error}", where=where) from error
        if count != member.file_size:
            raise WheelError(f"says it has {member.file_size} bytes, has {count}", where=where)

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a file, which has not been read for that, nor checked."""
        try:
            with self._zip.open(self._members[name]) as stream:
                return stream.read(size)
        except (OSError, EOFError, RuntimeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error) as error:
            raise WheelError(f"cannot be read: {error}", where=f"{self.path}: {name}") from error

    def _read(self) -> dict[str, zipfile.ZipInfo]:
        try:
            self._zip = zipfile.ZipFile(_Bounded(self._file))
        except (OSError, RuntimeError, ValueError, struct.error, zipfile.BadZipFile) as error:
            raise self._unreadable(error) from error
        if self._zip.comment:
            raise WheelError("carries a comment, in which readers can find another archive", where=str(self.path))
        members: dict[str, zipfile.ZipInfo] = {}
        for member in self._zip.infolist():
            if member.filename in members:
                raise WheelError("stands in the archive twice", where=self._where(member))
            self._check_name(member)
            self._check_form(member)
            members[member.filename] = member
        self._check_sizes(members)
        self._check_layout(sorted(members.values(), key=lambda member: member.header_offset))
        return {name: member for name, member in members.items() if not name.endswith("/")}

    def _check_name(self, member: zipfile.ZipInfo) -> None:
        name, path = member.filename, PurePosixPath(member.filename)
        # orig_filename still has what zipfile cuts off at a NUL. `a//b` and `a/./b` would be written over `a/b`.
        if name != member.orig_filename or "\\" in name or ":" in name or path.is_absolute() or ".." in path.parts:
            raise WheelError("is no relative path inside the wheel", where=self._where(member))
        if not path.parts or str(path) != name.removesuffix("/"):
            raise WheelError(f"is not in its plain form {str(path)!r}", where=self._where(member))
        if not name.isprintable():
            raise WheelError("has characters in its name that cannot be printed", where=self._where(member))

    def _check_form(self, member: zipfile.ZipInfo) -> None:
        where, kind = self._where(member), stat.S_IFMT(member.external_attr >> 16)
        if member.flag_bits & 1:
            raise WheelError("is encrypted", where=where)
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            # zipfile unpacks the others by whole chunks, whatever their size in memory.
            raise WheelError(f"is compressed by method {member.compress_type}, wheels are deflated", where=where)
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise WheelError(f"is no file, but of kind {kind:#o}, such as a link", where=where)
        if member.file_size > _MAX_MEMBER:
            raise WheelError(f"says it has {member.file_size} bytes; at most {_MAX_MEMBER} are read", where=where)

    def _check_sizes(self, members: dict[str, zipfile.ZipInfo]) -> None:
        """Raise for names of which one is a directory of another, and for more than the archive can honestly hold."""
        for name in members:
            for parent in map(str, PurePosixPath(name).parents):
                if parent in members:
                    raise WheelError(f"lies below {parent!r}, which is a file", where=f"{self.path}: {name}")
        total, size = sum(member.file_size for member in members.values()), self._file.seek(0, io.SEEK_END)
        limit = min(_MAX_TOTAL, _FREE + _RATIO * size)
        if total > limit:
            raise WheelError(
                f"unpacks to {total} bytes; of {size} bytes at most {limit} are read", where=str(self.path)
            )

    def _check_layout(self, members: list[zipfile.ZipInfo]) -> None:
        gaps: tuple[int, ...] = (0,)
        end = 0
        for member in members:
            if member.header_offset - end not in gaps:
                place = f"begins at byte {member.header_offset} of the archive, what is before it ends at {end}"
                raise WheelError(place, where=self._where(member))
            end = member.header_offset + self._local_size(member)
            gaps = _DESCRIPTORS if member.flag_bits & _HAS_DESCRIPTOR else (0,)
        if self._zip.start_dir - end not in gaps:
            message = f"has its directory at byte {self._zip.start_dir}, what is before it ends at {end}"
            raise WheelError(message, where=str(self.path))

    def _local_size(self, member: zipfile.ZipInfo) -> int:
        """Bytes from the start of a file's header to the end of its data."""
        self._file.seek(member.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
            raise WheelError("has no header before it", where=self._where(member))
        _, _, flags, method, _, _, _, compressed, size, name_length, extra_length = _LOCAL.unpack(header)
        seen = (flags, method)
        if (flags, method) != (member.flag_bits, member.compress_type):
            expected = (member.flag_bits, member.compress_type)
            raise WheelError(f"has flags and method {seen}, in the directory {expected}", where=self._where(member))
        in_extra_field = _IN_EXTRA_FIELD in {compressed, size}
        if not flags & _HAS_DESCRIPTOR and not in_extra_field:
            said = (member.compress_size, member.file_size)
            if (compressed, size) != said:
                raise WheelError(f"has sizes {(compressed, size)}, in the directory {said}", where=self._where(member))
        return int(_LOCAL.size + name_length + extra_length) + member.compress_size

    def _where(self, member: zipfile.ZipInfo) -> str:
        return f"{self.path}: {member.filename!r}"

    def _unreadable(self, error: Exception) -> WheelError:
        return WheelError(f"is not a readable wheel: {error}", where=str(self.path))


class _Bounded(io.RawIOBase):
    """A file that hands out so much at once: zipfile reads a central directory whole, of whatever size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        if size > _MAX_DIRECTORY:
            message = f"a directory of {size} bytes; at most {_MAX_DIRECTORY} are read"
            raise zipfile.BadZipFile(message)
        return self._file.read(size)
