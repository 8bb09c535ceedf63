"""Files that processes and machines share: whole or not there, whatever ends a process and whatever fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from helpers.tools import run

from tensoracle_producer.store import Store

LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kind"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFileSystem]:
    """A file system that all stores of this process share."""
    monkeypatch.setenv("TENSORACLE_CACHE_URL", "memory://shared/cache/")
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


def forget(directory: Path) -> None:
    """Make this another machine."""
    for file in directory.iterdir():
        file.unlink()


def test_what_was_written_is_read() -> None:
    store = Store("kind", LIMIT)
    store.write("one", b"1\n\n")
    store.write("two", b"")
    assert Store("kind", LIMIT).read(["one", "two", "three"]) == {"one": b"1\n\n", "two": b""}


def test_a_file_under_another_name_is_none(directory: Path) -> None:
    store = Store("kind", LIMIT)
    store.write("one", b"1")
    (directory / "one").rename(directory / "two")
    assert store.read(["one", "two"]) == {}


KILLED = """
import os, random, signal, sys, time
from tensoracle_producer.store import Store

def content(name, salt):
    return name.encode() * (1000 + salt)

names = [str(n) for n in range(20)]
for n in range(300):
    process = os.fork()
    if not process:
        store = Store("kind", 200_000)  # so that every process removes files of the others
        while True:
            name = random.choice(names)
            store.write(name, content(name, random.randrange(5000)))
            store.close()
    other = Store("kind", 200_000)
    time.sleep(random.random() * 0.02)
    os.kill(process, signal.SIGKILL)
    found = other.read(names)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL, "the writer failed"
    for name, data in found.items():
        assert data == content(name, len(data) // len(name) - 1000), name
    assert other.warnings == [], other.warnings
    # What a reader does not take for a file is at most what the last process was writing.
print(len(found))
"""


def test_processes_that_are_killed_leave_no_file_that_is_read_and_wrong(directory: Path) -> None:
    """300 times, at any moment, with another process that reads and removes meanwhile."""
    assert int(run(sys.executable, "-c", KILLED)) > 0
    assert sum(file.stat().st_size for file in directory.iterdir()) < 400_000  # what was begun goes too


def test_a_directory_that_can_only_be_read_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    Store("kind", LIMIT).write("one", b"1")

    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refused)
    monkeypatch.setattr("tensoracle_producer.store.write_whole", refused)
    store = Store("kind", LIMIT)
    assert store.read(["one"]) == {"one": b"1"}
    store.write("two", b"2")
    (warning,) = store.warnings
    assert "the cache cannot be written: [Errno 13] Permission denied" in warning


def test_another_machine_finds_what_was_shared(directory: Path, memory: MemoryFileSystem) -> None:
    store = Store("kind", LIMIT)
    store.write("one", b"1")
    store.write("two", b"2")
    store.close()
    assert memory.ls("/shared/cache/kind", detail=False) == ["/shared/cache/kind/one", "/shared/cache/kind/two"]
    forget(directory)
    assert Store("kind", LIMIT).read(["one", "two", "three"]) == {"one": b"1", "two": b"2"}
    memory.store.clear()
    assert Store("kind", LIMIT).read(["one"]) == {"one": b"1"}  # it is here now


def test_a_local_directory_can_be_shared_too(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_URL", f"file://{tmp_path}/a mount")
    store = Store("kind", LIMIT)
    store.write("one", b"1")
    store.close()
    assert (tmp_path / "a mount" / "kind" / "one").is_file()
    forget(directory)
    assert Store("kind", LIMIT).read(["one"]) == {"one": b"1"}


@pytest.mark.parametrize("data", [b"", b"half", b"0" * 64 + b"\n1"], ids=["empty", "no digest", "wrong digest"])
def test_a_shared_file_that_is_damaged_counts_as_none(directory: Path, memory: MemoryFileSystem, data: bytes) -> None:
    store = Store("kind", LIMIT)
    store.write("one", b"1")
    store.close()
    forget(directory)
    memory.pipe_file("/shared/cache/kind/one", data)
    store = Store("kind", LIMIT)
    assert store.read(["one"]) == {}
    assert store.warnings == []


@pytest.mark.usefixtures("memory")
def test_an_outage_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def down(*_: Any, **__: Any) -> None:
        calls.append(1)
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr(MemoryFileSystem, "cat_file", down)
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", down)
    store = Store("kind", LIMIT)
    assert store.read(["one"]) == {}
    assert store.read(["two"]) == {}
    store.write("one", b"1")
    store.close()
    assert len(calls) == 1
    (warning,) = store.warnings
    assert warning.startswith("the shared cache was left out: memory://shared/cache/: ConnectionResetError: ")
    assert store.read(["one"]) == {"one": b"1"}


@pytest.mark.parametrize(
    ("url", "words"),
    [("nonsense://x", "Protocol not known: nonsense"), ("file:///proc/no/such", "No such file")],
)
def test_a_url_that_does_not_work_is_one_warning(monkeypatch: pytest.MonkeyPatch, url: str, words: str) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_URL", url)
    store = Store("kind", LIMIT)
    store.write("one", b"1")
    store.close()
    (warning,) = store.warnings
    assert warning.startswith(f"the shared cache was left out: {url}: ")
    assert words in warning


def test_without_fsspec_the_warning_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_URL", "memory://x")
    for name in [name for name in sys.modules if name.startswith("fsspec.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    (warning,) = Store("kind", LIMIT).warnings
    assert warning.endswith("is set, but fsspec is not installed: hatch-tensoracle[fsspec] brings it")
