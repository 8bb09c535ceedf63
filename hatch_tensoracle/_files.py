"""Writes files so that readers see the old or the new one, never a part; opens those that are files."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_regular", "whole_file", "write_whole"]


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading. Raises OSError, also for what is no file: a pipe would wait for its writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        message = "is not a regular file"
        raise OSError(errno.EINVAL, message, str(path))
    return os.fdopen(descriptor, "rb")


def write_whole(path: Path, *parts: bytes, durable: bool = False) -> None:
    """Write the file aside and put it in its place, below directories that are made. Readers of the old one keep it.

    A `durable` file is the whole one after a loss of power too, not only after that of the process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, durable=durable) as file:
        file.writelines(parts)


@contextlib.contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Have a file aside written to meanwhile, and put it in its place afterwards, or remove it if anything fails."""
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with aside.open("xb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if durable:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    # The new name is in the directory, which is a file of its own.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
