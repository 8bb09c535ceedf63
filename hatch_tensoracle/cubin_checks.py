"""Checks of one cubin against what the manifest says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from hatch_tensoracle.bundle import POINTER_SIZE, Cubin, Entry
from hatch_tensoracle.elf import CubinImage, ElfError, KernelImage, read_cubin
from hatch_tensoracle.errors import (
    BundleError,
    CorruptCubinError,
    EntryAbiError,
    FalseSmError,
    ResourceMismatchError,
    ScratchError,
)
from hatch_tensoracle.targets import MAX_THREADS, TARGETS

__all__ = ["HIDDEN_PARAMETERS", "check_cubin"]

HIDDEN_PARAMETERS = (POINTER_SIZE, POINTER_SIZE)
"""Sizes of what Triton 3.6 to 3.9 append to the parameters: pointers to global and profile scratch memory."""


def check_cubin(entry: Entry, cubin: Cubin, data: bytes, where: str) -> Iterator[BundleError]:
    """Yield every defect of the cubin whose bytes are `data`."""
    where = f"{where}: kernel `{entry.label}` for {cubin.target}"
    if len(data) != cubin.size or hashlib.sha256(data).hexdigest() != cubin.sha256:
        yield CorruptCubinError(
            f"{len(data)} bytes with SHA-256 {hashlib.sha256(data).hexdigest()[:16]}...,"
            f" the manifest has {cubin.size} bytes with {cubin.sha256[:16]}...",
            where=where,
        )
        return
    try:
        image = read_cubin(data)
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
    expected = _layout([*sizes, *HIDDEN_PARAMETERS])
    if kernel.parameters != expected:
        yield EntryAbiError(
            f"kernel parameters (offset, size) {_shown(kernel.parameters)}; the declared arguments and"
            f" {len(HIDDEN_PARAMETERS)} scratch pointers make {_shown(expected)}",
            where=where,
        )


def _check_resources(cubin: Cubin, kernel: KernelImage, where: str) -> Iterator[BundleError]:
    for name in ("registers", "local_bytes", "static_shared", "threads"):
        seen, said = getattr(kernel, name), getattr(cubin, name)
        if seen != said:
            yield ResourceMismatchError(f"{name} {seen}, the manifest has {said}", where=where)
    shared, limit = cubin.dynamic_shared + cubin.static_shared, TARGETS[cubin.target].max_shared
    if cubin.dynamic_shared < 0 or shared > limit:
        yield ResourceMismatchError(
            f"{cubin.dynamic_shared} bytes of dynamic and {cubin.static_shared} of static shared memory a block;"
            f" {cubin.target} has {limit}",
            where=where,
            remedy="Use smaller blocks or fewer stages.",
        )
    if not 1 <= cubin.threads <= MAX_THREADS:
        yield ResourceMismatchError(
            f"{cubin.threads} threads a block, from 1 to {MAX_THREADS} can run",
            where=where,
            remedy="Use fewer warps.",
        )
    if cubin.scratch:
        yield ScratchError(
            f"needs {cubin.scratch} bytes of scratch memory",
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
    return " ".join(f"{offset}+{size}" for offset, size in parameters)
