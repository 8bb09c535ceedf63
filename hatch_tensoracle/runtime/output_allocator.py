"""Memory for outputs of which only the data decide the size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Allocate", "OutputAllocator", "output_allocator"]

Allocate = Callable[[int, int, int], int]
"""Given a size and an alignment, in bytes, and a stream's handle, returns a device address, or 0 if there is none."""


class OutputAllocator(Protocol):
    """An IOutputAllocator that remembers."""

    given: Any
    """The caller's function or IOutputAllocator."""
    address: int
    """Of the memory that it last gave."""
    shape: tuple[int, ...] | None
    """Of the last execution, once TensorRT knows it."""
    error: Exception | None
    """What the caller's function raised in the last execution: TensorRT has no place for it."""


def output_allocator(module: Any, allocator: Any) -> OutputAllocator:
    """Return an IOutputAllocator of the binding, from a function or over another one. Raises TypeError."""
    made: OutputAllocator
    if isinstance(allocator, module.IOutputAllocator):
        made = _subclass(module)(allocator, _over(allocator), getattr(allocator, "notify_shape", None))
    elif callable(allocator):
        made = _subclass(module)(allocator, lambda _name, _memory, *wanted: allocator(*wanted), None)
    else:
        raise TypeError(f"an allocator must be a function or an IOutputAllocator, not {allocator!r}")
    return made


def _over(allocator: Any) -> Callable[..., int]:
    if hasattr(allocator, "reallocate_output_async"):
        return allocator.reallocate_output_async  # type: ignore[no-any-return]
    return lambda *wanted: allocator.reallocate_output(*wanted[:-1])  # which knows no stream


def _subclass(module: Any) -> Any:
    class Remembering(module.IOutputAllocator):  # type: ignore[misc]
        def __init__(self, given: Any, allocate: Callable[..., int], notify: Callable[..., object] | None) -> None:
            module.IOutputAllocator.__init__(self)
            self.given, self._allocate, self._notify = given, allocate, notify
            self.address = 0
            self.shape: tuple[int, ...] | None = None
            self.error: Exception | None = None

        def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            try:
                self.address = int(self._allocate(tensor_name, memory, size, alignment, stream))
            except Exception as error:  # noqa: BLE001 - raised again by enqueue
                self.error = error
                return 0
            return self.address

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.shape = tuple(shape)
            if self._notify is not None:
                self._notify(tensor_name, shape)

    return Remembering
