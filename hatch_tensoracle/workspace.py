"""Where a build keeps its files: a directory that goes with it, or one that the next build goes on with."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hatch_tensoracle.errors import ConfigurationError

__all__ = ["kept_directory", "temporary_directory"]

_MISTAKEN = frozenset(';[]|"\\')
"""CMake 4.4 fails on files below directories with one of these in their names: it splits lists, or quotes wrongly."""


@contextlib.contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """Give a directory that is removed at the end: in the user's place for such, unless CMake cannot work there."""
    parents = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - below it the name is random
    usual = next((parent for parent in parents if not _MISTAKEN & set(parent) and os.access(parent, os.W_OK)), None)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=usual, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextlib.contextmanager
def kept_directory(directory: Path, progress: Callable[[str], None]) -> Iterator[Path]:
    """Give the directory, which is made if need be, to one build at a time. Raises ConfigurationError."""
    if mistaken := _MISTAKEN & set(str(directory)):
        raise ConfigurationError(
            f"Option `build-directory` for build hook `tensoracle` names {directory}: CMake cannot work below a"
            f" directory with {' '.join(sorted(mistaken))} in its name",
            remedy="Name another directory, such as one below /tmp.",
        )
    from filelock import FileLock, Timeout

    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / ".lock")
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=0)
        if not lock.is_locked:
            progress(f"waiting for another build in {directory}")
            lock.acquire()
    except OSError as error:
        raise ConfigurationError(
            f"Option `build-directory` for build hook `tensoracle` names {directory}: {error.strerror}"
        ) from error
    try:
        yield directory
    finally:
        lock.release()
