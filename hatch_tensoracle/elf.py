"""Reads what cubins and plugin libraries say of themselves in their ELF structures.

The generic part of the format is pyelftools' work. What is particular to CUDA (header flags, `.nv.info` records)
is documented nowhere; it was measured on the output of ptxas 12.9 and 13.4, beside what cuobjdump prints.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

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

_MOST, _LONGEST = 1000, 200
"""Names of one table that are read, and characters of each: a hostile library has millions that overlap."""


class ElfError(Exception):
    """The bytes are no ELF file, or not of the kind asked for."""


_REMEMBERED = 4096
_known: dict[bytes, CubinImage] = {}


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
    """Read one cubin. Raises ElfError.

    A build looks at each five times: when it is compiled and checked, in the bundle, in the library and in the wheel.
    So what was read is remembered, by the digest of the bytes.
    """
    digest = hashlib.sha256(data).digest()
    image = _known.get(digest)
    if image is None:
        image = _read_cubin(data)
        if len(_known) >= _REMEMBERED:
            _known.clear()
        _known[digest] = image
    return image


def _read_cubin(data: bytes) -> CubinImage:
    with _foreign_errors():
        elf = _open(io.BytesIO(data), machine="EM_CUDA", kind="cubin")
        sm, architecture_specific = _sm(elf)
        sections = {section.name: section for section in elf.iter_sections()}
        functions = _function_attributes(sections)
        kernels = [
            _kernel(name.removeprefix(".nv.info."), section, sections, functions, sm)
            for name, section in sections.items()
            if name.startswith(".nv.info.")
        ]
        return CubinImage(
            sm=sm,
            architecture_specific=architecture_specific,
            kernels=tuple(kernel for kernel in kernels if kernel is not None),
        )


class LibraryImage:
    """A shared object on disk or in a seekable stream; sections are read on demand. Methods raise ElfError."""

    def __init__(self, stream: IO[bytes]) -> None:
        with _foreign_errors():
            self._elf = _open(stream, machine="EM_X86_64", kind="shared object for x86-64", type_="ET_DYN")
            self._stream = stream
            self._size = stream.seek(0, io.SEEK_END)
            self._sections = {section.name: section.header for section in self._elf.iter_sections()}

    def section_size(self, name: str) -> int | None:
        """Bytes of the section, None if there is no such section."""
        return int(self._sections[name].sh_size) if name in self._sections else None

    def read_section(self, name: str, offset: int, size: int) -> bytes:
        """`size` bytes of the section from `offset` on; fewer where the file ends first."""
        at = min(self._sections[name].sh_offset + offset, self._size)
        self._stream.seek(at)
        return self._stream.read(min(size, self._size - at))

    def exports(self) -> tuple[str, ...]:
        """Names of the dynamic symbols that the library defines."""
        with _foreign_errors():
            return tuple(itertools.islice(self._exports(), _MOST))

    def lacks(self, *names: str) -> tuple[str, ...]:
        """Those of the names that the library does not export, however many it does."""
        with _foreign_errors():
            found: set[str] = set()
            for name in self._exports():
                if name in names:
                    found.add(name)
                    if len(found) == len(names):
                        break
            return tuple(name for name in names if name not in found)

    def dynamic(self, *tags: str) -> tuple[str, ...]:
        """Values of the string entries of the dynamic section with one of the tags: `needed`, `rpath`, `runpath`."""
        with _foreign_errors():
            section = self._elf.get_section_by_name(".dynamic")
            values = (
                str(getattr(entry, tag))[:_LONGEST]
                for entry in (section.iter_tags() if section else ())
                for tag in tags
                if entry.entry.d_tag == f"DT_{tag.upper()}"
            )
            return tuple(itertools.islice(values, _MOST))

    def version_needs(self) -> tuple[tuple[str, str], ...]:
        """What the library needs of others at load time: their names and versions of symbols, such as `GLIBC_2.34`."""
        with _foreign_errors():
            section = self._elf.get_section_by_name(".gnu.version_r")
            needs = (
                (needed.name[:_LONGEST], version.name[:_LONGEST])
                for needed, versions in (section.iter_versions() if section else ())
                for version in versions
            )
            return tuple(itertools.islice(needs, _MOST))

    def _exports(self) -> Iterator[str]:
        table = self._elf.get_section_by_name(".dynsym")
        for symbol in table.iter_symbols() if table else ():
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL":
                yield symbol.name[:_LONGEST]


@contextlib.contextmanager
def _foreign_errors() -> Iterator[None]:
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError

    # A hostile file makes pyelftools raise what its innards raise (seen: struct, key, type, value and index errors).
    try:
        yield
    except (ELFError, ConstructError) as error:
        message = f"is not a readable ELF file: {error}"
        raise ElfError(message) from error
    except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError) as error:
        message = f"is a damaged ELF file: {type(error).__name__}: {error}"
        raise ElfError(message) from error
    except (OSError, RecursionError, TypeError, ValueError, struct.error) as error:
        message = f"is a damaged ELF file: {type(error).__name__}: {error}"
        raise ElfError(message) from error


def _open(stream: IO[bytes], *, machine: str, kind: str, type_: str = "ET_EXEC") -> Any:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(stream)
    seen = (elf.header.e_machine, elf.header.e_type, elf.elfclass, elf.little_endian)
    if seen != (machine, type_, 64, True):
        message = f"is not a {kind}: it is {seen[0]} {seen[1]}, {seen[2]} bits"
        raise ElfError(message)
    return elf


def _sm(elf: Any) -> tuple[int, bool | None]:
    abi, flags = elf.header.e_ident.EI_ABIVERSION, elf.header.e_flags
    if abi == _ABI_BEFORE_SM100:
        return flags & 0xFF, bool(flags & 0x800)
    if abi == _ABI_SM100:
        return (flags >> 8) & 0xFF, True if flags & 0x8 else None
    message = f"has CUDA ABI version {abi}; this release reads {_ABI_BEFORE_SM100} and {_ABI_SM100}"
    raise ElfError(message)


def _attributes(section: Any) -> Iterator[tuple[int, bytes]]:
    # As it stands in the file: pyelftools would unpack one that says it is compressed, and make up one without bytes.
    section.stream.seek(section["sh_offset"])
    data, at = section.stream.read(section["sh_size"]), 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        size = value if form == _FORMAT_SIZED else 0
        if at + size > len(data):
            message = f"has a record beyond the end of {section.name}"
            raise ElfError(message)
        yield attribute, data[at : at + size]
        at += size


def _function_attributes(sections: dict[str, Any]) -> dict[tuple[int, str], int]:
    """The records of .nv.info, which name a function each: (attribute, symbol) -> value."""
    found = {}
    for attribute, payload in _attributes(sections[".nv.info"]) if ".nv.info" in sections else ():
        if attribute in {_REGCOUNT, _FRAME_SIZE}:
            index, value = struct.unpack("<II", payload)
            found[attribute, sections[".symtab"].get_symbol(index).name] = value
    return found


def _kernel(
    symbol: str, info: Any, sections: dict[str, Any], functions: dict[tuple[int, str], int], sm: int
) -> KernelImage | None:
    records = list(_attributes(info))
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
    shared = sections.get(f".nv.shared.{symbol}")
    reserved = _RESERVED_SHARED if sm >= 90 else 0  # noqa: PLR2004 - the SM that introduced it
    return KernelImage(
        symbol=symbol,
        parameters=tuple(parameters[ordinal] for ordinal in sorted(parameters)),
        registers=functions[_REGCOUNT, symbol],
        local_bytes=functions[_FRAME_SIZE, symbol],
        static_shared=max(0, shared["sh_size"] - reserved) if shared else 0,
        threads=threads,
    )
