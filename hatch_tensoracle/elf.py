"""Reads what cubins and plugin libraries say of themselves in their ELF structures.

What is particular to CUDA (header flags, `.nv.info` records) is documented nowhere; it was measured on the output of
ptxas 12.9 and 13.4, beside what cuobjdump prints.
"""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from hatch_tensoracle._elf_file import ElfError, ElfFile, Section, name_at

__all__ = ["CubinImage", "ElfError", "KernelImage", "LibraryImage", "read_cubin"]

_ABI_BEFORE_SM100 = 7
_ABI_SM100 = 8
_RESERVED_SHARED = 1024
"""Bytes of `.nv.shared.*` that belong to the system from sm90 on."""

# Attributes of .nv.info records, under cuobjdump's names.
_REQNTID = 0x10
_FRAME_SIZE = 0x11
_KPARAM_INFO = 0x17
_PARAM_CBANK = 0x0A
_REGCOUNT = 0x2F
_FORMAT_SIZED = 4

_MOST = 1000
"""Names of one table that are listed: a hostile library has millions."""
_MAX_INFO = 1 << 20
"""Bytes of one `.nv.info` section."""

# Tags of dynamic entries.
_NEEDED, _STRTAB, _SYMTAB, _STRSZ, _RPATH, _RUNPATH = 1, 5, 6, 10, 15, 29
_TAGS = {"needed": _NEEDED, "rpath": _RPATH, "runpath": _RUNPATH}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelImage:
    """One entry function of a cubin."""

    symbol: str
    parameters: tuple[tuple[int, int], ...]
    """Offset and size in bytes of each parameter, in order."""
    registers: int
    local_bytes: int
    static_shared: int
    threads: int
    """Per block along x, as the kernel requires them; 0 if it leaves them open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CubinImage:
    """What a cubin says of itself."""

    sm: int
    architecture_specific: bool | None
    """None where the header does not tell: ptxas 13 marks sm_90a like sm_90."""
    kernels: tuple[KernelImage, ...]


def read_cubin(data: bytes) -> CubinImage:
    """Read one cubin. Raises ElfError."""
    elf = ElfFile(io.BytesIO(data), machine="EM_CUDA", kind="cubin", type_="ET_EXEC")
    sm, architecture_specific = _sm(elf)
    try:
        functions = _function_attributes(elf)
        infos = [section for section in elf.sections if section.name.startswith(".nv.info.")]
        kernels = [_kernel(section, elf, functions, sm) for section in infos]
    except (LookupError, struct.error) as error:  # records that lack a part, or are of other lengths
        message = f"is a damaged ELF file: {type(error).__name__}: {error}"
        raise ElfError(message) from error
    return CubinImage(
        sm=sm,
        architecture_specific=architecture_specific,
        kernels=tuple(kernel for kernel in kernels if kernel is not None),
    )


class LibraryImage:
    """A shared object on disk or in a seekable stream; sections are read on demand. Methods raise ElfError."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._elf = ElfFile(stream, machine="EM_X86_64", kind="shared object for x86-64", type_="ET_DYN")

    def section_size(self, name: str) -> int | None:
        """Bytes of the section, None if there is no such section."""
        section = self._elf.section(name)
        return section.size if section is not None else None

    def read_section(self, name: str, offset: int, size: int) -> bytes:
        """`size` bytes of the section from `offset` on; fewer where the file ends first."""
        section = self._elf.section(name)
        if section is None:
            message = f"has no section {name}"
            raise ElfError(message)
        return self._elf.part(section, offset, size)

    def exports(self) -> tuple[str, ...]:
        """Names of the dynamic symbols that the library defines: a thousand of them, if it has more."""
        return tuple(itertools.islice(self._exports(), _MOST))

    def lacks(self, *names: str) -> tuple[str, ...]:
        """Those of the names that the library does not export, however many it does."""
        found: set[str] = set()
        for name in self._exports():
            if name in names:
                found.add(name)
                if len(found) == len(names):
                    break
        return tuple(name for name in names if name not in found)

    def dynamic(self, *tags: str) -> tuple[str, ...]:
        """Values of the string entries of the dynamic segment with one of the tags: `needed`, `rpath`, `runpath`."""
        wanted = {_TAGS[tag] for tag in tags}
        entries = self._elf.dynamic()
        found = [entry.value for entry in entries if entry.tag in wanted]
        strings = self._strings(dict(entries)) if found else b""
        return tuple(name_at(strings, at) for at in found[:_MOST])

    def _exports(self) -> Iterator[str]:
        # The loader finds symbols by address; that a section stands there gives their number too.
        values = dict(self._elf.dynamic())
        table = self._elf.section(".dynsym")
        if table is None or table.address != values.get(_SYMTAB):
            message = "is a damaged ELF file: section .dynsym is not where its dynamic segment has the symbols"
            raise ElfError(message)
        for symbol in self._elf.symbols(table, self._strings(values)):
            if symbol.is_defined and not symbol.is_local:
                yield symbol.name

    def _strings(self, values: dict[int, int]) -> bytes:
        return self._elf.mapped(values.get(_STRTAB, 0), values.get(_STRSZ, 0))


def _sm(elf: ElfFile) -> tuple[int, bool | None]:
    abi, flags = elf.ident[8], elf.flags
    if abi == _ABI_BEFORE_SM100:
        return flags & 0xFF, bool(flags & 0x800)
    if abi == _ABI_SM100:
        return (flags >> 8) & 0xFF, True if flags & 0x8 else None
    message = f"has CUDA ABI version {abi}; this release reads {_ABI_BEFORE_SM100} and {_ABI_SM100}"
    raise ElfError(message)


def _attributes(elf: ElfFile, section: Section) -> Iterator[tuple[int, bytes]]:
    data, at = elf.contents(section, limit=_MAX_INFO), 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        size = value if form == _FORMAT_SIZED else 0
        if at + size > len(data):
            message = f"has a record beyond the end of {section.name}"
            raise ElfError(message)
        yield attribute, data[at : at + size]
        at += size


def _function_attributes(elf: ElfFile) -> dict[tuple[int, str], int]:
    """The records of .nv.info, which name a function each: (attribute, symbol) -> value."""
    info, table = elf.section(".nv.info"), elf.section(".symtab")
    if info is None or table is None:
        return {}
    symbols = ["", *(symbol.name for symbol in elf.symbols(table, elf.strings(table)))]
    found = {}
    for attribute, payload in _attributes(elf, info):
        if attribute in {_REGCOUNT, _FRAME_SIZE}:
            index, value = struct.unpack("<II", payload)
            found[attribute, symbols[index]] = value
    return found


def _kernel(info: Section, elf: ElfFile, functions: dict[tuple[int, str], int], sm: int) -> KernelImage | None:
    records = list(_attributes(elf, info))
    if not any(attribute == _PARAM_CBANK for attribute, _ in records):
        return None  # a device function: only entry functions have a parameter bank
    parameters = {}
    threads = 0
    for attribute, payload in records:
        if attribute == _KPARAM_INFO:
            _, ordinal, offset, packed = struct.unpack("<IHHI", payload)
            parameters[ordinal] = (offset, packed >> 18)
        elif attribute == _REQNTID:
            x, y, z = struct.unpack("<III", payload)
            threads = x * y * z
    symbol = info.name.removeprefix(".nv.info.")
    shared = elf.section(f".nv.shared.{symbol}")
    reserved = _RESERVED_SHARED if sm >= 90 else 0  # noqa: PLR2004 - the SM that introduced it
    return KernelImage(
        symbol=symbol,
        parameters=tuple(parameters[ordinal] for ordinal in sorted(parameters)),
        registers=functions[_REGCOUNT, symbol],
        local_bytes=functions[_FRAME_SIZE, symbol],
        static_shared=max(0, shared.size - reserved) if shared is not None else 0,
        threads=threads,
    )
