"""TensorRT's execution context with all that it is told: shapes, allocators, workspace, and who may use it."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, SupportsIndex

from hatch_tensoracle.runtime.addresses import checked_stream
from hatch_tensoracle.runtime.contexts import Contexts
from hatch_tensoracle.runtime.distribution import Distribution
from hatch_tensoracle.runtime.engine_tensors import EngineTensor, read_tensors
from hatch_tensoracle.runtime.errors import ExecutionError, logged
from hatch_tensoracle.runtime.input_shapes import InputShapes
from hatch_tensoracle.runtime.output_allocators import OutputAllocators
from hatch_tensoracle.runtime.settings_slot import SettingsSlot
from hatch_tensoracle.runtime.sole_use import SoleUse
from hatch_tensoracle.runtime.workspace import Workspace

__all__ = ["ExecutionContext", "OpenEngine"]

Shape = tuple[int, ...]


class OpenEngine(Protocol):
    """What an execution keeps alive, such as an EngineHandle."""

    @property
    def engine(self) -> Any:
        """TensorRT's ICudaEngine."""

    @property
    def distribution(self) -> Distribution:
        """The TensorRT that it is of."""

    @property
    def settings_slot(self) -> SettingsSlot:
        """Where it keeps its runtime settings."""


class ExecutionContext:
    """What an EngineExecution is made of. Its own context is made with the first use, and again for other settings."""

    def __init__(self, handle: OpenEngine, *, is_callers_workspace: bool) -> None:
        self.handle: OpenEngine | None = handle
        """None once it is closed."""
        self.engine, self.distribution = handle.engine, handle.distribution
        self.tensors: Mapping[str, EngineTensor] = read_tensors(self.engine)
        self.shapes = InputShapes(self.engine, self.tensors)
        self.allocators = OutputAllocators()
        self.workspace = Workspace(is_callers=is_callers_workspace)
        self.settings_slot = SettingsSlot(handle.settings_slot)
        self.contexts = Contexts(self.distribution, self.settings_slot)
        # Before all that a context uses, also where the garbage collector or the end of the process chooses the order.
        weakref.finalize(self, self.contexts.release)
        self.is_ready = False
        """Whether nothing but addresses is missing for an enqueue, as long as settings stay the same."""
        self.use = SoleUse()
        self._resources = contextlib.ExitStack()
        self.messages: deque[str] = self._resources.enter_context(self.distribution.messages())
        """What TensorRT logged since the last call began."""

    def close(self) -> None:
        """Release the context and then the engine; again, it does nothing."""
        with self.use:
            self.contexts.release()
            self.allocators.clear()
            self.is_ready = False
            self.engine = self.handle = None
            self._resources.close()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[Any]:
        """Keep others out, and hand out TensorRT's context."""
        with self.use:
            self.messages.clear()
            yield self._opened()

    def check_open(self) -> None:
        """Raise ExecutionError if it is closed."""
        if self.handle is None:
            raise ExecutionError("the execution is closed")

    def apply_shapes(
        self, context: Any, wanted: Mapping[str, Shape], profile: int, stream: SupportsIndex | None
    ) -> None:
        """Give TensorRT shapes and profile; for another profile than the present one the stream is needed."""
        self.is_ready = False
        if profile != self.shapes.profile:
            self.use.take(self._profile_stream(profile, stream))
        self.allocators.forget_shapes()
        self.shapes.apply(context, wanted, profile, self.use.stream or 0, self.refused)

    def get_ready(self, stream: int) -> None:
        """Raise for whatever is missing for an enqueue but addresses."""
        context = self._opened(stream)
        self.current_shapes()
        for name, shape in self.shapes.outputs.items():
            if -1 in shape and name not in self.allocators:
                raise ExecutionError(f"the data decide the size of output {name!r}: call set_output_allocator first")
        self.workspace.give(context, self.shapes.profile)
        self.is_ready = True

    def current_shapes(self) -> Mapping[str, Shape]:
        """Return the shapes of all inputs. Raises ExecutionError if there are none."""
        if self.shapes.current is None:
            names = ", ".join(map(repr, self.shapes.ranged)) or "no inputs"
            raise ExecutionError(f"the engine has no shapes: set_input_shapes for {names} has not succeeded")
        return self.shapes.current

    def needed_workspace(self, context: Any) -> int:
        """Return how many bytes: the caller's for the present shapes, TensorRT's own for any of the profile."""
        return self.workspace.needed(context, self.shapes.profile, has_shapes=self.shapes.current is not None)

    def capture_refusal(self, stream: int) -> str | None:
        """Return why its work cannot be captured on a stream; None if it can."""
        with self.in_use() as context:
            for name, shape in self.shapes.outputs.items():
                if -1 in shape:
                    return f"the data decide the size of output {name!r}"
            # TensorRT-RTX's; elsewhere the capture itself tells.
            if hasattr(context, "is_stream_capturable") and not context.is_stream_capturable(stream):
                return f"TensorRT says that the engine is not stream capturable{logged(tuple(self.messages))}"
        return None

    def tensor(self, name: str) -> EngineTensor:
        """Return what is known of a tensor. Raises ValueError if there is none of that name."""
        if name not in self.tensors:
            raise ValueError(f"there is no tensor {name!r}; the engine has {', '.join(map(repr, self.tensors))}")
        return self.tensors[name]

    def refused(self, what: str) -> ExecutionError:
        """Return the error for what TensorRT refuses."""
        return ExecutionError(f"TensorRT refuses {what}{logged(tuple(self.messages))}")  # others may log meanwhile

    def _opened(self, stream: int | None = None) -> Any:
        """Return the context that is to be used, which `stream` may be needed for."""
        self.check_open()
        self.use.check()
        if self.contexts.present is None or self.contexts.is_stale:
            wanted, profile = self.shapes.current, self.shapes.profile
            if wanted is not None and profile:
                self.use.take(self._profile_stream(profile, stream))  # or nothing is changed
            self.is_ready = False
            context = self.contexts.create(self.engine, self.workspace.strategy(self.distribution.module))
            self.use.claim()  # after it, as TensorRT makes a CUDA context where there is none
            if context is None:
                raise self.refused("to create an execution context")
            self.shapes.forget()
            self.allocators.install(context, self.refused)
            if wanted is not None or not self.shapes.ranged:
                wanted, profile = (wanted, profile) if wanted is not None else self.shapes.choose({}, None)
                self.apply_shapes(context, wanted, profile, stream)
        return self.contexts.present

    def _profile_stream(self, profile: int, stream: SupportsIndex | None) -> int:
        stream = self.use.stream if stream is None else stream
        if stream is None:
            raise ValueError(f"the shapes need profile {profile}: give the stream on which to change to it")
        return checked_stream(stream)
