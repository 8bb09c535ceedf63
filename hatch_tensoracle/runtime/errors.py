"""What can go wrong when engines are built, kept and executed, one class a kind."""

from __future__ import annotations

from collections.abc import Iterable

from hatch_tensoracle.errors import TensoracleError

__all__ = [
    "CorruptEngineError",
    "EngineBuildError",
    "EngineCacheError",
    "EngineConditionError",
    "EngineIOError",
    "ExecutionError",
    "GpuError",
    "PluginLibraryError",
    "logged",
]


def logged(messages: Iterable[str]) -> str:
    """Return the end of a message that says what TensorRT said."""
    return "; TensorRT logged:" + ("".join(f"\n  {message}" for message in messages) or "\n  (nothing)")


class GpuError(TensoracleError):
    """The driver does not say what the GPU is, so no engine can be chosen for it."""


class PluginLibraryError(TensoracleError):
    """A plugin library is missing, unreadable, not one that TensorRT takes, or not the one that was loaded."""

    library: str
    """Its path."""

    def __init__(self, cause: str, *, library: str = "", remedy: str = "") -> None:
        super().__init__(cause, remedy=remedy)
        self.library = library

    def __str__(self) -> str:
        """Say which, what, and what to do."""
        text = f"{self.library}: {self.cause}" if self.library else self.cause
        return f"{text}. {self.remedy}" if self.remedy else text


class EngineBuildError(TensoracleError, RuntimeError):
    """TensorRT could not build an engine of the network."""

    messages: tuple[str, ...]
    """The last that TensorRT logged meanwhile."""

    def __init__(self, cause: str, *, messages: tuple[str, ...] = (), remedy: str = "") -> None:
        super().__init__(cause, remedy=remedy)
        self.messages = messages

    def __str__(self) -> str:
        """Say what, what TensorRT said, and what to do."""
        text = self.cause + logged(self.messages)
        return f"{text}\n{self.remedy}" if self.remedy else text


class EngineCacheError(TensoracleError):
    """Base of what is wrong with a saved engine. The caller decides whether to build another (`force_rebuild`)."""

    file: str
    """The saved engine's path."""

    def __init__(self, cause: str, *, file: str = "", remedy: str = "") -> None:
        super().__init__(cause, remedy=remedy)
        self.file = file

    def __str__(self) -> str:
        """Say which, what, and what to do."""
        text = f"{self.file}: {self.cause}" if self.file else self.cause
        return f"{text}. {self.remedy}" if self.remedy else text


class CorruptEngineError(EngineCacheError):
    """A saved engine is cut off or damaged, or TensorRT cannot deserialize it."""


class EngineConditionError(EngineCacheError):
    """A saved engine was built under other conditions than those that hold, or they change while one is built."""

    def __init__(  # noqa: PLR0913 - all but the cause may be left out
        self,
        cause: str,
        *,
        field: str = "",
        seen: object = None,
        expected: object = None,
        file: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(cause, file=file, remedy=remedy)
        self.field = field
        """What differs, such as `gpu.name`, `weights[0]` or `creator`."""
        self.seen = seen
        self.expected = expected


class EngineIOError(EngineCacheError):
    """An engine's tensors are not those that the caller declared."""

    def __init__(self, tensor: str, field: str, *, seen: object, expected: object, file: str = "") -> None:
        super().__init__(f"tensor {tensor!r} has {field} {seen}; {expected} is declared", file=file)
        self.tensor = tensor
        self.field = field
        """What differs: `name`, `mode`, `dtype`, `shape`, `location`, `format` or `profile`."""
        self.seen = seen
        self.expected = expected

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by what it was made from: the rest is its state."""
        return _io_error, (self.tensor, self.field, self.seen, self.expected, self.file)


def _io_error(tensor: str, field: str, seen: object, expected: object, file: str) -> EngineIOError:
    return EngineIOError(tensor, field, seen=seen, expected=expected, file=file)


class ExecutionError(TensoracleError, RuntimeError):
    """TensorRT refused to execute an engine, or an execution unit was used in a way that it cannot be."""
