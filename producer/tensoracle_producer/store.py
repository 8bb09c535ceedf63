"""Keeps files by name below the user's cache directory, and on a file system that machines share if one is named."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from hatch_tensoracle._files import write_whole
from hatch_tensoracle._paths import cache_directory
from tensoracle_producer.remote import Remote

__all__ = ["Store"]


class Store:
    """Files of one kind. All processes share them; each is written whole or not at all, and read with its digest.

    A file that is damaged, or was put under another name, counts as none. After a failure to write, no more is tried.
    `warnings` says what did not work.
    """

    def __init__(self, kind: str, limit: int) -> None:
        """`limit` is in bytes: when the files are more together, those that were not used for longest go."""
        self._directory = cache_directory() / kind
        self._limit = limit
        self._outage: OSError | None = None
        self._remote = Remote.named(kind)
        self._unsent: dict[str, bytes] = {}

    @property
    def warnings(self) -> list[str]:
        """A line for each place that failed."""
        found = []
        if self._outage is not None:
            found.append(f"the next build will do this again: the cache cannot be written: {self._outage}")
        if self._remote is not None and self._remote.outage:
            found.append(f"the shared cache was left out: {self._remote.outage}")
        return found

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of those that are there. What only the shared file system has is kept here too."""
        known = {name: content for name in names if (content := self._read(name)) is not None}
        lacking = [name for name in dict.fromkeys(names) if name not in known]
        if lacking and self._remote is not None:
            for name, data in self._remote.read(lacking).items():
                if (content := _opened(name, data)) is not None:
                    known[name] = content
                    self._write(name, data)
        return known

    def write(self, name: str, content: bytes) -> None:
        """Keep the content. The shared file system gets it with `close`."""
        data = _digest(name, content) + b"\n" + content
        self._write(name, data)
        if self._remote is not None:
            self._unsent[name] = data

    def close(self) -> None:
        """Send what is new, and keep the size within its limit."""
        if self._remote is not None and self._unsent:
            self._remote.write(self._unsent)
            self._unsent = {}
        self._prune()

    def _read(self, name: str) -> bytes | None:
        path = self._directory / name
        try:
            content = _opened(name, path.read_bytes())
        except OSError:
            return None
        if content is not None:
            with contextlib.suppress(OSError):  # of a cache that can only be read
                os.utime(path)
        return content

    def _write(self, name: str, data: bytes) -> None:
        if self._outage is None:
            try:
                write_whole(self._directory / name, data)
            except OSError as error:
                self._outage = error

    def _prune(self) -> None:
        files: list[tuple[float, int, Path]] = []
        for path in self._directory.glob("*"):
            with contextlib.suppress(FileNotFoundError):  # another process prunes too
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        size = sum(size for _, size, _ in files)
        for _, own, path in sorted(files):
            if size <= self._limit:
                return
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                self._outage = error
                return
            size -= own


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest().encode()


def _opened(name: str, data: bytes) -> bytes | None:
    digest, _, content = data.partition(b"\n")
    return content if digest == _digest(name, content) else None
