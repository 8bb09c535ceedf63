"""Reads the tables of ELF files that may be hostile, each in one bounded read.

Reading a file takes time and memory in proportion to its size, whatever its headers claim: there are at most 65535
sections, names are looked up in a table of limited size, and what is read of all sections is no more than the file has.
Numbers and layouts are those of the System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

__all__ = ["DynamicEntry", "ElfError", "ElfFile", "Section", "Symbol", "name_at"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_IDENT = b"\x7fELF\x02\x01"
"""64 bits, little-endian."""
_MACHINES = {62: "EM_X86_64", 183: "EM_AARCH64", 190: "EM_CUDA"}
_TYPES = {1: "ET_REL", 2: "ET_EXEC", 3: "ET_DYN", 4: "ET_CORE"}
_PT_LOAD, _PT_DYNAMIC = 1, 2
_LONGEST = 1024
"""Characters of a name that are read: those of a hostile file overlap, and are millions."""
_MAX_NAMES = 64 << 20
_MAX_TABLE = 24 << 20
"""Bytes of a table of strings, and of one of symbols or dynamic entries; libraries of frameworks have a third of it."""


class ElfError(Exception):
    """The bytes are no ELF file, or not of the kind asked for."""


class Section(NamedTuple):
    """A section header."""

    name: str
    address: int
    offset: int
    size: int
    link: int


class Symbol(NamedTuple):
    """What is read of a symbol."""

    name: str
    is_local: bool
    is_defined: bool


class DynamicEntry(NamedTuple):
    """An entry of the dynamic segment."""

    tag: int
    value: int


class ElfFile:
    """An ELF file of 64 bits, little-endian, in a seekable stream. Every method raises ElfError."""

    def __init__(self, stream: IO[bytes], *, machine: str, kind: str, type_: str) -> None:
        self._stream = stream
        self._size = stream.seek(0, io.SEEK_END)
        header = self._read(0, _HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(b"\x7fELF"):
            message = f"is not a readable ELF file: it begins with {header[:4]!r} and has {self._size} bytes"
            raise ElfError(message)
        (self.ident, type_number, machine_number, _, _, self._segments_at, sections_at, self.flags, *sizes) = (
            _HEADER.unpack(header)
        )
        _, self._segment_size, self._segment_count, section_size, count, names = sizes
        seen = (_MACHINES.get(machine_number, machine_number), _TYPES.get(type_number, type_number))
        if seen != (machine, type_) or not header.startswith(_IDENT):
            form = f"class {self.ident[4]}, byte order {self.ident[5]}"
            message = f"is not a {kind}: it is {seen[0]} {seen[1]}, ELF {form}"
            raise ElfError(message)
        self.sections = self._read_sections(sections_at, section_size, count, names)
        self._by_name: dict[str, list[Section]] = {}
        for section in self.sections:
            self._by_name.setdefault(section.name, []).append(section)
        self._left = self._size

    def section(self, name: str) -> Section | None:
        """The section of that name; it must not have two."""
        found = self._by_name.get(name, [])
        if len(found) > 1:
            message = f"is a damaged ELF file: it has {len(found)} sections {name}"
            raise ElfError(message)
        return found[0] if found else None

    def contents(self, section: Section, *, limit: int) -> bytes:
        """What stands in the file, as it stands there."""
        if section.size > min(limit, self._left) or section.offset + section.size > self._size:
            message = f"is a damaged ELF file: section {section.name} of {section.size} bytes at {section.offset}"
            raise ElfError(message)
        self._left -= section.size
        return self._read(section.offset, section.size)

    def part(self, section: Section, offset: int, size: int) -> bytes:
        """`size` bytes of the section from `offset` on; fewer where the file ends first."""
        at = section.offset + offset
        return self._read(at, max(0, min(size, self._size - at)))

    def symbols(self, table: Section, names: bytes) -> Iterator[Symbol]:
        """The entries of a symbol table, after the first, which is none."""
        data = self.contents(table, limit=_MAX_TABLE)
        whole = len(data) // _SYMBOL.size * _SYMBOL.size
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(data[_SYMBOL.size : whole]):
            yield Symbol(name_at(names, name), info >> 4 == 0, section != 0)

    def strings(self, table: Section) -> bytes:
        """The table of strings that a symbol table's header names."""
        if table.link >= len(self.sections):
            message = f"is a damaged ELF file: section {table.name} has strings in section {table.link}"
            raise ElfError(message)
        return self.contents(self.sections[table.link], limit=_MAX_NAMES)

    def dynamic(self) -> tuple[DynamicEntry, ...]:
        """The entries that the system's loader reads: those of the segment, whatever the sections say."""
        for type_, _, offset, _, _, size, _, _ in self._segments():
            if type_ == _PT_DYNAMIC:
                if size > _MAX_TABLE or offset + size > self._size:
                    message = f"is a damaged ELF file: a dynamic segment of {size} bytes at {offset}"
                    raise ElfError(message)
                data = self._read(offset, size // _DYNAMIC.size * _DYNAMIC.size)
                entries = []
                for entry in map(DynamicEntry._make, _DYNAMIC.iter_unpack(data)):
                    if entry.tag == 0:
                        break
                    entries.append(entry)
                return tuple(entries)
        message = "is a damaged ELF file: it has no dynamic segment"
        raise ElfError(message)

    def mapped(self, address: int, size: int) -> bytes:
        """What is loaded at an address."""
        for type_, _, offset, start, _, length, _, _ in self._segments():
            if type_ == _PT_LOAD and start <= address and address + size <= start + length and size <= _MAX_NAMES:
                return self._read(offset + address - start, size)
        message = f"is a damaged ELF file: {size} bytes at address {address:#x} are in no segment"
        raise ElfError(message)

    def _segments(self) -> Iterator[tuple[int, ...]]:
        data = self._table(self._segments_at, self._segment_size, self._segment_count, _SEGMENT, "segment")
        return _SEGMENT.iter_unpack(data)

    def _read_sections(self, at: int, size: int, count: int, names: int) -> tuple[Section, ...]:
        rows = [*_SECTION.iter_unpack(self._table(at, size, count, _SECTION, "section"))]
        if names >= count:
            message = f"is a damaged ELF file: section {names} of {count} has the names"
            raise ElfError(message)
        self._left = self._size
        _, _, _, _, offset, length, link, *_ = rows[names]
        strings = self.contents(Section(".shstrtab", 0, offset, length, link), limit=_MAX_NAMES)
        return tuple(
            Section(name_at(strings, name), address, offset, length, link)
            for name, _, _, address, offset, length, link, *_ in rows
        )

    def _table(self, at: int, size: int, count: int, row: struct.Struct, kind: str) -> bytes:
        if size != row.size or at + size * count > self._size:
            message = f"is a damaged ELF file: {count} {kind} headers of {size} bytes at {at}"
            raise ElfError(message)
        return self._read(at, size * count)

    def _read(self, at: int, size: int) -> bytes:
        if at > self._size:
            return b""
        self._stream.seek(at)
        return self._stream.read(min(size, self._size - at))


def name_at(strings: bytes, at: int) -> str:
    """The name that begins there in a table of strings; no more of it than any has."""
    end = strings.find(b"\0", at, at + _LONGEST)
    return strings[at : end if end >= 0 else at + _LONGEST].decode(errors="backslashreplace")
