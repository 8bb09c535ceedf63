"""Checks of one cubin or PTX against what the manifest says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from hatch_tensoracle.bundle import POINTER_SIZE, Code, Cubin, Entry, Ptx
from hatch_tensoracle.elf import CubinImage, ElfError, KernelImage, read_cubin
from hatch_tensoracle.errors import (
    BundleError,
    CorruptCubinError,
    CorruptPtxError,
    EntryAbiError,
    FalsePtxError,
    FalseSmError,
    ResourceMismatchError,
    ScratchError,
)
from hatch_tensoracle.occupancy import MOST_REGISTERS, occupancy_of
from hatch_tensoracle.ptx import PtxEntry, PtxError, PtxImage, read_ptx
from hatch_tensoracle.targets import MAX_THREADS, TARGETS

__all__ = ["check_code"]

_HIDDEN_PARAMETERS = (POINTER_SIZE, POINTER_SIZE)
"""Sizes of what Triton 3.6 to 3.9 append to the parameters: pointers to global and profile scratch memory."""


def check_code(entry: Entry, code: Code, data: bytes, where: str) -> Iterator[BundleError]:
    """Yield every defect of the cubin or PTX whose bytes are `data`."""
    where = f"{where}: kernel `{entry.label}` for {code.label}"
    digest = hashlib.sha256(data).hexdigest()
    if len(data) != code.size or digest != code.sha256:
        yield (CorruptPtxError if isinstance(code, Ptx) else CorruptCubinError)(
            f"{len(data)} bytes with SHA-256 {digest[:16]}...,"
            f" the manifest has {code.size} bytes with {code.sha256[:16]}...",
            where=where,
        )
    elif isinstance(code, Ptx):
        yield from _check_ptx(entry, code, data, where)
    else:
        yield from _check_cubin(entry, code, data, where)


def _check_cubin(entry: Entry, cubin: Cubin, data: bytes, where: str) -> Iterator[BundleError]:
    """Whose bytes have the digest of the manifest."""
    try:
        image = read_cubin(data, cubin.sha256)
    except ElfError as error:
        yield CorruptCubinError(str(error), where=where)
        return
    yield from _check_sm(cubin, image, where)
    symbols = [kernel.symbol for kernel in image.kernels]
    if symbols != [entry.symbol]:
        yield EntryAbiError(f"entry functions {symbols}, the manifest has `{entry.symbol}` alone", where=where)
        return
    yield from _check_parameters(entry, image.kernels[0], where)
    yield from _check_resources(cubin, image.kernels[0], where)
    yield from _check_launch(cubin, cubin.static_shared, where)
    if (occupancy := occupancy_of(cubin)).blocks == 0 and occupancy.limit == "registers":
        yield ResourceMismatchError(
            f"{cubin.registers} registers a thread for {cubin.threads} threads a block; a block has {MOST_REGISTERS}",
            where=where,
            remedy="Use fewer warps or a lower maxnreg.",
        )


def _check_ptx(entry: Entry, ptx: Ptx, data: bytes, where: str) -> Iterator[BundleError]:
    try:
        image = read_ptx(data)
    except PtxError as error:
        yield CorruptPtxError(str(error), where=where)
        return
    for directive, seen, said in (
        (".version", image.version, ptx.version),
        (".target", image.target, f"sm_{TARGETS[ptx.target].sm}"),
    ):
        if seen != said:
            yield FalsePtxError(f"says {directive} {seen}, the manifest has {said}", where=where)
    symbols = [function.symbol for function in image.entries]
    if symbols != [entry.symbol]:
        yield EntryAbiError(f"entry functions {symbols}, the manifest has `{entry.symbol}` alone", where=where)
        return
    yield from _check_ptx_entry(entry, ptx, image, image.entries[0], where)
    yield from _check_launch(ptx, 0, where)


def _check_ptx_entry(entry: Entry, ptx: Ptx, image: PtxImage, function: PtxEntry, where: str) -> Iterator[BundleError]:
    expected = (*(argument.size for argument in entry.parameters), *_HIDDEN_PARAMETERS)
    if function.parameters != expected:
        yield EntryAbiError(
            f"kernel parameters of {' '.join(map(str, function.parameters))} bytes; the declared arguments and"
            f" {len(_HIDDEN_PARAMETERS)} scratch pointers make {' '.join(map(str, expected))}",
            where=where,
        )
    if function.threads != ptx.threads:
        yield ResourceMismatchError(f"threads {function.threads}, the manifest has {ptx.threads}", where=where)
    if image.has_static_shared:
        yield ResourceMismatchError("shared memory of fixed size, of which the manifest has none", where=where)


def _check_sm(cubin: Cubin, image: CubinImage, where: str) -> Iterator[BundleError]:
    if image.sm != TARGETS[cubin.target].sm:
        yield FalseSmError(f"the ELF header says sm{image.sm}", where=where)
    elif image.architecture_specific not in {None, cubin.architecture_specific}:
        form = "has" if image.architecture_specific else "has not"
        yield FalseSmError(
            f"the ELF header {form} the mark of an architecture-specific cubin,"
            f" the manifest says {cubin.architecture_specific}",
            where=where,
        )


def _check_parameters(entry: Entry, kernel: KernelImage, where: str) -> Iterator[BundleError]:
    sizes = [argument.size for argument in entry.parameters]
    expected = _layout([*sizes, *_HIDDEN_PARAMETERS])
    if kernel.parameters != expected:
        yield EntryAbiError(
            f"kernel parameters (offset, size) {_shown(kernel.parameters)}; the declared arguments and"
            f" {len(_HIDDEN_PARAMETERS)} scratch pointers make {_shown(expected)}",
            where=where,
        )


def _check_resources(cubin: Cubin, kernel: KernelImage, where: str) -> Iterator[BundleError]:
    for name in ("registers", "local_bytes", "static_shared", "threads"):
        seen, said = getattr(kernel, name), getattr(cubin, name)
        if seen != said:
            yield ResourceMismatchError(f"{name} {seen}, the manifest has {said}", where=where)


def _check_launch(code: Code, static_shared: int, where: str) -> Iterator[BundleError]:
    """What a launch asks for must be there on the target."""
    limit = TARGETS[code.target].max_shared
    if code.dynamic_shared < 0 or code.dynamic_shared + static_shared > limit:
        yield ResourceMismatchError(
            f"{code.dynamic_shared} bytes of dynamic and {static_shared} of static shared memory a block;"
            f" {code.target} has {limit}",
            where=where,
            remedy="Use smaller blocks or fewer stages.",
        )
    if not 1 <= code.threads <= MAX_THREADS:
        yield ResourceMismatchError(
            f"{code.threads} threads a block, from 1 to {MAX_THREADS} can run",
            where=where,
            remedy="Use fewer warps.",
        )
    if code.scratch:
        yield ScratchError(
            f"needs {code.scratch} bytes of scratch memory",
            where=where,
            remedy="Use pointers instead of device-side tensor descriptors, or leave this target out.",
        )


def _layout(sizes: list[int]) -> tuple[tuple[int, int], ...]:
    """Offset and size of parameters that are each aligned to their own size."""
    layout, end = [], 0
    for size in sizes:
        offset = -(-end // size) * size
        layout.append((offset, size))
        end = offset + size
    return tuple(layout)


def _shown(parameters: tuple[tuple[int, int], ...]) -> str:
    return " ".join(f"{offset}+{size}" for offset, size in parameters) or "none"
