"""Reads what cubins and plugin libraries say of themselves in their ELF structures.

The generic part of the format is pyelftools' work. What is particular to CUDA (header flags, `.nv.info` records)
is documented nowhere; it was measured on the output of ptxas 12.9 and 13.4, beside what cuobjdump prints.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, TypeVar

from hatch_tensoracle._elf_reader import LONGEST, ElfError, ElfFile, damaged

__all__ = ["CubinImage", "ElfError", "KernelImage", "LibraryImage", "read_cubin"]

T = TypeVar("T")

_ABI_BEFORE_SM100 = 7
_ABI_SM100 = 8
_RESERVED_SHARED = 1024
"""Bytes of `.nv.shared.*` that belong to the system from sm90 on."""

# Attributes of .nv.info records, under cuobjdump's names.
_REQNTID = 0x10
_FRAME_SIZE = 0x11
_KPARAM_INFO = 0x17
_REGCOUNT = 0x2F
_FORMAT_SIZED = 4

_MOST = 1000
"""Names of one table that are listed: a hostile library has millions."""


_REMEMBERED = 4096
_known: dict[str, CubinImage] = {}


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


def read_cubin(data: bytes, sha256: str | None = None) -> CubinImage:
    """Read one cubin. `sha256` is the digest of the bytes in hexadecimal, if it is known. Raises ElfError.

    A build looks at each five times: when it is compiled and checked, in the bundle, in the library and in the wheel.
    So what was read is remembered, by the digest of the bytes.
    """
    digest = sha256 or hashlib.sha256(data).hexdigest()
    image = _known.get(digest)
    if image is None:
        image = _read_cubin(data)
        if len(_known) >= _REMEMBERED:
            _known.clear()
        _known[digest] = image
    return image


def _read_cubin(data: bytes) -> CubinImage:
    elf = ElfFile(io.BytesIO(data), machine="EM_CUDA", kind="cubin", type_="ET_EXEC")
    with elf.foreign_errors():
        sm, architecture_specific = _sm(elf.reader.header)
        functions = _function_attributes(elf)
        kernels = [
            _kernel(name.removeprefix(".nv.info.")[:LONGEST], section, elf, functions, sm)
            for name, sections in elf.sections.items()
            if name.startswith(".nv.info.")
            for section in sections
        ]
        return CubinImage(
            sm=sm,
            architecture_specific=architecture_specific,
            kernels=tuple(kernel for kernel in kernels if kernel is not None),
        )


class LibraryImage:
    """A shared object on disk or in a seekable stream; sections are read on demand. Methods raise ElfError."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._elf = ElfFile(stream, machine="EM_X86_64", kind="shared object for x86-64", type_="ET_DYN")
        self._stream = stream

    def section_size(self, name: str) -> int | None:
        """Bytes of the section, None if there is no such section."""
        section = self._elf.section(name)
        return int(section["sh_size"]) if section is not None else None

    def read_section(self, name: str, offset: int, size: int) -> bytes:
        """`size` bytes of the section from `offset` on; fewer where the file ends first."""
        section = self._elf.section(name)
        if section is None:
            message = f"has no section {name}"
            raise ElfError(message)
        at = min(section["sh_offset"] + offset, self._elf.size)
        self._stream.seek(at)
        return self._stream.read(min(size, self._elf.size - at))

    def exports(self) -> tuple[str, ...]:
        """Names of the dynamic symbols that the library defines: a thousand of them, if it has more."""
        with self._elf.foreign_errors():
            return tuple(itertools.islice(self._exports(), _MOST))

    def lacks(self, *names: str) -> tuple[str, ...]:
        """Those of the names that the library does not export, however many it does."""
        from elftools.elf.hash import GNUHashTable

        with self._elf.foreign_errors():
            _, offset = self._segment.get_table_offset("DT_GNU_HASH")
            if offset is None:
                exported = set(self._exports())
            else:
                table = GNUHashTable(self._elf.reader, offset, self._segment)
                exported = {name for name in names if table.get_symbol(name) is not None}
            return tuple(name for name in names if name not in exported)

    def dynamic(self, *tags: str) -> tuple[str, ...]:
        """Values of the string entries of the dynamic segment with one of the tags: `needed`, `rpath`, `runpath`."""
        wanted = {f"DT_{tag.upper()}" for tag in tags}
        with self._elf.foreign_errors():
            found = (tag["d_val"] for tag in self._segment.iter_tags() if tag["d_tag"] in wanted)
            return tuple(self._string(at) for at in _all(found, "such entries in the dynamic segment"))

    @cached_property
    def _segment(self) -> Any:
        """What the loader goes by, whatever the headers of sections say."""
        segments = list(self._elf.reader.iter_segments(type="PT_DYNAMIC"))
        if len(segments) != 1:
            raise damaged(f"it has {len(segments)} dynamic segments")
        return segments[0]

    @cached_property
    def _strings(self) -> int:
        return self._offset("DT_STRTAB")

    def _offset(self, tag: str) -> int:
        if (count := sum(1 for _ in self._segment.iter_tags(tag))) > 1:  # the loader takes the last one
            raise damaged(f"it has {count} entries {tag}")
        _, offset = self._segment.get_table_offset(tag)
        if offset is None:
            raise damaged(f"it has no {tag} that is loaded")
        return int(offset)

    def _string(self, at: int) -> str:
        from elftools.common.utils import parse_cstring_from_stream

        name = parse_cstring_from_stream(self._elf.reader.stream, self._strings + at) or b""
        return name[:LONGEST].decode(errors="backslashreplace")

    def version_needs(self) -> tuple[tuple[str, str], ...]:
        """What the library needs of others at load time: their names and versions of symbols, such as `GLIBC_2.34`."""
        with self._elf.foreign_errors():
            has_needs = any(True for _ in self._segment.iter_tags("DT_VERNEED"))
            return _all(self._version_needs(), "versions of symbols needed") if has_needs else ()

    def _version_needs(self) -> Iterator[tuple[str, str]]:
        """Follow the offsets as the loader does, which believes no count."""
        from elftools.common.utils import struct_parse

        structs, stream, at = self._elf.reader.structs, self._elf.reader.stream, self._offset("DT_VERNEED")
        while True:
            needed = struct_parse(structs.Elf_Verneed, stream, at)
            version_at = at + needed["vn_aux"]
            while True:
                version = struct_parse(structs.Elf_Vernaux, stream, version_at)
                yield self._string(needed["vn_file"]), self._string(version["vna_name"])
                if not version["vna_next"]:
                    break
                version_at += version["vna_next"]
            if not needed["vn_next"]:
                break
            at += needed["vn_next"]

    def _exports(self) -> Iterator[str]:
        from elftools.common.utils import struct_parse

        layout, start = self._elf.reader.structs.Elf_Sym, self._offset("DT_SYMTAB")
        for index in range(self._segment.num_symbols()):
            symbol = struct_parse(layout, self._elf.reader.stream, start + index * layout.sizeof())
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL":
                yield self._string(symbol["st_name"])


def _all(values: Iterable[T], what: str) -> tuple[T, ...]:
    """What the library is judged by: none may be left out."""
    found = tuple(itertools.islice(values, _MOST + 1))
    if len(found) > _MOST:
        raise damaged(f"it has more than {_MOST} {what}")
    return found


def _sm(header: Any) -> tuple[int, bool | None]:
    abi, flags = header.e_ident.EI_ABIVERSION, header.e_flags
    if abi == _ABI_BEFORE_SM100:
        return flags & 0xFF, bool(flags & 0x800)
    if abi == _ABI_SM100:
        return (flags >> 8) & 0xFF, True if flags & 0x8 else None
    message = f"has CUDA ABI version {abi}; this release reads {_ABI_BEFORE_SM100} and {_ABI_SM100}"
    raise ElfError(message)


def _attributes(elf: ElfFile, section: Any) -> Iterator[tuple[int, bytes]]:
    data, at = elf.contents(section), 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        size = value if form == _FORMAT_SIZED else 0
        if at + size > len(data):
            raise damaged(f"it has a record beyond the end of {section.name}")
        yield attribute, data[at : at + size]
        at += size


def _function_attributes(elf: ElfFile) -> dict[tuple[int, str], int]:
    """The records of .nv.info, which name a function each: (attribute, symbol) -> value."""
    info, symbols = elf.section(".nv.info"), elf.section(".symtab")
    found = {}
    for attribute, payload in _attributes(elf, info) if info is not None else ():
        if attribute in {_REGCOUNT, _FRAME_SIZE}:
            index, value = struct.unpack("<II", payload)
            found[attribute, symbols.get_symbol(index).name[:LONGEST]] = value
    return found


def _kernel(symbol: str, info: Any, elf: ElfFile, functions: dict[tuple[int, str], int], sm: int) -> KernelImage | None:
    if f".nv.constant0.{symbol}" not in elf.sections:
        return None  # a device function: only entry functions have the constant bank of parameters, even of none
    parameters = {}
    threads = 0
    for attribute, payload in _attributes(elf, info):
        if attribute == _KPARAM_INFO:
            _, ordinal, offset, packed = struct.unpack("<IHHI", payload)
            parameters[ordinal] = (offset, packed >> 18)
        elif attribute == _REQNTID:
            x, y, z = struct.unpack("<III", payload)
            threads = x * y * z
    shared = elf.section(f".nv.shared.{symbol}")
    reserved = _RESERVED_SHARED if sm >= 90 else 0  # noqa: PLR2004 - the SM that introduced it
    return KernelImage(
        symbol=symbol,
        parameters=tuple(parameters[ordinal] for ordinal in sorted(parameters)),
        registers=functions[_REGCOUNT, symbol],
        local_bytes=functions[_FRAME_SIZE, symbol],
        static_shared=max(0, shared["sh_size"] - reserved) if shared is not None else 0,
        threads=threads,
    )
