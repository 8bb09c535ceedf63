"""What a CUDA graph is captured of: an execution for one profile and one set of shapes, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hatch_tensoracle.runtime.execution import EngineExecution
from hatch_tensoracle.runtime.graph_keys import GraphKey

__all__ = ["CapturedExecution", "capture_state", "refusals"]


class CapturedExecution:
    """An execution of its own, whose context nobody changes: a graph is good for as long as its context is as it was.

    It has the settings and the workspace of the one that it is made from. See graph_pool.Work.
    """

    def __init__(self, of: EngineExecution, key: GraphKey, stream: int | None) -> None:
        of.context.check_open()
        assert of.context.handle is not None  # noqa: S101 - it is open
        workspace = of.context.workspace
        self.execution = EngineExecution(of.context.handle, caller_workspace=workspace.is_callers)
        self.execution.settings_slot.follow(of.settings_slot)
        self.execution.context.workspace.memory = workspace.memory
        try:
            self.execution.set_input_shapes(dict(key.shapes), profile=key.profile, stream=stream)
            self.size = 0 if workspace.is_callers else self.execution.workspace_size
        except BaseException:
            self.execution.close()
            raise

    def refusal(self, stream: int) -> str | None:
        """Return why it cannot be captured on that stream; None if it can."""
        return self.execution.context.capture_refusal(stream)

    def enqueue(self, addresses: Mapping[str, int], stream: int) -> None:
        """Put one execution on the stream."""
        self.execution.release_stream()  # whoever has the graphs has looked
        self.execution.enqueue(addresses, stream=stream)

    def close(self) -> None:
        """Close the execution."""
        self.execution.close()


def capture_state(execution: EngineExecution) -> tuple[object, ...]:
    """Return what a graph is captured with beside shapes and addresses: it is good for as long as this is equal."""
    context = execution.context
    return context.contexts.settings, context.workspace.memory, len(context.allocators)


def refusals(execution: EngineExecution) -> Iterator[str]:
    """Yield why an execution's work cannot be captured, whatever its shapes."""
    for name in execution.allocators:
        yield f"output {name!r} has an allocator, which a graph does not call"
    settings = execution.runtime_settings
    if execution.distribution.name == "tensorrt_rtx":
        if settings.cuda_graph_strategy != "disabled":
            yield (
                f"cuda_graph_strategy is {settings.cuda_graph_strategy!r} in runtime_settings, with which TensorRT-RTX "
                "has graphs of its own: use the execution itself there, or leave the setting at 'disabled'"
            )
        if settings.dynamic_shapes_kernel_specialization_strategy == "lazy" and execution.context.shapes.ranged:
            yield (
                "TensorRT-RTX replaces kernels of dynamic shapes in the background: set "
                "dynamic_shapes_kernel_specialization_strategy to 'eager' or 'none' in runtime_settings"
            )
