"""Where a build keeps its files: a directory that goes with it, or one that the next build goes on with."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hatch_tensoracle.config import HookConfig
from hatch_tensoracle.errors import ConfigurationError

__all__ = ["forget", "temporary_directory", "workspace"]

_MISTAKEN = frozenset(';[]|"\\')
"""CMake 4.4 fails on files below directories with one of these in their names: it splits lists, or quotes wrongly."""


def temporary_directory(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Make a directory that goes with the process at the latest: in the usual place, if CMake can work there."""
    parents = (tempfile.gettempdir(), "/tmp", "/var/tmp")  # noqa: S108 - below it the name is random
    usable = [parent for parent in parents if not _MISTAKEN & set(parent) and os.access(parent, os.W_OK)]
    return tempfile.TemporaryDirectory(prefix=prefix, dir=next(iter(usable), None), ignore_cleanup_errors=True)


@contextlib.contextmanager
def workspace(config: HookConfig, root: Path, progress: Callable[[str], None]) -> Iterator[Path]:
    """Give the directory for the files of one build: that of the option, which others wait for, or a temporary one.

    Raises ConfigurationError.
    """
    if config.build_directory is None:
        with temporary_directory("tensoracle-") as temporary:
            yield Path(temporary)
    else:
        with _kept(_below(root, config.build_directory), progress) as kept:
            yield kept


def forget(config: HookConfig, root: Path) -> None:
    """Remove what was kept, if anything was."""
    if config.build_directory is not None:
        shutil.rmtree(_below(root, config.build_directory), ignore_errors=True)


def _below(root: Path, directory: str) -> Path:
    """One of our own, so that nothing else goes when it is removed: the option may name any directory."""
    return Path(root, directory, "tensoracle").absolute()


@contextlib.contextmanager
def _kept(directory: Path, progress: Callable[[str], None]) -> Iterator[Path]:
    if mistaken := _MISTAKEN & set(str(directory)):
        raise ConfigurationError(
            f"Option `build-directory` for build hook `tensoracle` leads to {directory}: CMake cannot work below a"
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
            f"Option `build-directory` for build hook `tensoracle` leads to {directory}: {error.strerror}"
        ) from error
    try:
        yield directory
    finally:
        lock.release()
