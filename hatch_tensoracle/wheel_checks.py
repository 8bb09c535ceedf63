"""Checks of wheels: the archive, its tag, and the plugin libraries in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hatch_tensoracle.bundle import MAX_MANIFEST, Bundle
from hatch_tensoracle.code_checks import check_code
from hatch_tensoracle.elf import ElfError, LibraryImage
from hatch_tensoracle.errors import (
    BundleError,
    ManifestError,
    MissingPluginError,
    TagError,
    UnexpectedFileError,
    WheelError,
)
from hatch_tensoracle.library_checks import MANIFEST_SECTION, Checks, check_library, missing_code
from hatch_tensoracle.manylinux import manylinux_minor, misfits
from hatch_tensoracle.wheel import Wheel

__all__ = ["check_wheel", "manifest_name", "shipped_name"]

_X86_64, _CUDA = (2, 1, 62), 190
"""Class, order of bytes and machine of files for x86-64 (ELF header), and the machine of cubins."""
_LOADED = {2, 3}
"""ET_EXEC and ET_DYN: programs and shared objects."""
_MOST_LIBRARIES = 64
"""In a wheel: all are open at once, each in a megabyte of memory and the rest on disk."""


def check_wheel(path: Path, plugin: str | None = None) -> Checks[dict[str, Bundle]]:
    """Check a wheel: the archive, its tag, and its library at the path `plugin` or every one it holds."""
    bundles: dict[str, Bundle] = {}
    try:
        with Wheel(path) as wheel, contextlib.ExitStack() as stack:
            # Libraries are copied out first, so that RECORD is compared with what was unpacked for that.
            libraries = _libraries(wheel, plugin, stack)
            yield from wheel.check_records()
            yield from _check_tag(wheel)
            if not libraries:
                yield MissingPluginError("does not hold a library that embeds a bundle", where=str(path))
            for name, stream in libraries.items():
                bundle = yield from _check_plugin(wheel, name, stream)
                if bundle is not None:
                    bundles[name] = bundle
    except WheelError as defect:
        yield defect
    return bundles


def manifest_name(library: str) -> str:
    """Where the manifest of a library lies: `pkg/libx.so` -> `pkg/libx.bundle.json`."""
    return f"{library.removesuffix('.so')}.bundle.json"


def shipped_name(library: str, file: str) -> str:
    """Where a file that the manifest names lies in a wheel that has them: below `pkg/libx.bundle/`."""
    return f"{library.removesuffix('.so')}.bundle/{file}"


def _libraries(wheel: Wheel, plugin: str | None, stack: contextlib.ExitStack) -> dict[str, IO[bytes] | None]:
    """Open shared objects that embed a bundle, and whatever a manifest promises to lie beside: None is not there."""
    suffix = manifest_name("")
    promised = [f"{name.removesuffix(suffix)}.so" for name in wheel.names if name.endswith(suffix)]
    promised = promised if plugin is None else [plugin]
    found: dict[str, IO[bytes] | None] = {}
    for name in promised[: _MOST_LIBRARIES + 1]:
        found[name] = stack.enter_context(wheel.open(name)) if name in wheel.names else None
    for name in wheel.elf_names if plugin is None else ():
        if name not in found and len(found) <= _MOST_LIBRARIES:
            stream = wheel.open(name)
            if _embeds_manifest(stream):
                found[name] = stack.enter_context(stream)
            else:
                stream.close()
    if len(found) > _MOST_LIBRARIES:
        raise WheelError(f"has more than {_MOST_LIBRARIES} plugin libraries", where=str(wheel.path))
    return dict(sorted(found.items()))


def _embeds_manifest(stream: IO[bytes]) -> bool:
    try:
        return LibraryImage(stream).section_size(MANIFEST_SECTION) is not None
    except ElfError:
        return False


def _check_plugin(wheel: Wheel, name: str, stream: IO[bytes] | None) -> Checks[Bundle | None]:
    beside = manifest_name(name)
    if stream is None:
        yield MissingPluginError(f"does not hold `{name}`", where=str(wheel.path))
        return None
    if beside not in wheel.names:
        yield ManifestError("is missing", where=f"{wheel.path}: {beside}")
        return None
    bundle = yield from check_library(stream, f"{wheel.path}: {name}", wheel.read(beside, limit=MAX_MANIFEST))
    if bundle is not None:
        yield from _check_shipped(wheel, name, bundle)
    return bundle


def _check_shipped(wheel: Wheel, library: str, bundle: Bundle) -> Iterator[BundleError]:
    """Cubins and PTX as files beside their library: none, or all that the manifest names and no others."""
    shipped = {name for name in wheel.names if name.startswith(shipped_name(library, ""))}
    named = {shipped_name(library, code.file): (entry, code) for entry, code in bundle.codes()} if shipped else {}
    for name in sorted(shipped - named.keys()):
        yield UnexpectedFileError("the manifest does not name it", where=f"{wheel.path}: {name}")
    for name, (entry, code) in named.items():
        if name in shipped:
            yield from check_code(entry, code, wheel.read(name, limit=code.size), f"{wheel.path}: {name}")
        else:
            yield missing_code(code, "is missing, others are there", f"{wheel.path}: {name}")


def _check_tag(wheel: Wheel) -> Iterator[BundleError]:
    named, written = sorted(wheel.named_tags), sorted(wheel.written_tags)
    if named != written:
        yield TagError(f"is named for {', '.join(named)}, its WHEEL says {', '.join(written)}", where=str(wheel.path))
    for tag in named if wheel.elf_names else ():
        platform = tag.rpartition("-")[2]
        if not platform.endswith("_x86_64") or not platform.startswith(("linux", "manylinux")):
            yield TagError(
                f"tag {tag}, but {wheel.elf_names[0]} is a library for Linux x86_64",
                where=str(wheel.path),
                remedy="Build the wheel with the tensoracle hook, which sets the tag.",
            )
        elif (minor := manylinux_minor(platform)) is not None:
            yield from _check_manylinux(wheel, tag, minor)
    for name in wheel.elf_names:
        bits, order, _, machine = wheel.elf_header(name)
        if (bits, order, machine) != _X86_64 and machine != _CUDA:
            yield TagError(
                f"is named for {', '.join(named)}, but {name} is for ELF machine {machine} of class {bits}, not x86-64",
                where=str(wheel.path),
                remedy="Leave it out: a wheel is for one architecture.",
            )


def _check_manylinux(wheel: Wheel, tag: str, minor: int) -> Iterator[BundleError]:
    for name in wheel.elf_names:
        try:
            with wheel.open(name) as stream:
                beyond = misfits(LibraryImage(stream), minor)
            problem = f"needs {', '.join(beyond)}" if beyond else ""
        except ElfError as error:
            bits, order, kind, machine = wheel.elf_header(name)
            is_loaded = (bits, order, machine) == _X86_64 and kind in _LOADED
            problem = str(error) if is_loaded else ""
        if problem:
            yield TagError(
                f"tag {tag}, but {name} {problem}",
                where=str(wheel.path),
                remedy="Set the hook's option `platform-tag` to `auto`, or let auditwheel repair the wheel.",
            )
