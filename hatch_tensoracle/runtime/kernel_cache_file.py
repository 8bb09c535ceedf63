"""The file of a runtime cache: read and written whole, by one process at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hatch_tensoracle._files import write_whole

__all__ = ["KernelCacheFile"]

_LOCK_SECONDS = 10


class KernelCacheFile:
    """A path, and `.lock` beside it. Methods raise OSError, of which filelock's Timeout is one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        """Return what is there; nothing if there is no file. It was put in place whole, so no lock is needed."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""

    def write(self, data: bytes) -> None:
        """Replace what is there, for good when this returns. Call it inside `locked`."""
        write_whole(self.path, data, durable=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers out."""
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock", timeout=_LOCK_SECONDS):
            yield

    def set_aside(self, data: bytes) -> Path | None:
        """Give the file another name if it still holds `data`, and return that name."""
        refused = self.path.with_name(f"{self.path.name}.refused")
        with self.locked():
            if self.read() != data:
                return None
            self.path.replace(refused)
        return refused
