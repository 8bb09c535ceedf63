"""Chooses the Python package that is TensorRT here, the one place where this is decided.

`tensorrt` and `tensorrt_rtx` have one interface and different engines, so where both are installed the caller says
which. `tensorrt_lean`, which executes and does not build, is taken only by name.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import logging
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = ["DISTRIBUTIONS", "Distribution", "distribution", "distribution_of"]

DISTRIBUTIONS = {
    "tensorrt": ("tensorrt",),
    "tensorrt_rtx": ("tensorrt_rtx",),
    "tensorrt_lean": ("tensorrt_lean", "tensorrt_lean_bindings"),
}
"""Modules that each may be installed as."""
_CHOSEN_UNASKED = ("tensorrt", "tensorrt_rtx")
_PACKAGES = {
    "tensorrt": "hatch-tensoracle[tensorrt]",
    "tensorrt_rtx": "hatch-tensoracle[rtx]",
    "tensorrt_lean": "tensorrt-lean",
}

_LOG = logging.getLogger("hatch_tensoracle.tensorrt")
_LEVELS = {
    "INTERNAL_ERROR": logging.ERROR,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.INFO,
    "VERBOSE": logging.DEBUG,
}
_KEPT = 20
"""Messages that an error shows at most."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """One installed TensorRT. There is one such object of each in a process."""

    name: str
    """`tensorrt`, `tensorrt_rtx` or `tensorrt_lean`."""
    module: Any
    """The Python package."""
    version: str
    """Such as `11.2.1.2`: plans are good for this one only, unless built version-compatible."""
    logger: Any
    """An ILogger for builders and runtimes, which passes messages on to `logging`, as `hatch_tensoracle.tensorrt`."""
    _messages: _Messages

    def __str__(self) -> str:
        """Name, version and place: two may be in one process."""
        return f"{self.name} {self.version} ({getattr(self.module, '__file__', None)})"

    @contextlib.contextmanager
    def messages(self) -> Iterator[deque[str]]:
        """Collect warnings and errors that TensorRT logs meanwhile, on any thread: the last 20, oldest first."""
        with self._messages.collected() as kept:
            yield kept


def distribution(name: str | None = None) -> Distribution:
    """Return the named TensorRT or, without a name, the one that is installed.

    Raises ValueError if there is none, if there are two and none is named, or if the name is unknown or not installed.
    """
    if name is None:
        name = _only_installed()
    elif name not in DISTRIBUTIONS:
        raise ValueError(f"runtime must be one of {', '.join(DISTRIBUTIONS)}, not {name!r}")
    for known in DISTRIBUTIONS[name]:
        if _is_installed(known):
            module = importlib.import_module(known)
            with _making:
                return _distribution(name, module)
    raise ValueError(f"{name} is not installed: pip install {_PACKAGES[name]}")


def distribution_of(thing: object) -> Distribution:
    """Return the TensorRT whose object it is: its class is of `tensorrt_bindings.tensorrt` or the like."""
    return distribution(type(thing).__module__.rpartition(".")[2])


def _only_installed() -> str:
    found = [name for name in _CHOSEN_UNASKED if any(map(_is_installed, DISTRIBUTIONS[name]))]
    if len(found) > 1:
        raise ValueError(f"{' and '.join(found)} are installed: say which, as in EngineBuild(runtime={found[0]!r})")
    if not found:
        raise ValueError("no TensorRT is installed: pip install hatch-tensoracle[tensorrt], or [rtx] for TensorRT-RTX")
    return found[0]


def _is_installed(module: str) -> bool:
    if module in sys.modules:
        return True
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None  # else any directory of this name


_making = threading.RLock()
"""`functools.cache` lets several threads make the first object."""


@functools.cache  # for the process: TensorRT keeps the first logger that it is given, and logs to the very end
def _distribution(name: str, module: ModuleType) -> Distribution:
    messages = _Messages()
    return Distribution(
        name=name,
        module=module,
        version=module.__version__,
        logger=_logger(module, messages),
        _messages=messages,
    )


class _Messages:
    """Hands each message to `logging` and to those who collect.

    Without a lock: the garbage collector may end a `collected` in the middle of any other call, on the same thread.
    Each access to the dict is one step of the interpreter.
    """

    def __init__(self) -> None:
        self._collecting: dict[int, deque[str]] = {}
        """By `id`: deques of the same content are equal."""

    def add(self, severity: str, text: str) -> None:
        level = _LEVELS.get(severity, logging.ERROR)
        if level >= logging.WARNING:
            for kept in list(self._collecting.values()):
                kept.append(text)
        _LOG.log(level, "%s", text)

    @contextlib.contextmanager
    def collected(self) -> Iterator[deque[str]]:
        kept: deque[str] = deque(maxlen=_KEPT)
        self._collecting[id(kept)] = kept
        try:
            yield kept
        finally:
            del self._collecting[id(kept)]


def _logger(module: Any, messages: _Messages) -> Any:
    class Logger(module.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            module.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            messages.add(severity.name, message)

    return Logger()
