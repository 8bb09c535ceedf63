"""What can go wrong on the build side, one class a kind."""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BuildError",
    "BundleError",
    "BundleMismatchError",
    "ConfigurationError",
    "CorruptCubinError",
    "CorruptPtxError",
    "DependencyError",
    "EntryAbiError",
    "ExportError",
    "FalsePtxError",
    "FalseSmError",
    "LibraryError",
    "ManifestError",
    "MissingCubinError",
    "MissingPluginError",
    "MissingPtxError",
    "ResourceMismatchError",
    "ScratchError",
    "TagError",
    "TensoracleError",
    "UnexpectedFileError",
    "WheelError",
]


_LONGEST = 2000
"""Characters of a cause or a place."""


class TensoracleError(Exception):
    """Base of every error that hatch-tensoracle raises on purpose: a cause, and a remedy where there is one."""

    remedy: str

    def __init__(self, cause: str, *, remedy: str = "") -> None:
        super().__init__(cause)
        self.remedy = remedy

    @property
    def cause(self) -> str:
        """What went wrong, without the place."""
        return str(self.args[0])


class ConfigurationError(TensoracleError):
    """An option of the build hook is unknown, of the wrong type or value, or names something that is not there."""


class BuildError(TensoracleError):
    """The plugin library could not be built: no compiler, or a compiler that refused the sources."""


class BundleError(TensoracleError):
    """Base of what inspection finds: a defect of a bundle, a library or a wheel, with a stable `id`."""

    id: ClassVar[str] = "bundle"
    where: str
    """The file, and inside it the member, kernel and target, that the defect was found in."""

    def __init__(self, cause: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(_cut(cause), remedy=remedy)
        self.where = _cut(where)

    def __str__(self) -> str:
        """Say where, then what."""
        return f"{self.where}: {self.cause}" if self.where else self.cause


class ManifestError(BundleError):
    """bundle.json is missing, is not what its schema says, or was changed after its digest was taken."""

    id = "manifest"


class MissingCubinError(BundleError):
    """The manifest names a cubin that is not there."""

    id = "missing-cubin"


class MissingPtxError(BundleError):
    """The manifest names PTX that is not there."""

    id = "missing-ptx"


class CorruptCubinError(BundleError):
    """A cubin's bytes are not those that the manifest's SHA-256 was taken of, or are no cubin at all."""

    id = "corrupt-cubin"


class CorruptPtxError(BundleError):
    """The bytes of PTX are not those that the manifest's SHA-256 was taken of, or are no PTX text at all."""

    id = "corrupt-ptx"


class FalseSmError(BundleError):
    """A cubin's ELF header says another SM than the manifest."""

    id = "false-sm"


class FalsePtxError(BundleError):
    """PTX is for another target or of another version of its language than the manifest says."""

    id = "false-ptx"


class EntryAbiError(BundleError):
    """The entry function of a cubin or PTX has another name than in the manifest, or other parameters.

    Those are the declared arguments, followed by the two scratch pointers.
    """

    id = "entry-abi"


class ScratchError(BundleError):
    """A kernel needs scratch memory that the launcher does not provide."""

    id = "scratch"


class ResourceMismatchError(BundleError):
    """Registers, threads, shared or local memory of code are not those of the manifest, or exceed the target."""

    id = "resources"


class UnexpectedFileError(BundleError):
    """A bundle directory or a wheel holds a file that no manifest names, or that the build did not make."""

    id = "unexpected-file"


class BundleMismatchError(BundleError):
    """The bundle embedded in a library is not the one beside it."""

    id = "bundle-mismatch"


class LibraryError(BundleError):
    """A plugin library is not a Linux x86-64 shared object that embeds a bundle."""

    id = "library"


class ExportError(BundleError):
    """A plugin library exports other symbols than the two that TensorRT looks up."""

    id = "exports"


class DependencyError(BundleError):
    """A plugin library needs CUDA or TensorRT at load time, or carries a search path."""

    id = "dependencies"


class WheelError(BundleError):
    """A wheel is not a readable, well-formed archive."""

    id = "wheel"


class TagError(BundleError):
    """A wheel's tag does not fit the native library inside."""

    id = "wheel-tag"


class MissingPluginError(BundleError):
    """A wheel holds no plugin library, or not the one asked for."""

    id = "missing-plugin"


def _cut(text: str) -> str:
    """A hostile artifact has names of any length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
