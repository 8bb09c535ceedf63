"""Reads ELF files through pyelftools, which believes what they claim, so that hostile ones end too.

What pyelftools reads of a file, over and over where headers overlap or repeat, is limited by the file's size.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from typing import IO, Any, cast

__all__ = ["LONGEST", "ElfError", "ElfFile", "damaged"]

LONGEST = 1024
"""Characters of a name or message that are taken over: those of a hostile file are millions."""
_MAX_TABLES, _FREE, _RATIO = 16 << 20, 64 << 10, 4
"""Bytes of tables that are read of one file: at most so many, and so many times its size beyond what is free.

All that is asked of LLVM's library takes 10 MB; of 1500 libraries and cubins none took twice its size beyond 64 KB.
"""
_LEAST_READ = 32
"""Bytes that a read counts for at least: hostile tables have millions of small fields, which take pyelftools' time."""


class ElfError(Exception):
    """The bytes are no ELF file, or not of the kind asked for."""


class ElfFile:
    """An ELF file of 64 bits, little-endian, as pyelftools reads it. What it raises is for `foreign_errors`."""

    def __init__(self, stream: IO[bytes], *, machine: str, kind: str, type_: str) -> None:
        """Raise ElfError, also for a file of another machine or type."""
        from elftools.elf.elffile import ELFFile

        self.size = stream.seek(0, io.SEEK_END)
        self._tables = _Tables(stream, self.size)
        with self.foreign_errors():
            self.reader = ELFFile(cast("IO[bytes]", self._tables))
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
        self._tables.seek(section["sh_offset"])
        data = self._tables.read(section["sh_size"])
        if len(data) < section["sh_size"]:
            raise damaged(f"section {section.name} of {section['sh_size']} bytes at {section['sh_offset']}")
        return data

    @contextlib.contextmanager
    def foreign_errors(self) -> Iterator[None]:
        """Raise ElfError for whatever pyelftools raises: of a hostile file it is what its innards do."""
        from elftools.common.exceptions import ELFError
        from elftools.construct import ConstructError

        try:
            yield
        except (ELFError, ConstructError) as error:
            self._tables.check()
            message = f"is not a readable ELF file: {error}"[:LONGEST]
            raise ElfError(message) from error
        except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError) as error:
            raise damaged(f"{type(error).__name__}: {error}") from error
        except (RuntimeError, TypeError, ValueError, struct.error) as error:
            raise damaged(f"{type(error).__name__}: {error}") from error


class _Tables:
    """A stream that tables are read from: however long hostile headers make them, there is an end."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._read = stream.read
        self._limit = self._left = min(_MAX_TABLES, _FREE + _RATIO * size)
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        self._left -= max(_LEAST_READ, size)
        if self._left < 0:
            self.check()
        return self._read(size)

    def check(self) -> None:
        """Raise ElfError if too much was read: pyelftools makes errors of its own of it."""
        if self._left < 0:
            raise damaged(f"reading its tables takes more than {self._limit} bytes")


def damaged(problem: str) -> ElfError:
    """The error to raise."""
    return ElfError(f"is a damaged ELF file: {problem}"[:LONGEST])
