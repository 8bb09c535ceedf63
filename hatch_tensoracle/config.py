"""The options of the build hook, read once into dataclasses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from hatch_tensoracle._decode import DecodeError, decode
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.overrides import option_name, read_overrides, variable_name
from hatch_tensoracle.targets import DEFAULT_TARGETS, parse_ptx_target, parse_target

__all__ = ["HookConfig", "LibraryConfig"]

_HATCHLING_KEYS = ("dependencies", "require-runtime-dependencies", "require-runtime-features", "enable-by-default")
"""Keys of every hook's table that hatchling reads itself (hatchling's build configuration)."""
_PLANNED = {"plugins": "Declare the plugin in C++ and name its file in `sources`."}
_LIBRARY = re.compile(r"(?:(?!\.\.?/)[\w.-]+/)+lib[\w.-]+\.so", re.ASCII)
_KERNELS = re.compile(r"(?P<file>[^:]+\.py):(?P<name>[A-Za-z_]\w*)")
_DEFINITION = re.compile(r"[A-Za-z_]\w*(?:=[^;\n]*)?", re.ASCII)
_OWN_ARGUMENTS = ("-S", "-B", "-G")
_PLATFORM_TAG = re.compile(r"linux|auto|manylinux_2_[1-9]\d?", re.ASCII)


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
    ptxas: str | None = None
    """Another assembler than that of nvidia-cuda-nvcc-cu12: a path, absolute or relative to the project."""
    ship_cubins: bool = False
    """Whether the wheel has cubins and PTX as files too, below `pkg/libpkg.bundle/`."""
    include_directories: tuple[str, ...] = ()
    """Where `#include` looks, relative to the project."""
    compile_definitions: tuple[str, ...] = ()
    """`NAME` or `NAME=VALUE`: macros of the C++ files."""
    cmake_arguments: tuple[str, ...] = ()
    """Handed to CMake's configure step, such as `-DTENSORRT_INCLUDE_DIR=/opt/TensorRT/include`."""

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
        self._check_cpp()

    def _check_cpp(self) -> None:
        for i, definition in enumerate(self.compile_definitions):
            if not _DEFINITION.fullmatch(definition):
                raise DecodeError(
                    f"must be `NAME` or `NAME=VALUE` on one line and without `;`, not {definition!r}",
                    f"compile-definitions[{i}]",
                )
        for i, argument in enumerate(self.cmake_arguments):
            if argument.startswith(_OWN_ARGUMENTS):
                raise DecodeError(
                    f"must not be {argument!r}: {', '.join(_OWN_ARGUMENTS)} are the hook's own", f"cmake-arguments[{i}]"
                )

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
    """The whole table: its libraries, and what holds for the wheel. The flat form is the case of one library."""

    libraries: tuple[LibraryConfig, ...]
    platform_tag: str = "linux"
    """`linux`; `manylinux_2_X`, which the libraries are checked against; `auto`, the oldest of these that they fit."""
    jobs: int | None = None
    """Processes at a time, of kernels and of C++ files; as many as there are cores if left out."""
    verbose: bool = False
    """Whether the commands of the C++ build, and what they print, are shown."""
    build_directory: str | None = None
    """Where to keep bundles, libraries and CMake's files for the next build, relative to the project."""

    def __post_init__(self) -> None:
        if not self.libraries:
            raise DecodeError("must have at least one library", "libraries")
        paths = [library.library for library in self.libraries]
        if len(set(paths)) != len(paths):
            raise DecodeError(f"must give each library its own path, not {paths}", "libraries")
        if not _PLATFORM_TAG.fullmatch(self.platform_tag):
            raise DecodeError(f"must be `linux`, `auto` or `manylinux_2_X`, not {self.platform_tag!r}", "platform-tag")
        if self.jobs is not None and self.jobs < 1:
            raise DecodeError(f"must be 1 or more, not {self.jobs}", "jobs")

    @classmethod
    def from_table(cls, table: Mapping[str, object], variables: Mapping[str, str] | None = None) -> HookConfig:
        """Read the hook's table; what `variables` has as TENSORACLE_<OPTION> stands in for an option.

        Raises ConfigurationError naming the option.
        """
        own = {key: value for key, value in table.items() if key not in _HATCHLING_KEYS}
        overrides = read_overrides(cls, variables or {}) | read_overrides(LibraryConfig, variables or {})
        for key in own.keys() & _PLANNED.keys():
            raise ConfigurationError(_option(key, "is not supported yet"), remedy=_PLANNED[key])
        is_flat = "libraries" not in own
        try:
            _check_keys(own, is_flat=is_flat)
            return decode(cls, _in_full(own, overrides))
        except DecodeError as error:
            where = error.where.removeprefix("libraries[0].") if is_flat else error.where
            remedy = f"Options are {', '.join((*_OF_LIBRARIES, *_OF_WHEELS))}."
            raise ConfigurationError(_option(where, error.problem, overrides), remedy=remedy) from error

    def check_files(self, root: Path) -> None:
        """Raise ConfigurationError for a file or directory that is not there."""
        for library in self.libraries:
            files = [("kernels", library.kernels_file), *(("sources", file) for file in library.sources)]
            files += [("tuning", library.tuning)] if library.tuning is not None else []
            files += [("ptxas", library.ptxas)] if library.ptxas is not None else []
            missing = [(option, file) for option, file in files if not (root / file).is_file()]
            named = [("include-directories", directory) for directory in library.include_directories]
            missing += [(option, directory) for option, directory in named if not (root / directory).is_dir()]
            for option, file in missing:
                remedy = "Paths are relative to pyproject.toml; is the file left out of the sdist?"
                if option == "ptxas":
                    remedy = (
                        "It is the path of a ptxas, relative to pyproject.toml or absolute. That of a version: pip "
                        "install --no-deps --target DIRECTORY nvidia-cuda-nvcc==VERSION puts it below DIRECTORY."
                    )
                raise ConfigurationError(_option(option, f"names {file!r}, which is not in {root}"), remedy=remedy)


_OF_LIBRARIES = tuple(option_name(field.name) for field in fields(LibraryConfig))
_OF_WHEELS = tuple(option_name(field.name) for field in fields(HookConfig) if field.name != "libraries")


def _check_keys(own: Mapping[str, object], *, is_flat: bool) -> None:
    """Raise DecodeError for a key that is no option, or none where it stands."""
    for key in own:
        if key in _OF_LIBRARIES and not is_flat:
            raise DecodeError("must stand in each of `libraries`, not beside them", key)
        if key not in {*_OF_LIBRARIES, *_OF_WHEELS, "libraries"}:
            raise _unknown(key, key, (*(_OF_LIBRARIES if is_flat else ("libraries",)), *_OF_WHEELS))
    libraries = own.get("libraries")
    for i, library in enumerate(libraries if isinstance(libraries, list) else ()):
        for key in library if isinstance(library, dict) else ():
            if key in _OF_WHEELS:
                raise DecodeError("is for the whole wheel: put it beside `libraries`", f"libraries[{i}].{key}")
            if key not in _OF_LIBRARIES:
                raise _unknown(key, f"libraries[{i}].{key}", _OF_LIBRARIES)


def _unknown(key: str, where: str, known: tuple[str, ...]) -> DecodeError:
    near = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{name}`' for name in known)}"
    return DecodeError(f"is an unknown key; {hint}", where)


def _in_full(own: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """The table in its array form, overridden."""
    wheel = {key: value for key, value in ({**own, **overrides}).items() if key in _OF_WHEELS}
    libraries = own.get("libraries", [{key: value for key, value in own.items() if key in _OF_LIBRARIES}])
    if isinstance(libraries, list):
        instead = {key: value for key, value in overrides.items() if key in _OF_LIBRARIES}
        libraries = [table | instead if isinstance(table, dict) else table for table in libraries]
    return {"libraries": libraries, **wheel}


def _option(name: str, problem: str, overrides: Container[str] = ()) -> str:
    option = re.sub(r"^libraries\[\d+\]\.|\[\d+\]$", "", name)
    given = f", given by the variable {variable_name(option)}," if option in overrides else ""
    return f"Option `{name}` for build hook `tensoracle`{given} {problem}"
