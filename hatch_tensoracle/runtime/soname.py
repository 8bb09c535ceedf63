"""Gives a library that is loaded another name, by which it is found when somebody else loads it."""

from __future__ import annotations

import ctypes
import os
import struct

__all__ = ["add_soname", "alias_library"]

# Of the ELF format (System V ABI), 64 bits.
_HEADER, _SEGMENT, _ENTRY, _SYMBOL, _PAGE = 64, 56, 16, 24, 4096
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK, _READ_WRITE = 1, 2, 0x6474E551, 6
_DT_NULL, _DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 1, 4, 5, 6, 10, 11, 14
_ET_DYN, _EM_X86_64 = 3, 62


def add_soname(soname: str, loaded: str) -> None:
    """Have dlopen(soname) give the symbols of the library that is loaded under its own name `loaded`, in this process.

    The loader knows libraries by their own names, so one that has the new name and needs the other will do; it is in
    memory only. Raises OSError.
    """
    file = os.memfd_create(soname)
    try:
        os.write(file, alias_library(soname, loaded))
        ctypes.CDLL(f"/proc/self/fd/{file}")  # stays loaded: ctypes never unloads
    finally:
        os.close(file)


def alias_library(soname: str, needed: str) -> bytes:
    """Return an x86-64 shared object that is called `soname`, needs `needed` and defines nothing."""
    names = b"\0" + soname.encode() + b"\0" + needed.encode() + b"\0"
    dynamic, count = _HEADER + 3 * _SEGMENT, 8
    strings = dynamic + count * _ENTRY
    symbols = strings + len(names) + -len(names) % 8
    hashes = symbols + _SYMBOL
    table = struct.pack("<5I", 1, 1, 0, 0, 0)  # one bucket, one symbol: the null symbol
    end = hashes + len(table)
    entries = (
        (_DT_NEEDED, len(soname) + 2),
        (_DT_SONAME, 1),
        (_DT_HASH, hashes),
        (_DT_STRTAB, strings),
        (_DT_SYMTAB, symbols),
        (_DT_STRSZ, len(names)),
        (_DT_SYMENT, _SYMBOL),
        (_DT_NULL, 0),
    )
    identification = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = (_ET_DYN, _EM_X86_64, 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 3, 0, 0, 0)
    segments = (
        (_PT_LOAD, _READ_WRITE, 0, 0, 0, end, end, _PAGE),  # the loader writes addresses into the dynamic section
        (_PT_DYNAMIC, _READ_WRITE, dynamic, dynamic, dynamic, count * _ENTRY, count * _ENTRY, 8),
        (_PT_GNU_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16),
    )
    image = identification + struct.pack("<HHIQQQIHHHHHH", *header)
    image += b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in segments)
    image += b"".join(struct.pack("<QQ", *entry) for entry in entries)
    return (image + names).ljust(hashes, b"\0") + table
