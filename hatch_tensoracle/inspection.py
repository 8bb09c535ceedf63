"""Verifies bundles, libraries and wheels: raises the first defect, or collects them all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TypeVar

from hatch_tensoracle._files import open_regular
from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.errors import BundleError
from hatch_tensoracle.library_checks import EXPORTS, Checks, check_bundle, check_library
from hatch_tensoracle.wheel_checks import check_wheel, manifest_name, shipped_name

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
MOST_DEFECTS = 1000


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
