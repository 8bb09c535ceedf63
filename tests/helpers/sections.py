"""Changes section headers of ELF files."""

from __future__ import annotations

import struct

__all__ = ["COMPRESSED", "NOBITS", "change_section"]

NOBITS, COMPRESSED = 8, 0x800
"""SHT_NOBITS and SHF_COMPRESSED (System V ABI, sections)."""
_FIELDS = {"type_": (4, "<I"), "flags": (8, "<Q"), "offset": (24, "<Q"), "size": (32, "<Q")}
"""Offset and format of fields of a section header of 64 bytes."""


def change_section(data: bytes, name: str, **fields: int) -> bytes:
    """Change fields of the header of a section: `type_`, `flags`, `offset` in the file and `size`, in bytes."""
    (headers,) = struct.unpack_from("<Q", data, 40)
    count, names_index = struct.unpack_from("<HH", data, 60)
    (names,) = struct.unpack_from("<Q", data, headers + 64 * names_index + 24)
    changed = bytearray(data)
    for at in range(headers, headers + 64 * count, 64):
        (place,) = struct.unpack_from("<I", data, at)
        if data[names + place :].startswith(name.encode() + b"\0"):
            for field, value in fields.items():
                offset, form = _FIELDS[field]
                struct.pack_into(form, changed, at + offset, value)
            return bytes(changed)
    raise AssertionError(name)
