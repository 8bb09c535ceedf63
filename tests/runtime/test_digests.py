"""Digests of weight files: what is remembered, and what is not believed."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from io import FileIO
from pathlib import Path

import pytest

from hatch_tensoracle.runtime.digests import forget_digests, weight_digests
from hatch_tensoracle.runtime.errors import EngineConditionError

HOUR = 3600 * 10**9


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    read, file_digest = [], hashlib.file_digest

    def counted(file: FileIO, name: str) -> hashlib._Hash:
        read.append(Path(os.fsdecode(file.name)).name)
        return file_digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return read


def weights(path: Path, content: bytes = b"weights", *, age: int = HOUR) -> Path:
    """A file that was changed `age` nanoseconds ago."""
    path.write_bytes(content)
    at = time.time_ns() - age
    os.utime(path, ns=(at, at))
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_digests_are_sha256_in_the_order_given(tmp_path: Path) -> None:
    first, second = weights(tmp_path / "b", b"1"), weights(tmp_path / "a", b"2" * 5_000_000)
    assert weight_digests([first, str(second), first]) == (sha256(b"1"), sha256(b"2" * 5_000_000), sha256(b"1"))
    assert weight_digests([]) == ()


def test_a_file_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    file = weights(tmp_path / "a")
    assert weight_digests([file, file]) == weight_digests([file]) * 2
    assert reads == ["a"]


def test_relative_and_absolute_paths_are_one_file(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weight_digests([weights(tmp_path / "a")])
    monkeypatch.chdir(tmp_path)
    weight_digests(["a", "./a", Path("a")])
    assert reads == ["a"]


def test_a_path_that_leaves_a_linked_directory_is_the_systems(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "below")
    weights(tmp_path / "w", b"beside the link")
    weights(tmp_path / "elsewhere" / "w")
    path = tmp_path / "link" / ".." / "w"
    assert weight_digests([path]) == (sha256(path.read_bytes()),) == (sha256(b"weights"),)


def test_a_changed_file_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    file = weights(tmp_path / "a")
    weight_digests([file])
    weights(file, b"WEIGHTS", age=HOUR // 2)  # of the same size
    assert weight_digests([file]) == (sha256(b"WEIGHTS"),)
    weights(file, b"more weights", age=HOUR // 2)
    assert weight_digests([file]) == (sha256(b"more weights"),)
    assert reads == ["a"] * 3


def test_a_file_put_in_its_place_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    file = weights(tmp_path / "a")
    weight_digests([file])
    at = file.stat().st_mtime_ns
    other = weights(tmp_path / "b", b"WEIGHTS")
    os.utime(other, ns=(at, at))
    other.replace(file)
    assert weight_digests([file]) == (sha256(b"WEIGHTS"),)
    assert reads == ["a"] * 2


def test_a_file_on_another_device_is_read_again(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same size, time and inode: a file system was mounted over the path."""
    file = weights(tmp_path / "a")
    weight_digests([file])
    stat, fstat = Path.stat, os.fstat

    def elsewhere(status: os.stat_result) -> os.stat_result:
        fields, named = list(status), {"st_mtime_ns": status.st_mtime_ns}
        fields[2] += 1
        return os.stat_result(fields, named)

    monkeypatch.setattr(Path, "stat", lambda path, **options: elsewhere(stat(path, **options)))
    monkeypatch.setattr(os, "fstat", lambda descriptor: elsewhere(fstat(descriptor)))
    weight_digests([file])
    assert reads == ["a"] * 2


def test_a_link_that_points_elsewhere_is_read_again(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(weights(tmp_path / "a"))
    weight_digests([link])
    link.unlink()
    link.symlink_to(weights(tmp_path / "b", b"WEIGHTS"))
    assert weight_digests([link]) == (sha256(b"WEIGHTS"),)


def test_a_change_in_place_that_keeps_size_and_time_is_seen_by_refresh(tmp_path: Path) -> None:
    """The documented risk, and its remedy."""
    file = weights(tmp_path / "a")
    weight_digests([file])
    at = file.stat().st_mtime_ns
    file.write_bytes(b"WEIGHTS")
    os.utime(file, ns=(at, at))
    assert weight_digests([file]) == (sha256(b"weights"),)
    assert weight_digests([file], refresh=True) == (sha256(b"WEIGHTS"),)
    assert weight_digests([file]) == (sha256(b"WEIGHTS"),)


@pytest.mark.parametrize(
    ("fraction", "age", "reads_of_two"),
    [
        pytest.param(123_456_789, 0, 2, id="in the same tick"),
        pytest.param(123_456_789, 20_000_000, 2, id="at the end of the longest tick"),
        pytest.param(123_456_789, 20_000_001, 1, id="a tick old"),
        pytest.param(123_456_789, -HOUR, 2, id="of the future, as after the clock went back"),
        pytest.param(123_456_789, 10**6 * HOUR, 1, id="before the epoch of computers"),
        pytest.param(0, 2 * 10**9, 2, id="2 s old where whole seconds are counted"),
        pytest.param(0, 3 * 10**9, 1, id="3 s old where whole seconds are counted"),
    ],
)
def test_a_digest_is_remembered_only_if_a_later_change_would_show(  # noqa: PLR0913, PLR0917 - fixtures and parameters
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch, fraction: int, age: int, reads_of_two: int
) -> None:
    """`fraction` is that of the second in which the file was changed, `age` before it is read: in nanoseconds."""
    file = weights(tmp_path / "a")
    at = 1_800_000_000 * 10**9 - age // 10**9 * 10**9 + fraction
    os.utime(file, ns=(at, at))
    monkeypatch.setattr(time, "time_ns", lambda: at + age)
    weight_digests([file])
    weight_digests([file])
    assert reads == ["a"] * reads_of_two


def test_a_clock_that_jumps_does_no_harm(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = weights(tmp_path / "a")
    for jump in (10**6 * HOUR, -(10**5) * HOUR, 0):
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: file.stat().st_mtime_ns + HOUR + jump)
        forget_digests()
        assert weight_digests([file]) == weight_digests([file]) == (sha256(b"weights"),)
    assert len(reads) == 1 + 2 + 1  # what lies in the future is not believed


def test_every_damaged_byte_of_a_record_leads_to_the_file(
    tmp_path: Path, cache_directory: Path, reads: list[str]
) -> None:
    file = weights(tmp_path / "a")
    weight_digests([file])
    (record,) = cache_directory.iterdir()
    good = record.read_bytes()
    for place in range(len(good)):
        record.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        assert weight_digests([file]) == (sha256(b"weights"),)
    for length in range(0, len(good), 7):
        record.write_bytes(good[:length])
        assert weight_digests([file]) == (sha256(b"weights"),)
    assert len(reads) == 1 + len(good) + len(range(0, len(good), 7))


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, cache_directory: Path) -> None:
    cache_directory.parent.mkdir()
    cache_directory.write_bytes(b"in the way")
    with pytest.warns(RuntimeWarning, match="weights are read again at each opening"):
        assert weight_digests([weights(tmp_path / "a")]) == (sha256(b"weights"),)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = weights(tmp_path / "a")

    def interrupted(*_: object) -> hashlib._Hash:
        file.write_bytes(b"other weights")
        return hashlib.sha256()

    monkeypatch.setattr(hashlib, "file_digest", interrupted)
    with pytest.raises(EngineConditionError, match="was changed while it was read") as caught:
        weight_digests([file])
    assert caught.value.file == str(file)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a file"):
        weight_digests([tmp_path / "pipe"])
    with pytest.raises(ValueError, match="is not a file"):
        weight_digests([tmp_path])
    with pytest.raises(FileNotFoundError, match="absent"):
        weight_digests([tmp_path / "absent"])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_several_files_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=30)

    def waiting(_file: object, _name: str) -> hashlib._Hash:
        together.wait()  # for the other file
        return hashlib.sha256()

    monkeypatch.setattr(hashlib, "file_digest", waiting)
    assert len(weight_digests([weights(tmp_path / name) for name in "ab"])) == 2


def test_digests_of_files_that_are_gone_can_be_forgotten(tmp_path: Path, cache_directory: Path) -> None:
    stays, goes = weights(tmp_path / "stays"), weights(tmp_path / "goes")
    weight_digests([stays, goes])
    goes.unlink()
    forget_digests(of_missing_files=True)
    assert len(list(cache_directory.iterdir())) == 1
    forget_digests()
    assert list(cache_directory.iterdir()) == []
