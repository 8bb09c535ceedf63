"""What a kernels file was read from, and whether all of it is still the same."""

from __future__ import annotations

import ast
import csv
import hashlib
import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path

from hatch_tensoracle.observation import SITE, Observation

__all__ = ["Dependencies"]

_OURS = ("hatch_tensoracle", "tensoracle_producer")
_SYSTEM = ("/proc/", "/sys/", "/dev/")
_SUFFIXES = tuple(EXTENSION_SUFFIXES)
_files: set[str] = set()
_directories: set[str] = set()
_variables: set[str] = set()
_imports: set[str] = set()
_searched: set[str] = set()
"""What earlier kernels files of this process read: a module that they share is not run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The state of all that was read. Paths are relative to the project where they lie in it, which may be moved."""

    files: Mapping[str, str]
    """SHA-256 of each, empty for one that was not there."""
    directories: Mapping[str, str]
    """SHA-256 over the names in each that was listed."""
    variables: Mapping[str, str | None]
    """Variables of the environment that the author's code read."""
    distributions: Mapping[str, str]
    """Version of each that some other files belong to, and SHA-256 over what it installed."""
    modules: Mapping[str, str]
    """SHA-256 over what can be imported from each directory that the author's modules lie in or were looked for."""
    absent: tuple[str, ...]
    """What the author's code tried to import and was not found."""
    place: tuple[str, ...] | None
    """The project and where modules were found, if a path is absolute: another project may mean another file."""

    @classmethod
    def of(cls, seen: Observation, root: Path) -> Dependencies:
        """The present state of what was seen."""
        here = seen.beside.directory
        beside = {file for file in seen.files if file in seen.beside}
        _files.update(seen.files - beside)
        _directories.update(seen.directories)
        _variables.update(seen.variables)
        _imports.update(seen.imports)
        put_by_author = seen.searched - {str(here), *map(os.path.abspath, sys.path)}
        _searched.update(put_by_author)
        code = (file for file in beside | _files if file.endswith(".py") and seen.is_own(file))
        imported = {name for file in code for name in _imported(Path(file))}
        modules = (getattr(sys.modules.get(name), "__file__", None) for name in imported)
        distributions, rest = _divided(beside | _files | {file for file in modules if file}, seen, root)
        packages = {str(Path(file).parent) for file in rest if file.endswith(".py") and not SITE & set(file.split("/"))}
        packages |= {str(here), *_searched}
        files = {_relative(file, root): _digest(Path(file)) for file in sorted(rest)}
        directories = {_relative(path, root): _listing(Path(path)) for path in sorted(_directories)}
        modules_in = {_relative(path, root): _importable(Path(path)) for path in sorted(packages)}
        return cls(
            files=files,
            directories=directories,
            variables={name: os.environ.get(name) for name in sorted(_variables)},
            distributions=dict(sorted(distributions.items())),
            modules=modules_in,
            absent=tuple(sorted(name for name in _imports if not _is_found(name, here))),
            place=_place(root, (*files, *directories, *modules_in)),
        )

    def changed(self, root: Path, kernels_directory: Path) -> str | None:
        """Name one thing that is not as it was, None if everything is."""
        return next(self._changes(root, kernels_directory), None)

    def _changes(self, root: Path, kernels_directory: Path) -> Iterator[str]:
        if self.place != _place(root, (*self.files, *self.directories, *self.modules)):
            yield "where the project or what it imports lies"
        yield from (path for path, digest in self.files.items() if _digest(root / path) != digest)
        yield from (path for path, digest in self.directories.items() if _listing(root / path) != digest)
        yield from (f"${name}" for name, value in self.variables.items() if os.environ.get(name) != value)
        yield from (name for name, version in self.distributions.items() if _version(name) != version)
        yield from (name for name in self.absent if _is_found(name, kernels_directory))
        yield from (
            f"what can be imported from {path}"
            for path, digest in self.modules.items()
            if _importable(root / path) != digest
        )


def _divided(files: Iterable[str], seen: Observation, root: Path) -> tuple[dict[str, str], set[str]]:
    """The distributions that have some of the files, and the files that count by their content."""
    owned: dict[str, importlib.metadata.Distribution] = {}
    rest: set[str] = set()
    owners = _owners()
    known = (*_SYSTEM, *(f"{directory}/" for directory in (*_standard_library(), *_our_packages())))
    for file in files:
        if file.endswith("/entry_points.txt"):  # those of all are read to find those of one group
            continue
        if file in seen.beside:
            rest.add(file)
        elif file.startswith(known) and not (SITE & set(file.split("/"))):
            continue
        elif (owner := owners.get(file)) is not None:
            owned[owner.name] = owner
        elif Path(file).is_file() or root in Path(file).parents:
            rest.add(file)
    return {name: _installed(owner) for name, owner in owned.items()}, rest


def _standard_library() -> set[str]:
    """Where it is: the version of Python stands for it."""
    return {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}


def _our_packages() -> set[str]:
    """Where they are: a digest of their own stands for them."""
    return {str(Path(file).parent) for name in _OURS if (file := getattr(sys.modules.get(name), "__file__", None))}


def _owners() -> dict[str, importlib.metadata.Distribution]:
    """The distribution of every file that one says it installed."""
    owners: dict[str, importlib.metadata.Distribution] = {}
    for distribution in importlib.metadata.distributions():
        base = str(distribution.locate_file(""))
        for row in _rows(distribution):
            owners.setdefault(os.path.join(base, row[0]), distribution)  # noqa: PTH118 - tens of thousands
    return owners


def _imported(file: Path) -> Iterator[str]:
    """Modules that the file's text imports, anywhere in it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError):  # it was read as data, or has gone
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _place(root: Path, paths: Iterable[str]) -> tuple[str, ...] | None:
    """The project, and the entries of `sys.path` that absolute ones of the paths lie below; None if there are none."""
    above = {str(directory) for path in map(Path, paths) if path.is_absolute() for directory in path.parents}
    return (str(root), *(entry for entry in sys.path if entry in above)) if above else None


def _relative(path: str, root: Path) -> str:
    inside = root in Path(path).parents or root == Path(path)
    return os.path.relpath(path, root) if inside else path


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _listing(directory: Path) -> str:
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names alone
    except OSError:
        return ""
    return _digest_of_names(set(names) - {"__pycache__"})


def _importable(directory: Path) -> str:
    """SHA-256 over the names of modules and regular packages, but for libraries: the hook puts its own there."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names alone
    except OSError:
        return ""
    modules = {name for name in names if name.endswith(_SUFFIXES) and not name.startswith("lib")}
    modules |= {name for name in names if name.endswith(".py")}
    return _digest_of_names(modules | {f"{name}/" for name in names if (directory / name / "__init__.py").is_file()})


def _digest_of_names(names: Iterable[str]) -> str:
    return hashlib.sha256("/".join(sorted(names)).encode(errors="surrogateescape")).hexdigest()


def _is_found(module: str, kernels_directory: Path) -> bool:
    """Whether a top-level module can be imported."""
    return PathFinder.find_spec(module, [str(kernels_directory), *sys.path]) is not None


def _version(distribution: str) -> str:
    try:
        return _installed(importlib.metadata.distribution(distribution))
    except importlib.metadata.PackageNotFoundError:
        return ""


def _installed(distribution: importlib.metadata.Distribution) -> str:
    """Version, and SHA-256 over the record of files, but for those that differ by installation: scripts, metadata."""
    rows = [row for row in _rows(distribution) if not row[0].startswith(("../", "/")) and ".dist-info/" not in row[0]]
    content = sorted(row[:2] for row in rows if not row[0].endswith(".pyc"))
    return f"{distribution.version} {hashlib.sha256(repr(content).encode()).hexdigest()}"


def _rows(distribution: importlib.metadata.Distribution) -> Iterator[list[str]]:
    """Path, hash and size of what it installed."""
    return filter(None, csv.reader((distribution.read_text("RECORD") or "").splitlines()))
