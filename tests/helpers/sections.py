"""Changes headers of sections and the dynamic segment of ELF files."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["COMPRESSED", "NOBITS", "change_dynamic", "change_section", "repeat_section"]

NOBITS, COMPRESSED = 8, 0x800
"""SHT_NOBITS and SHF_COMPRESSED (System V ABI, sections)."""
_FIELDS = {
    "name_at": (0, "<I"),
    "type_": (4, "<I"),
    "flags": (8, "<Q"),
    "address": (16, "<Q"),
    "offset": (24, "<Q"),
    "size": (32, "<Q"),
}
"""Offset and format of fields of a section header of 64 bytes."""
_LOAD, _DYNAMIC = 1, 2
"""PT_LOAD and PT_DYNAMIC (program header)."""


def change_section(data: bytes, name: str, *, same_name_as: str | None = None, **fields: int) -> bytes:
    """Change fields of the header of a section: `type_`, `flags`, `address`, `offset` in the file and `size`, in bytes.

    With `same_name_as` it gets the name of another, with `name_at` that which begins there in the file.
    """
    changed = bytearray(data)
    at = _header(data, name)
    for field, value in fields.items():
        offset, form = _FIELDS[field]
        struct.pack_into(form, changed, at + offset, value - _names(data) if field == "name_at" else value)
    if same_name_as is not None:
        other = _header(data, same_name_as)
        changed[at : at + 4] = data[other : other + 4]
    return bytes(changed)


def repeat_section(data: bytes, name: str, count: int, **fields: int) -> bytes:
    """Add as many headers like that of the section, with fields changed as above."""
    (headers,), (number,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    at = _header(data, name)
    header = change_section(data, name, same_name_as=None, **fields)[at : at + 64]
    changed = bytearray(data + data[headers : headers + 64 * number] + header * count)
    struct.pack_into("<Q", changed, 40, len(data))
    struct.pack_into("<H", changed, 60, number + count)
    return bytes(changed)


def change_dynamic(data: bytes, entries: Sequence[tuple[int, int]]) -> bytes:
    """Give a library other dynamic entries, tags and values; its whole file is loaded from address 0 on."""
    changed = bytearray(data + b"".join(struct.pack("<qQ", *entry) for entry in entries))
    (headers,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    for at in range(headers, headers + 56 * count, 56):
        (type_,) = struct.unpack_from("<I", data, at)
        if type_ == _LOAD:
            struct.pack_into("<QQQQ", changed, at + 8, 0, 0, 0, len(changed))
        elif type_ == _DYNAMIC:
            struct.pack_into("<QQQQ", changed, at + 8, len(data), len(data), 0, len(changed) - len(data))
    return bytes(changed)


def _header(data: bytes, name: str) -> int:
    """Where the header of the section begins."""
    (headers,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    for at in range(headers, headers + 64 * count, 64):
        (place,) = struct.unpack_from("<I", data, at)
        if data[_names(data) + place :].startswith(name.encode() + b"\0"):
            return at
    raise AssertionError(name)


def _names(data: bytes) -> int:
    """Where the table of sections' names begins."""
    (headers,) = struct.unpack_from("<Q", data, 40)
    (index,) = struct.unpack_from("<H", data, 62)
    (names,) = struct.unpack_from("<Q", data, headers + 64 * index + 24)
    return int(names)
