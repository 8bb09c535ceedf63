"""Checks of bundle directories and plugin libraries: everything is read back, nothing is believed."""

from __future__ import annotations

import errno
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TypeVar

from hatch_tensoracle._files import open_regular
from hatch_tensoracle.bundle import CUBIN_ALIGNMENT, MAX_CODE, MAX_MANIFEST, Bundle, Code, Ptx
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
    UnexpectedFileError,
)

__all__ = ["EXPORTS", "MANIFEST_SECTION", "Checks", "check_bundle", "check_library", "missing_code"]

T = TypeVar("T")
Checks = Generator[BundleError, None, T]
"""Yields every defect, and returns the manifests that could be read."""

EXPORTS = ("getCreators", "setLoggerFinder")
"""What TensorRT's IPluginRegistry::loadLibrary looks up; a library exports these and nothing else."""

MANIFEST_SECTION = ".tensoracle.manifest"
_CUBINS_SECTION = ".tensoracle.cubins"
_OWN_FILES = re.compile(r"bundle\.json|bundle\.cpp|cubins_\d+\.cpp")
"""What a bundle directory holds beside cubins and PTX."""
_GPU_LIBRARIES = (
    *(f"libcu{name}" for name in ("blas", "da", "dla", "dnn", "dss", "fft", "file", "graph", "pti", "rand", "solver")),
    *(f"libcu{name}" for name in ("sparse", "statevec", "tensor")),
    "libnccl",
    "libnpp",
    "libnv",
    "libtensorrt",
)


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
            yield missing_code(code, f"{code.file} cannot be read: {error.strerror}", str(path))
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


def missing_code(code: Code, cause: str, where: str) -> BundleError:
    """The defect that a file of code is not there."""
    return (MissingPtxError if isinstance(code, Ptx) else MissingCubinError)(cause, where=where)


def _check_embedded(library: LibraryImage, where: str, manifest: bytes | None) -> Checks[Bundle | None]:
    size, cubins_size = library.section_size(MANIFEST_SECTION), library.section_size(_CUBINS_SECTION)
    if size is None or cubins_size is None or size > MAX_MANIFEST:
        yield LibraryError(
            f"embeds no bundle: sections {MANIFEST_SECTION} of {size} and {_CUBINS_SECTION} of {cubins_size} bytes",
            where=where,
            remedy="Build it with tensoracle_add_cubin_plugin.",
        )
        return None
    embedded = library.read_section(MANIFEST_SECTION, 0, size)
    if manifest is not None and embedded != manifest:
        yield BundleMismatchError(
            f"the manifest inside ({len(embedded)} bytes) is not the one beside it ({len(manifest)} bytes)",
            where=where,
            remedy="Build the library again from this bundle.",
        )
    try:
        bundle = Bundle.parse(embedded, f"{where}: {MANIFEST_SECTION}")
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


def _read(path: Path, *, limit: int) -> bytes:
    """The whole file. Raises OSError, also for more than `limit` bytes."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
    return data
