"""Registers plugin libraries in TensorRT's registry, each once, and finds those of installed packages."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle._files import open_regular
from hatch_tensoracle.elf import ElfError, LibraryImage
from hatch_tensoracle.runtime.distribution import Distribution, distribution
from hatch_tensoracle.runtime.errors import PluginLibraryError, logged
from hatch_tensoracle.runtime.mapping import is_code_mapped
from hatch_tensoracle.runtime.plugin_creators import CreatorKey, creators_of, registered_creators

__all__ = ["PluginLibrary", "library_paths", "plugin_library", "refuse_replaced", "register_plugins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLibrary:
    """A plugin library that is registered."""

    path: Path
    """The file it was loaded from, absolute."""
    sha256: str
    creators: tuple[CreatorKey, ...]
    """Those that came into the registry with it."""


_registered: dict[tuple[str, str], PluginLibrary] = {}
"""By distribution and digest. TensorRT keeps libraries for the process: unloading one under a live plugin crashes."""
_loaded_as: dict[Path, str] = {}
"""Digest by path, in whatever distribution: the loader hands out what it has for a path, though the file be another."""
_lock = threading.Lock()


def register_plugins(
    libraries: Iterable[str | os.PathLike[str]], runtime: str | None = None, *, verify: bool = False
) -> tuple[PluginLibrary, ...]:
    """Load the libraries into the plugin registry of `runtime`, unless they are there; return them in this order.

    Files of the same content are one library, whatever their path. `verify` checks the bundle that a library embeds
    first, every cubin of it.

    Raises PluginLibraryError for a library that is missing, unreadable, none that TensorRT takes, changed since it was
    loaded, or whose plugin another one provides already; ValueError if it is open which TensorRT `runtime` is.
    """
    paths = library_paths(libraries)
    tensorrt = distribution(runtime)
    with _lock:
        return tuple(_registered_once(path, tensorrt, verify=verify) for path in paths)


def library_paths(libraries: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the absolute paths. Raises TypeError for a single path."""
    if isinstance(libraries, str | os.PathLike):
        raise TypeError(f"plugin libraries must be a sequence of paths, not {libraries!r}")
    return tuple(Path(path).absolute() for path in libraries)


def refuse_replaced(path: Path, sha256: str, while_it_was: str) -> None:
    """Raise PluginLibraryError if the file is no longer the one of this digest."""
    if _digest(path) != sha256:
        raise PluginLibraryError(f"was replaced while it was {while_it_was}", library=str(path))


def plugin_library(package: str, name: str | None = None) -> Path:
    """Return the plugin library of an installed model package, which is not imported; `name` says which of several.

    `plugin_library("example_plugin")` is `.../example_plugin/libexample_plugin.so`. Raises PluginLibraryError.
    """
    from hatch_tensoracle.inspection import manifest_name

    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # the package above it
        spec = None
    if spec is None:
        hint = f"Name it as `import` does: {package.replace('-', '_')!r}. " if "-" in package else ""
        raise PluginLibraryError(f"package {package!r} is not installed", remedy=f"{hint}Install its wheel.")
    manifests = {
        manifest
        for place in spec.submodule_search_locations or ()
        for manifest in Path(place).rglob(manifest_name("*"))
    }
    found = sorted(manifest.with_name(manifest.name.removesuffix(manifest_name("")) + ".so") for manifest in manifests)
    wanted = [library for library in found if name in {None, library.name}]
    if len(wanted) == 1:
        return wanted[0]
    if not found:
        raise PluginLibraryError(f"package {package!r} has no plugin library: no *{manifest_name('')} in it")
    names = ", ".join(library.name for library in found)
    if name is None:
        raise PluginLibraryError(f"package {package!r} has several plugin libraries", remedy=f"Name one of {names}.")
    raise PluginLibraryError(f"package {package!r} has no single library {name!r}, it has {names}")


def _registered_once(path: Path, tensorrt: Distribution, *, verify: bool) -> PluginLibrary:
    digest = _digest(path)
    before = _loaded_as.get(path, digest)
    if before != digest:
        raise PluginLibraryError(
            f"has changed since this process loaded it: SHA-256 {digest}, was {before}",
            library=str(path),
            remedy="Start the process again to use the new one.",
        )
    library = _registered.get((tensorrt.name, digest))
    if library is None or verify:
        _check(path, verify=verify)
    if library is None:
        library = _load(path, digest, tensorrt)
        _registered[tensorrt.name, digest] = library
    _loaded_as[path] = digest
    return library


def _digest(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PluginLibraryError(f"cannot be read: {error.strerror}", library=str(path)) from error


def _check(path: Path, *, verify: bool) -> None:
    """See that TensorRT will find what it looks up before anything of the library is run."""
    from hatch_tensoracle.inspection import EXPORTS, check_library, manifest_name

    try:
        with path.open("rb") as file:
            missing = LibraryImage(file).lacks(*EXPORTS)
            manifest = path.with_name(manifest_name(path.name))
            if verify:
                beside = manifest.read_bytes() if manifest.exists() else None
                defect = next(check_library(file, str(path), beside), None)
                if defect is not None:
                    raise PluginLibraryError(defect.cause, library=defect.where, remedy=defect.remedy) from defect
    except (ElfError, OSError) as error:
        raise PluginLibraryError(str(error), library=str(path)) from error
    if missing:
        raise PluginLibraryError(f"is no plugin library: it does not export {' and '.join(missing)}", library=str(path))


def _load(path: Path, digest: str, tensorrt: Distribution) -> PluginLibrary:
    registry = tensorrt.module.get_plugin_registry()
    before = registered_creators(registry)
    with tensorrt.messages() as messages:
        loaded = registry.load_library(str(path))
    if loaded is None:
        raise PluginLibraryError(_refusal(path, before, messages, tensorrt), library=str(path))
    refuse_replaced(path, digest, "loaded")
    _refuse_unmapped(path)
    new = tuple(creator for creator in registered_creators(registry) if creator not in before)
    return PluginLibrary(path=path, sha256=digest, creators=new)


def _refuse_unmapped(path: Path) -> None:
    """Whoever loaded the path first, the loader goes on handing out the file that it was then."""
    try:
        with path.open("rb") as file:
            is_mapped = is_code_mapped(file)
    except OSError as error:
        raise PluginLibraryError(f"cannot be compared with what is loaded: {error}", library=str(path)) from error
    if not is_mapped:
        raise PluginLibraryError(
            "another version of it is loaded in this process",
            library=str(path),
            remedy="Start the process again to use this one.",
        )


def _refusal(path: Path, known: Iterable[CreatorKey], messages: Iterable[str], tensorrt: Distribution) -> str:
    """Find out why: TensorRT tells its logger only, and has none before a builder or a runtime was made."""
    try:
        taken = [creator for creator in creators_of(path) if creator in set(known)]
    except OSError as error:
        return f"cannot be loaded: {error}"
    for creator in taken:
        owner = _owner(creator, tensorrt.name)
        return f"{tensorrt} has {creator} already, of {owner}; one process cannot have both"
    return f"is refused by {tensorrt}{logged(messages)}"


def _owner(creator: CreatorKey, tensorrt: str) -> str:
    owners = [
        str(library.path)
        for (name, _), library in _registered.items()
        if name == tensorrt and creator in library.creators
    ]
    return owners[0] if owners else "a library that was not loaded by register_plugins"
