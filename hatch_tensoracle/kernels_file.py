"""Imports the author's kernels file, at build time only."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hatch_tensoracle.errors import ConfigurationError

__all__ = ["load_kernels"]


def load_kernels(file: Path, name: str) -> tuple[Any, ...]:
    """Return the list called `name` of the Python file.

    What the file prints goes to stderr, modules beside it can be imported, and nothing of it stays in `sys.modules`.
    Raises ConfigurationError with the line of the author's code that failed.
    """
    with _importing_beside(file):
        module = _load(file)
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


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None  # noqa: S101 - for a .py file there is one
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            f"{_place(error, file)}: {type(error).__name__}: {error}".rstrip(": "),
            remedy="The file must run from top to bottom when it is imported, without a GPU.",
        ) from error
    return module


def _place(error: BaseException, file: Path) -> str:
    """`file:line` of the deepest frame in the author's directory."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(file.parent)
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(file)


@contextlib.contextmanager
def _importing_beside(file: Path) -> Iterator[None]:
    before = dict(sys.modules)
    sys.path.insert(0, str(file.parent))
    try:
        yield
    finally:
        sys.path.remove(str(file.parent))
        for name, module in list(sys.modules.items()):
            origin = getattr(module, "__file__", None)
            if name not in before and origin and Path(origin).is_relative_to(file.parent):
                del sys.modules[name]
        if file.stem in before:
            sys.modules[file.stem] = before[file.stem]
