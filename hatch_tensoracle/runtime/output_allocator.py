"""Memory for outputs of which only the data decide the size."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from hatch_tensoracle.runtime.addresses import checked_count

__all__ = ["Allocate", "OutputAllocator", "output_allocator"]

Allocate = Callable[[int, int, int], int]
"""Given a size and an alignment, in bytes, and a stream's handle, returns a device address, or 0 if there is none."""


class OutputAllocator(Protocol):
    """An IOutputAllocator that remembers, and can be told to use another.

    The binding keeps each that it is given as long as the context: one serves an output all the time.
    """

    given: Any
    """The caller's function or IOutputAllocator."""
    address: int
    """Of the memory that it last gave."""
    shape: tuple[int, ...] | None
    """Of the last execution, once TensorRT knows it."""
    error: Exception | None
    """What the caller's function raised in the last execution: TensorRT has no place for it."""

    def use(self, allocator: Any) -> None:
        """Use that function or IOutputAllocator from now on; None lets the last one go. Raises TypeError."""


def output_allocator(module: Any, allocator: Any) -> OutputAllocator:
    """Return an IOutputAllocator of the binding, from a function or over another one. Raises TypeError."""
    made: OutputAllocator = _subclass(module)()
    made.use(allocator)
    return made


def _methods(module: Any, allocator: Any) -> tuple[Callable[..., int], Callable[..., object] | None]:
    """Return reallocate_output_async and notify_shape, if it has that."""
    if isinstance(allocator, module.IOutputAllocator):
        return _over(allocator), getattr(allocator, "notify_shape", None)
    if callable(allocator):
        return (lambda _name, _memory, *wanted: allocator(*wanted)), None
    if allocator is None:
        return (lambda *_: 0), None
    raise TypeError(f"an allocator must be a function or an IOutputAllocator, not {allocator!r}")


def _over(allocator: Any) -> Callable[..., int]:
    if hasattr(allocator, "reallocate_output_async"):
        return allocator.reallocate_output_async  # type: ignore[no-any-return]
    return lambda *wanted: allocator.reallocate_output(*wanted[:-1])  # which knows no stream


@functools.cache
def _subclass(module: Any) -> Any:
    class Remembering(module.IOutputAllocator):  # type: ignore[misc]
        def __init__(self) -> None:
            module.IOutputAllocator.__init__(self)
            self.use(None)

        def use(self, allocator: Any) -> None:
            self._allocate, self._notify = _methods(module, allocator)
            self.given, self.address = allocator, 0
            self.shape: tuple[int, ...] | None = None
            self.error: Exception | None = None

        def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
            try:
                given = self._allocate(tensor_name, memory, size, alignment, stream)
                self.address = checked_count(f"the address that the allocator of output {tensor_name!r} gave", given)
            except Exception as error:  # noqa: BLE001 - raised again by enqueue
                self.error = error
                return 0
            return self.address

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.shape = tuple(shape)
            if self._notify is not None:
                try:
                    self._notify(tensor_name, shape)
                except Exception as error:  # noqa: BLE001 - raised again by enqueue
                    self.error = error

    return Remembering
