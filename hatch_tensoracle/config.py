"""The options of the build hook, read once into dataclasses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from hatch_tensoracle._decode import DecodeError, decode
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.targets import DEFAULT_TARGETS, parse_ptx_target, parse_target

__all__ = ["HookConfig", "LibraryConfig"]

_HATCHLING_KEYS = ("dependencies", "require-runtime-dependencies", "require-runtime-features", "enable-by-default")
"""Keys of every hook's table that hatchling reads itself (hatchling's build configuration)."""
_PLANNED = {"plugins": "Declare the plugin in C++ and name its file in `sources`."}
_LIBRARY = re.compile(r"(?:(?!\.\.?/)[\w.-]+/)+lib[\w.-]+\.so", re.ASCII)
_KERNELS = re.compile(r"(?P<file>[^:]+\.py):(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryConfig:
    """One plugin library."""

    kernels: str
    """`FILE.py:NAME`: a list of KernelSpec records in a Python file, which is imported at build time only."""
    sources: tuple[str, ...]
    """C++ files with the plugins, relative to the project."""
    library: str
    """Where the library goes in the wheel: `pkg/libpkg.so`, with its manifest `pkg/libpkg.bundle.json` beside it."""
    targets: tuple[str, ...] = DEFAULT_TARGETS
    """GPU generations to compile for."""
    ptx: str | None = None
    """GPU generation, `sm89` or older, to keep PTX for: drivers compile it for GPUs that no cubin fits."""
    tuning: str | None = None
    """A `tuning.json` that `hatch-tensoracle tune` wrote, relative to the project."""

    def __post_init__(self) -> None:
        if not _KERNELS.fullmatch(self.kernels):
            raise DecodeError(f"must be `FILE.py:NAME`, not {self.kernels!r}", "kernels")
        if not self.sources:
            raise DecodeError("must name at least one C++ file", "sources")
        if not _LIBRARY.fullmatch(self.library):
            raise DecodeError(f"must be a path in the wheel such as `pkg/libpkg.so`, not {self.library!r}", "library")
        if not self.targets:
            raise DecodeError("must name at least one GPU generation", "targets")
        for i, target in enumerate(self.targets):
            try:
                parse_target(target)
            except ValueError as error:
                raise DecodeError(f"is an {error}", f"targets[{i}]") from error
        if self.ptx is not None:
            try:
                parse_ptx_target(self.ptx)
            except ValueError as error:
                raise DecodeError(f"is an {error}", "ptx") from error

    @property
    def kernels_file(self) -> str:
        """The file of `kernels`."""
        return self.kernels.rpartition(":")[0]

    @property
    def kernels_name(self) -> str:
        """The name of the list in that file."""
        return self.kernels.rpartition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookConfig:
    """The whole table: its libraries. The flat form is the case of one."""

    libraries: tuple[LibraryConfig, ...]

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> HookConfig:
        """Read the hook's table. Raises ConfigurationError naming the option."""
        own = {key: value for key, value in table.items() if key not in _HATCHLING_KEYS}
        for key, instead in _PLANNED.items():
            if key in own:
                raise ConfigurationError(_option(key, "is not supported yet"), remedy=instead)
        known = [field.name for field in fields(LibraryConfig)]
        if "libraries" in own and (beside := sorted(own.keys() & known)):
            raise ConfigurationError(_option(beside[0], "must stand in each of `libraries`, not beside them"))
        try:
            libraries = decode(cls, own).libraries if "libraries" in own else (decode(LibraryConfig, own),)
        except DecodeError as error:
            remedy = f"Options are {', '.join(known)}."
            raise ConfigurationError(_option(error.where, error.problem), remedy=remedy) from error
        if not libraries:
            raise ConfigurationError(_option("libraries", "must have at least one library"))
        paths = [library.library for library in libraries]
        if len(set(paths)) != len(paths):
            raise ConfigurationError(_option("libraries", f"must give each library its own path, not {paths}"))
        return cls(libraries=libraries)

    def check_files(self, root: Path) -> None:
        """Raise ConfigurationError for a file that is not there."""
        for library in self.libraries:
            files = [("kernels", library.kernels_file), *(("sources", file) for file in library.sources)]
            files += [("tuning", library.tuning)] if library.tuning is not None else []
            for option, file in files:
                if not (root / file).is_file():
                    raise ConfigurationError(
                        _option(option, f"names {file!r}, which is not in {root}"),
                        remedy="Paths are relative to pyproject.toml; is the file left out of the sdist?",
                    )


def _option(name: str, problem: str) -> str:
    return f"Option `{name}` for build hook `tensoracle` {problem}"
