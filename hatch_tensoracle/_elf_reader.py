"""Reads ELF files through pyelftools, which believes what they claim, so that hostile ones end too.

All that pyelftools reads of a file, over and over where headers overlap or repeat, is within a fixed number of bytes.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from typing import IO, Any, cast

__all__ = ["LONGEST", "ElfError", "ElfFile", "damaged", "foreign_errors"]

LONGEST = 1024
"""Characters of a name or message that are taken over: those of a hostile file are millions."""
_MAX_TABLES = 16 << 20
"""Bytes of tables that are read of one file; of frameworks' libraries it takes at most a third."""
_LEAST_READ = 32
"""Bytes that a read counts for at least: hostile tables have millions of small fields, which take pyelftools' time."""


class ElfError(Exception):
    """The bytes are no ELF file, or not of the kind asked for."""


class _Tables:
    """A stream that tables are read from: however long hostile headers make them, there is an end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = _MAX_TABLES
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        self._left -= max(size, _LEAST_READ)
        if self._left < 0:
            raise damaged(f"reading its tables takes more than {_MAX_TABLES} bytes")
        return self._stream.read(size)


class ElfFile:
    """An ELF file of 64 bits, little-endian, as pyelftools reads it."""

    def __init__(self, stream: IO[bytes], *, machine: str, kind: str, type_: str) -> None:
        from elftools.elf.elffile import ELFFile

        self.size = stream.seek(0, io.SEEK_END)
        self.tables = cast("IO[bytes]", _Tables(stream))
        self.reader = ELFFile(self.tables)
        header = self.reader.header
        seen = (header.e_machine, header.e_type, self.reader.elfclass, self.reader.little_endian)
        if seen != (machine, type_, 64, True):
            order = "little" if self.reader.little_endian else "big"
            message = f"is not a {kind}: it is {seen[0]} {seen[1]}, {seen[2]} bits, {order}-endian"
            raise ElfError(message)
        self.sections: dict[str, list[Any]] = {}
        for section in self.reader.iter_sections():
            self.sections.setdefault(section.name, []).append(section)

    def section(self, name: str) -> Any:
        """The section of that name, None if there is none; it must not have two."""
        found = self.sections.get(name, [])
        if len(found) > 1:
            raise damaged(f"it has {len(found)} sections {name}")
        return found[0] if found else None

    def contents(self, section: Any) -> bytes:
        """What stands in the file: pyelftools would unpack a compressed section, and make up one without bytes."""
        self.tables.seek(section["sh_offset"])
        data = self.tables.read(section["sh_size"])
        if len(data) < section["sh_size"]:
            raise damaged(f"section {section.name} ends {section['sh_size'] - len(data)} bytes beyond its end")
        return data


def damaged(problem: str) -> ElfError:
    """The error to raise."""
    return ElfError(f"is a damaged ELF file: {problem}"[:LONGEST])


@contextlib.contextmanager
def foreign_errors() -> Iterator[None]:
    """Raise ElfError for whatever pyelftools raises, which of a hostile file is what its innards do."""
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError

    try:
        yield
    except (ELFError, ConstructError) as error:
        message = f"is not a readable ELF file: {error}"[:LONGEST]
        raise ElfError(message) from error
    except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError) as error:
        raise damaged(f"{type(error).__name__}: {error}") from error
    except (RuntimeError, TypeError, ValueError, struct.error) as error:
        raise damaged(f"{type(error).__name__}: {error}") from error
