"""Changes section headers of ELF files."""

from __future__ import annotations

import struct

__all__ = ["COMPRESSED", "NOBITS", "change_section"]

NOBITS, COMPRESSED = 8, 0x800
"""SHT_NOBITS and SHF_COMPRESSED (System V ABI, sections)."""
_FIELDS = {"type_": (4, "<I"), "flags": (8, "<Q"), "address": (16, "<Q"), "offset": (24, "<Q"), "size": (32, "<Q")}
"""Offset and format of fields of a section header of 64 bytes."""


def change_section(data: bytes, name: str, *, same_name_as: str | None = None, **fields: int) -> bytes:
    """Change fields of the header of a section: `type_`, `flags`, `address`, `offset` in the file and `size`, in bytes.

    With `same_name_as` it gets the name of another.
    """
    changed = bytearray(data)
    at = _header(data, name)
    for field, value in fields.items():
        offset, form = _FIELDS[field]
        struct.pack_into(form, changed, at + offset, value)
    if same_name_as is not None:
        other = _header(data, same_name_as)
        changed[at : at + 4] = data[other : other + 4]
    return bytes(changed)


def _header(data: bytes, name: str) -> int:
    """Where the header of the section begins."""
    (headers,) = struct.unpack_from("<Q", data, 40)
    count, names_index = struct.unpack_from("<HH", data, 60)
    (names,) = struct.unpack_from("<Q", data, headers + 64 * names_index + 24)
    for at in range(headers, headers + 64 * count, 64):
        (place,) = struct.unpack_from("<I", data, at)
        if data[names + place :].startswith(name.encode() + b"\0"):
            return at
    raise AssertionError(name)
