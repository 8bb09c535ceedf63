"""The output allocators of an execution, by output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hatch_tensoracle.runtime.errors import ExecutionError
from hatch_tensoracle.runtime.output_allocator import Allocate, OutputAllocator, output_allocator

__all__ = ["OutputAllocators"]

Refusal = Callable[[str], ExecutionError]
"""Makes the error for something that TensorRT refused, with what it logged."""


class OutputAllocators(dict[str, OutputAllocator]):
    """One for each output that has one."""

    def change(self, context: Any, name: str, allocator: Allocate | Any | None, trt: Any, refused: Refusal) -> None:
        """Set, replace or, with None, end the allocator of an output. Raises TypeError, or what `refused` makes."""
        present = self.get(name)
        if present is not None and allocator is not None:
            present.use(allocator)
        elif allocator is not None:
            made = output_allocator(trt, allocator)
            _hand_over(context, name, made, refused)
            self[name] = made
        elif present is not None:
            if not context.set_output_allocator(name, None):
                raise refused(f"to let go the allocator of output {name!r}")
            self.pop(name).use(None)

    def install(self, context: Any, refused: Refusal) -> None:
        """Hand all over to another context."""
        for name, allocator in self.items():
            _hand_over(context, name, allocator, refused)

    def forget_shapes(self) -> None:
        """Forget what the last execution gave: the inputs have other shapes."""
        for allocator in self.values():
            allocator.shape = None

    def forget_errors(self) -> None:
        """Forget what was raised in earlier executions."""
        for allocator in self.values():
            allocator.error = None

    @property
    def error(self) -> Exception | None:
        """What a caller's function raised in the last execution."""
        return next((each.error for each in self.values() if each.error is not None), None)


def _hand_over(context: Any, name: str, allocator: OutputAllocator, refused: Refusal) -> None:
    if not context.set_output_allocator(name, allocator):
        raise refused(f"to take an allocator for output {name!r}")
