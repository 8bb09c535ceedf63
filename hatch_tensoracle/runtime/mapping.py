"""Tells whether the code of a file is mapped into this process."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import BinaryIO

__all__ = ["is_code_mapped"]


def is_code_mapped(file: BinaryIO) -> bool:
    """Whether an executable mapping of this process is of the open file, and not of another that had its path.

    Compared with a mapping of our own: for files on btrfs and overlayfs `fstat` shows other numbers than the kernel's
    list of mappings. Raises OSError, and ValueError for an empty file.
    """
    with mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_COPY) as own:  # only of what is writable Python tells where
        address = ctypes.addressof(ctypes.c_char.from_buffer(own))
        lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()]
    ours: list[str] = []
    code = []
    for place, access, _offset, *identity in lines:
        device_and_inode = identity[:2]
        start, end = (int(bound, 16) for bound in place.split("-"))
        if start <= address < end:
            ours = device_and_inode
        if "x" in access:
            code.append(device_and_inode)
    return ours in code
