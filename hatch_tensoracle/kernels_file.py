"""Imports the author's kernels file, at build time only."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hatch_tensoracle.errors import ConfigurationError

__all__ = ["Beside", "load_kernels"]


class Beside:
    """The files below a directory, without those of an environment that lies there too, such as .venv."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._inner = [entry for entry in map(Path, sys.path) if directory in entry.parents]

    def __contains__(self, file: str) -> bool:
        return self.directory in Path(file).parents and not any(inner in Path(file).parents for inner in self._inner)


def load_kernels(file: Path, name: str) -> tuple[Any, ...]:
    """Return the list called `name` of the Python file.

    What the file prints goes to stderr, modules beside it can be imported, and nothing of it stays in `sys.modules`.
    Raises ConfigurationError with the line of the author's code that failed.
    """
    beside = Beside(file.parent)
    with _importing(beside):
        module = _load(file, beside)
        try:
            kernels = getattr(module, name)
        except AttributeError as error:
            raise ConfigurationError(
                f"{file} has no `{name}`", remedy="Name the list of KernelSpec records after the colon of `kernels`."
            ) from error
    if not isinstance(kernels, list | tuple) or not kernels:
        raise ConfigurationError(
            f"{file}: `{name}` must be a list of KernelSpec records, not {kernels!r}",
            remedy="Put at least one tensoracle_producer.KernelSpec into it.",
        )
    return tuple(kernels)


def _load(file: Path, beside: Beside) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None  # noqa: S101 - for a .py file there is one
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        with _stdout_to_stderr():
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigurationError(
            f"{_place(error, file, beside)}: {type(error).__name__}: {error}".rstrip(": "), remedy=_remedy(error)
        ) from error
    return module


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect the file descriptor too, which processes and compiled code write to."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # one of the two is closed
            stdout = os.dup(1)
            stack.callback(os.close, stdout)
            _flush()
            os.dup2(2, 1)
            stack.callback(os.dup2, stdout, 1)
            stack.callback(_flush)
        yield


def _flush() -> None:
    """Write out what Python and the C library hold back for stdout."""
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    ctypes.CDLL(None).fflush(None)


def _remedy(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, ModuleNotFoundError) and error.name in {"tensoracle_producer", "triton"}:
        return "Install hatch-tensoracle[producer]."
    if getattr(error, "name", None) == "torch" or any("/torch/" in frame.filename for frame in frames):
        return (
            "Kernels are compiled without torch: keep what needs it out of this file and of what it imports, or put"
            " torch into `requires` of [build-system]."
        )
    return "The file must run from top to bottom when it is imported, without a GPU."


def _place(error: BaseException, file: Path, beside: Beside) -> str:
    """`file:line` of the deepest frame in the author's code."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in beside]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(file)


@contextlib.contextmanager
def _importing(beside: Beside) -> Iterator[None]:
    modules, path, bytecode = dict(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(beside.directory))
    sys.dont_write_bytecode = True  # it would stay in the author's tree
    try:
        yield
    finally:
        for name, module in list(sys.modules.items()):
            if modules.get(name) is not module and _origin(module) in beside:
                del sys.modules[name]
                if name in modules:
                    sys.modules[name] = modules[name]
        sys.path[:], sys.dont_write_bytecode = path, bytecode


def _origin(module: ModuleType) -> str:
    names = getattr(module, "__dict__", {})
    return names.get("__file__") or next(iter(names.get("__path__") or ()), "")  # a namespace package has only this
