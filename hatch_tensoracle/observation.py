"""Sees what is read while the kernels file is imported: files by Python's audit events, variables by asking."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, AnyStr

from hatch_tensoracle.kernels_file import Beside

__all__ = ["SITE", "Observation", "observed"]

SITE = {"site-packages", "dist-packages"}
"""Names of directories of environments, which are no part of the standard library that they lie in."""
_IMPORT_SYSTEM = {"importlib._bootstrap_external", "_frozen_importlib_external", "importlib.metadata"}
_ENVIRONMENT: type[Any] = type(os.environ)
_MAPPING = {"os", "_collections_abc", "collections.abc"}
_active: list[Observation] = []


class Observation:
    """Absolute paths and names of what was read; the author's own is in the project or beside the kernels file."""

    def __init__(self, beside: Beside, root: Path) -> None:
        self.beside = beside
        self._within = (beside.directory, root)
        environments = {Path(sys.prefix), *(path for path in map(Path, sys.path) if path.name in SITE)}
        self._without = [path for path in environments if any(own in path.parents for own in self._within)]
        self.files: set[str] = set()
        self.directories: set[str] = set()
        """The author's own that were listed."""
        self.variables: set[str] = set()
        """Those that the author's own code asked for."""
        self.imports: set[str] = set()
        """Top-level modules that it imported, found or not."""
        self.searched: set[str] = set()
        """Where they were looked for."""

    def is_own(self, path: str) -> bool:
        """Whether a file or directory is the author's own, of no environment such as .venv."""
        above = {Path(path), *Path(path).parents}
        return not above.isdisjoint(self._within) and above.isdisjoint(self._without)

    def see(self, file: str) -> None:
        """Take note of a file: of a module's source if it was the compiled one."""
        if file.endswith(".pyc"):
            with contextlib.suppress(ValueError):  # it has no source
                file = importlib.util.source_from_cache(file)
        self.files.add(file)


@contextmanager
def observed(beside: Beside, root: Path) -> Iterator[Observation]:
    """Observe this process for the length of the block."""
    _add_hook()
    observation = Observation(beside, root)
    _active.append(observation)
    os.environ.__class__ = os.environb.__class__ = _ObservedEnvironment
    try:
        yield observation
    finally:
        os.environ.__class__ = os.environb.__class__ = _ENVIRONMENT
        _active.remove(observation)


@cache
def _add_hook() -> None:
    sys.addaudithook(_audit)  # it stays for as long as the process


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit events table of Python's documentation; what is raised here would be raised there."""
    if not _active or event not in {"open", "import", "os.listdir", "os.scandir"}:
        return
    seen = _active[-1]
    if event == "import":
        if isinstance(file := arguments[1], str):  # of an extension module
            seen.see(file)
        elif seen.is_own(_caller().f_code.co_filename):
            seen.imports.add(arguments[0].partition(".")[0])
            seen.searched.update(map(os.path.abspath, arguments[2] or ()))
        return
    path = "." if arguments[0] is None else arguments[0]
    if not isinstance(path, str | bytes | os.PathLike):  # a descriptor, which was opened before
        return
    place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - of bytes too
    if event == "open":
        if arguments[2] & os.O_ACCMODE != os.O_WRONLY:
            seen.see(place)
    elif seen.is_own(place) and _caller().f_globals.get("__name__") not in _IMPORT_SYSTEM:
        seen.directories.add(place)


class _ObservedEnvironment(os._Environ[AnyStr]):  # noqa: SLF001 - what os.environ is, with all that it can do
    def __getitem__(self, key: AnyStr) -> AnyStr:
        # Between here and the author's code are `get`, `in` and os.getenv.
        if _active and _active[-1].is_own(_caller(_MAPPING).f_code.co_filename):
            _active[-1].variables.add(os.fsdecode(key))
        return os._Environ.__getitem__(self, key)  # noqa: SLF001 - as super's, whose type mypy does not know


def _caller(through: Container[str] = ()) -> FrameType:
    """The frame that came here, from outside this module and those."""
    frame = inspect.currentframe()
    assert frame is not None  # noqa: S101 - this one
    while frame.f_back is not None and ((name := frame.f_globals.get("__name__")) == __name__ or name in through):
        frame = frame.f_back
    return frame
