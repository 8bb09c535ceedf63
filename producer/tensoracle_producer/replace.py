"""Replaces a whole directory at once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replaced_directory"]

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def replaced_directory(directory: Path) -> Iterator[Path]:
    """Give a fresh directory beside `directory` that takes its place when the block ends without an error.

    Readers see the old directory or the new one, never a mixture. Raises FileExistsError at once if something else
    than a bundle would be replaced.
    """
    if directory.exists() and not (directory / "bundle.json").is_file() and any(directory.iterdir()):
        message = f"{directory} is not empty and holds no bundle.json: it is not replaced"
        raise FileExistsError(message)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as aside:
        fresh = Path(aside) / "new"
        fresh.mkdir()
        yield fresh
        if directory.exists():
            _exchange(fresh, directory)  # the old one goes with `aside`
        else:
            fresh.rename(directory)


def _exchange(one: Path, other: Path) -> None:
    """Swap two directories atomically, or in two steps where the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    renamed = libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    if renamed != 0:
        other.rename(one.with_name("old"))
        one.rename(other)
