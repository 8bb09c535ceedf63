"""Verifies bundles, libraries and wheels: everything is read back, nothing is believed.

Checks are generators that yield every defect and return the manifests that they could read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TypeVar

from hatch_tensoracle._files import open_regular
from hatch_tensoracle.bundle import CUBIN_ALIGNMENT, MAX_CODE, MAX_MANIFEST, Bundle, Ptx
from hatch_tensoracle.code_checks import check_code
from hatch_tensoracle.elf import ElfError, LibraryImage
from hatch_tensoracle.errors import (
    BundleError,
    BundleMismatchError,
    CorruptPtxError,
    DependencyError,
    ExportError,
    LibraryError,
    ManifestError,
    MissingCubinError,
    MissingPluginError,
    MissingPtxError,
    TagError,
    UnexpectedFileError,
    WheelError,
)
from hatch_tensoracle.manylinux import manylinux_minor, misfits
from hatch_tensoracle.wheel import Wheel

__all__ = [
    "EXPORTS",
    "Checks",
    "check_bundle",
    "check_library",
    "check_wheel",
    "collect",
    "inspect_bundle",
    "inspect_library",
    "inspect_wheel",
    "manifest_name",
    "shipped_name",
]

T = TypeVar("T")
Checks = Generator[BundleError, None, T]

EXPORTS = ("getCreators", "setLoggerFinder")
"""What TensorRT's IPluginRegistry::loadLibrary looks up; a library exports these and nothing else."""

_X86_64, _CUDA = (2, 1, 62), 190
"""Class, order of bytes and machine of files for x86-64 (ELF header), and the machine of cubins."""
_LOADED = {2, 3}
"""ET_EXEC and ET_DYN: programs and shared objects."""
_MANIFEST_SECTION = ".tensoracle.manifest"
_CUBINS_SECTION = ".tensoracle.cubins"
MOST_DEFECTS = 1000
_MOST_LIBRARIES = 64
"""In a wheel: all are open at once, each in a megabyte of memory and the rest on disk."""
_OWN_FILES = re.compile(r"bundle\.json|bundle\.cpp|cubins_\d+\.cpp")
"""What a bundle directory holds beside cubins and PTX."""
_GPU_LIBRARIES = (
    *(f"libcu{name}" for name in ("da", "blas", "dnn", "fft", "file", "pti", "rand", "solver", "sparse")),
    "libnccl",
    "libnv",
    "libtensorrt",
)


def inspect_bundle(directory: str | os.PathLike[str], plugin: str | os.PathLike[str] | None = None) -> Bundle:
    """Check a bundle directory, and that the library `plugin` embeds just this bundle.

    Returns the manifest. Raises the first defect, a BundleError: ManifestError, MissingCubinError, MissingPtxError,
    CorruptCubinError, CorruptPtxError, FalseSmError, FalsePtxError, EntryAbiError, ResourceMismatchError, ScratchError,
    UnexpectedFileError; for the library also MissingPluginError, LibraryError, BundleMismatchError, ExportError,
    DependencyError.
    """
    bundle = _raise_first(check_bundle(Path(directory), Path(plugin) if plugin is not None else None))
    assert bundle is not None  # noqa: S101 - without a manifest there is a defect
    return bundle


def inspect_wheel(wheel: str | os.PathLike[str], plugin: str | None = None) -> dict[str, Bundle]:
    """Check a wheel without installing it: its plugin library at the path `plugin`, or every one it holds.

    Returns the manifest of each library by its path. Raises the first defect, a BundleError: WheelError, TagError,
    MissingPluginError, and those of `inspect_bundle`.
    """
    return _raise_first(check_wheel(Path(wheel), plugin))


def inspect_library(library: str | os.PathLike[str]) -> Bundle:
    """Check a plugin library alone, by what it embeds. Returns its manifest; raises its first defect, or OSError."""
    with open_regular(Path(library)) as stream:
        bundle = _raise_first(check_library(stream, str(library)))
    assert bundle is not None  # noqa: S101 - without a manifest there is a defect
    return bundle


def check_bundle(directory: Path, plugin: Path | None = None) -> Checks[Bundle | None]:
    """Check a bundle directory, and the library built from it."""
    path = directory / "bundle.json"
    try:
        manifest = _read(path, limit=MAX_MANIFEST)
        bundle = Bundle.parse(manifest, str(path))
    except OSError as error:
        yield ManifestError(f"cannot be read: {error.strerror}", where=str(path))
        return None
    except ManifestError as defect:
        yield defect
        return None
    for entry, code in bundle.codes():
        try:
            data = _read(directory / code.file, limit=MAX_CODE)
        except OSError as error:
            missing = MissingPtxError if isinstance(code, Ptx) else MissingCubinError
            yield missing(f"{code.file} cannot be read: {error.strerror}", where=str(path))
        else:
            yield from check_code(entry, code, data, str(directory / code.file))
    named = {code.file for _, code in bundle.codes()}
    for file in sorted(directory.rglob("*")):
        name = file.relative_to(directory).as_posix()
        if (file.is_symlink() or not file.is_dir()) and name not in named and not _OWN_FILES.fullmatch(name):
            yield UnexpectedFileError("the manifest does not name it", where=str(file))
    if plugin is not None:
        try:
            with open_regular(plugin) as stream:
                yield from check_library(stream, str(plugin), manifest)
        except OSError as error:
            yield MissingPluginError(f"cannot be read: {error.strerror}", where=str(plugin))
    return bundle


def check_library(stream: IO[bytes], where: str, manifest: bytes | None = None) -> Checks[Bundle | None]:
    """Check a plugin library: what it embeds, against the bytes of `manifest` too, what it exports and needs."""
    try:
        library = LibraryImage(stream)
        bundle = yield from _check_embedded(library, where, manifest)
        yield from _check_linkage(library, where)
    except ElfError as error:
        yield LibraryError(str(error), where=where)
        return None
    return bundle


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


def collect(checks: Checks[T]) -> tuple[T | None, list[BundleError]]:
    """What the checks return, and every defect: the first thousand, of an artifact that has more."""
    defects: list[BundleError] = []
    with contextlib.closing(checks):
        while len(defects) < MOST_DEFECTS:
            try:
                defects.append(next(checks))
            except StopIteration as end:
                return end.value, defects
    return None, defects


def _raise_first(checks: Checks[T]) -> T:
    with contextlib.closing(checks):  # and the files that they have open
        try:
            defect = next(checks)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
    raise defect


def _check_embedded(library: LibraryImage, where: str, manifest: bytes | None) -> Checks[Bundle | None]:
    size, cubins_size = library.section_size(_MANIFEST_SECTION), library.section_size(_CUBINS_SECTION)
    if size is None or cubins_size is None or size > MAX_MANIFEST:
        yield LibraryError(
            f"embeds no bundle: sections {_MANIFEST_SECTION} of {size} and {_CUBINS_SECTION} of {cubins_size} bytes",
            where=where,
            remedy="Build it with tensoracle_add_cubin_plugin.",
        )
        return None
    embedded = library.read_section(_MANIFEST_SECTION, 0, size)
    if manifest is not None and embedded != manifest:
        yield BundleMismatchError(
            f"the manifest inside ({len(embedded)} bytes) is not the one beside it ({len(manifest)} bytes)",
            where=where,
            remedy="Build the library again from this bundle.",
        )
    try:
        bundle = Bundle.parse(embedded, f"{where}: {_MANIFEST_SECTION}")
    except ManifestError as defect:
        yield defect
        return None
    end = 0
    for entry, code, offset in bundle.embedded():
        data = library.read_section(_CUBINS_SECTION, offset, max(0, min(code.embedded_size, cubins_size - offset)))
        yield from check_code(entry, code, data[: code.size], where)
        if len(data) == code.embedded_size > code.size and data[code.size :] != b"\0":
            yield CorruptPtxError("no NUL follows it, which ends it for the driver", where=f"{where}: {code.file}")
        end = offset + code.embedded_size
    if not end <= cubins_size < end + CUBIN_ALIGNMENT:
        yield BundleMismatchError(f"{_CUBINS_SECTION} has {cubins_size} bytes, its cubins end at {end}", where=where)
    return bundle


def _check_linkage(library: LibraryImage, where: str) -> Iterator[BundleError]:
    exports = library.exports()
    for name in EXPORTS:
        if name not in exports:
            yield ExportError(f"does not export `{name}`, which TensorRT looks up", where=where)
    if extra := sorted(set(exports) - set(EXPORTS)):
        yield ExportError(
            f"exports {len(extra)} more than {' and '.join(EXPORTS)}: {', '.join(extra[:5])}",
            where=where,
            remedy="Build it with hidden visibility, as tensoracle_add_cubin_plugin does.",
        )
    for needed in library.dynamic("needed"):
        if needed.startswith(_GPU_LIBRARIES):
            yield DependencyError(
                f"needs {needed} at load time",
                where=where,
                remedy="Call the driver through the launcher, which loads it at first use.",
            )
    for search_path in library.dynamic("rpath", "runpath"):
        yield DependencyError(f"carries the search path {search_path}", where=where)


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
        return LibraryImage(stream).section_size(_MANIFEST_SECTION) is not None
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
            missing = MissingPtxError if isinstance(code, Ptx) else MissingCubinError
            yield missing("is missing, others are there", where=f"{wheel.path}: {name}")


def _read(path: Path, *, limit: int) -> bytes:
    """The whole file. Raises OSError, also for more than `limit` bytes."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
    return data


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
