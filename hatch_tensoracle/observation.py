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
from types import FrameType
from typing import Any

from hatch_tensoracle.kernels_file import Beside

__all__ = ["Observation", "observed"]

_IMPORT_SYSTEM = {"importlib._bootstrap_external", "_frozen_importlib_external"}
_ENVIRONMENT = type(os.environ)
_MAPPING = {"os", "_collections_abc", "collections.abc"}
_active: list[Observation] = []


class Observation:
    """Absolute paths and names of what was read; what is not beside the kernels file is kept apart."""

    def __init__(self, beside: Beside) -> None:
        self.beside = beside
        self.files: set[str] = set()
        self.directories: set[str] = set()
        """Those that were listed, beside the kernels file alone."""
        self.variables: set[str] = set()
        """Those that code beside the kernels file asked for."""

    def see(self, file: str) -> None:
        """Take note of a file: of a module's source if it was the compiled one."""
        if file.endswith(".pyc"):
            with contextlib.suppress(ValueError):  # it has no source
                file = importlib.util.source_from_cache(file)
        self.files.add(file)


@contextmanager
def observed(beside: Beside) -> Iterator[Observation]:
    """Observe this process for the length of the block."""
    _add_hook()
    observation = Observation(beside)
    _active.append(observation)
    os.environ.__class__ = _ObservedEnvironment
    try:
        yield observation
    finally:
        os.environ.__class__ = _ENVIRONMENT
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
        return
    path = "." if arguments[0] is None else arguments[0]
    if not isinstance(path, str | bytes | os.PathLike):  # a descriptor, which was opened before
        return
    place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - of bytes too
    if event == "open":
        if arguments[2] & os.O_ACCMODE != os.O_WRONLY:
            seen.see(place)
    elif f"{place}/." in seen.beside and _caller().f_globals.get("__name__") not in _IMPORT_SYSTEM:
        seen.directories.add(place)


class _ObservedEnvironment(os._Environ[str]):  # noqa: SLF001 - what os.environ is, with all that it can do
    def __getitem__(self, key: str) -> str:
        # Between here and the author's code are `get`, `in` and os.getenv.
        if _active and _caller(_MAPPING).f_code.co_filename in _active[-1].beside:
            _active[-1].variables.add(key)
        return super().__getitem__(key)


def _caller(through: Container[str] = ()) -> FrameType:
    """The frame that came here, from outside this module and those."""
    frame = inspect.currentframe()
    assert frame is not None  # noqa: S101 - this one
    while frame.f_back is not None and ((name := frame.f_globals.get("__name__")) == __name__ or name in through):
        frame = frame.f_back
    return frame
