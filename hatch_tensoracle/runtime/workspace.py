"""TensorRT's working memory on the device: its own, or the caller's."""

from __future__ import annotations

from typing import Any, SupportsIndex

from hatch_tensoracle.runtime.addresses import checked_address, checked_count
from hatch_tensoracle.runtime.errors import ExecutionError

__all__ = ["Workspace"]

_ALIGNMENT = 256
"""Bytes: IExecutionContext.set_device_memory's documentation."""


class Workspace:
    """What an execution's contexts work in."""

    def __init__(self, *, is_callers: bool) -> None:
        self.is_callers = is_callers
        """Whether TensorRT is to allocate none itself."""
        self.memory = (0, 0)
        """Address and bytes of the caller's."""

    def strategy(self, trt: Any) -> Any:
        """Return the ExecutionContextAllocationStrategy of contexts."""
        strategies = trt.ExecutionContextAllocationStrategy
        return strategies.USER_MANAGED if self.is_callers else strategies.STATIC

    def needed(self, context: Any, profile: int, *, has_shapes: bool) -> int:
        """Return how many bytes: the caller's for the present shapes, TensorRT's own for any of the profile."""
        size: int
        if has_shapes and self.is_callers:
            size = context.update_device_memory_size_for_shapes()
        else:
            size = context.engine.get_device_memory_size_for_profile_v2(profile)
        return size

    def set(self, address: SupportsIndex, size: SupportsIndex, needed: int) -> None:
        """Take the caller's memory. Raises ExecutionError if none is wanted, TypeError or ValueError."""
        if not self.is_callers:
            raise ExecutionError("TensorRT has its own workspace: create the execution with caller_workspace=True")
        found, length = checked_address("the workspace", address), checked_count("the workspace's size", size)
        if found % _ALIGNMENT:
            raise ValueError(f"the workspace's address {found:#x} is not aligned to {_ALIGNMENT} bytes")
        if length < needed:
            raise ValueError(f"the workspace has {length} bytes; {needed} are needed")
        self.memory = found, length

    def give(self, context: Any, profile: int) -> None:
        """Give the caller's memory to a context that has shapes. Raises ExecutionError if it does not do for them."""
        if self.is_callers and (needed := self.needed(context, profile, has_shapes=True)):
            if needed > self.memory[1]:
                raise ExecutionError(f"the workspace has {self.memory[1]} bytes; {needed} are needed for the shapes")
            context.set_device_memory(*self.memory)
