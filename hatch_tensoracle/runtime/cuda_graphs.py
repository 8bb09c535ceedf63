"""Executes an engine by CUDA graphs, one for each profile and shapes."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self, SupportsIndex, cast, overload

from hatch_tensoracle.runtime.addresses import checked_count, checked_stream
from hatch_tensoracle.runtime.captured_execution import CapturedExecution, capture_state, refusals
from hatch_tensoracle.runtime.engine_tensors import EngineTensor
from hatch_tensoracle.runtime.errors import ExecutionError
from hatch_tensoracle.runtime.execution import EngineExecution
from hatch_tensoracle.runtime.graph_keys import GraphKey, least_larger, padded_axes
from hatch_tensoracle.runtime.graph_pool import GraphPool, GraphStatistics
from hatch_tensoracle.runtime.output_allocator import OutputAllocator
from hatch_tensoracle.runtime.scopes import runtime_config
from hatch_tensoracle.runtime.settings import CudaGraphStrategy
from hatch_tensoracle.runtime.sole_use import SoleUse
from hatch_tensoracle.runtime.values import check_choice

__all__ = ["CudaGraphs", "enable_cudagraphs"]

Shape = tuple[int, ...]

_LIMIT = 8
_LEGACY = {0, 1}
"""The default stream's handle, and CU_STREAM_LEGACY, which is the same stream."""


@overload
def enable_cudagraphs(
    execution: EngineExecution,
    cuda_graph_strategy: None = None,
    *,
    limit: int = _LIMIT,
    pad_to: Mapping[str, Sequence[int]] | None = None,
    fallback: bool = False,
) -> CudaGraphs: ...
@overload
def enable_cudagraphs(
    execution: EngineExecution, cuda_graph_strategy: CudaGraphStrategy
) -> contextlib.AbstractContextManager[EngineExecution]: ...
def enable_cudagraphs(
    execution: EngineExecution,
    cuda_graph_strategy: CudaGraphStrategy | None = None,
    *,
    limit: int = _LIMIT,
    pad_to: Mapping[str, Sequence[int]] | None = None,
    fallback: bool = False,
) -> CudaGraphs | contextlib.AbstractContextManager[EngineExecution]:
    """Execute by CUDA graphs for the length of a block.

    With a strategy, which is TensorRT-RTX's own, the execution has that for the block and is what it is inside. Without
    one it is a CudaGraphs there, with graphs captured here: at most `limit`, each with a context of its own. `pad_to`
    has, by input, the axes along which the engine may be executed on more than there is: shapes that have no graph then
    use the next larger that has one. With `fallback`, what cannot be captured is executed without a graph.

    Raises ExecutionError, a RuntimeError, for a strategy where TensorRT has none, and for what cannot be captured;
    TypeError and ValueError for wrong options.
    """
    if not isinstance(execution, EngineExecution):
        raise TypeError(
            f"enable_cudagraphs takes an execution, as handle.create_execution() makes, not {type(execution).__name__}"
        )
    if cuda_graph_strategy is None:
        return CudaGraphs(execution, limit=limit, pad_to=pad_to, fallback=fallback)
    check_choice("enable_cudagraphs: cuda_graph_strategy", cuda_graph_strategy, CudaGraphStrategy)
    if execution.distribution.name != "tensorrt_rtx":
        raise ExecutionError(
            f"enable_cudagraphs: cuda_graph_strategy={cuda_graph_strategy!r} is TensorRT-RTX's, and this is "
            f"{execution.distribution}: leave it out, and graphs are captured here"
        )
    if pad_to is not None or fallback or limit != _LIMIT:
        raise ValueError(
            "enable_cudagraphs: with a strategy the graphs are TensorRT-RTX's: leave out limit, pad_to and fallback"
        )
    return runtime_config(execution, cuda_graph_strategy=cuda_graph_strategy)


class CudaGraphs:
    """What an execution is to its callers, by graphs; made by `enable_cudagraphs`.

    Every `enqueue` executes once: the first of new shapes call by call, then it is captured; later ones launch the
    graph, which is updated in place, or made anew, if an address has changed. Nothing is written but at the addresses
    given in the same call. As for an execution: one thread, one stream until `release_stream`, and what is given must
    live until the work is complete. A graph that makes room for another waits for the stream that it last ran on,
    which must still be there. Once runtime settings or the execution's workspace change, all are captured anew: their
    work must be complete. With `fallback`, shapes must be set again when settings or an output allocator begin or end
    what cannot be captured.
    """

    def __init__(
        self,
        execution: EngineExecution,
        *,
        limit: int = _LIMIT,
        pad_to: Mapping[str, Sequence[int]] | None = None,
        fallback: bool = False,
    ) -> None:
        if checked_count("enable_cudagraphs: limit", limit) < 1:
            raise ValueError(f"enable_cudagraphs: limit is {limit}, must be at least 1")
        self.tensors: Mapping[str, EngineTensor] = execution.tensors
        """The engine's inputs and outputs, in its order."""
        self.allocators: Mapping[str, OutputAllocator] = {}
        """None: what they give, a graph would not know."""
        self._execution, self._fallback = execution, fallback
        self._padded = padded_axes({} if pad_to is None else pad_to, self.tensors)
        self._pool: GraphPool[GraphKey, CapturedExecution] = GraphPool(limit, fallback=fallback)
        weakref.finalize(self, self._pool.clear)
        self._use = SoleUse()
        self._key: GraphKey | None = None
        self._state = capture_state(execution)
        self._is_open = True
        self._eager = 0
        self._refusal = self._refuse_or_fall_back()
        self._has_changed = False
        """Whether another context executes than the one that shapes were set for."""
        if not execution.context.shapes.ranged:
            self._key = self._key_of({}, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let graphs and their contexts go. It does not wait; again, it does nothing."""
        with self._use:
            self._pool.clear()
            self._is_open = False

    @property
    def buffers(self) -> tuple[str, ...]:
        """The tensors that `enqueue` takes addresses of."""
        return self._execution.buffers

    @property
    def statistics(self) -> GraphStatistics:
        """What became of executions, and what there is now."""
        return self._pool.statistics.with_eager(self._eager)

    def set_input_shapes(
        self,
        shapes: Mapping[str, Sequence[SupportsIndex]],
        *,
        profile: int | None = None,
        stream: SupportsIndex | None = None,
    ) -> None:
        """Set the shapes of all inputs that vary, and the contents of all shape tensors that do, together.

        The profile is chosen as for the execution; a new context for another than the first needs the `stream`. With
        `pad_to` shapes may become larger: `get_tensor_shape` tells. Raises as an execution does, and for another
        stream than the last work's before `release_stream`.
        """
        with self._use:
            self._check()
            if self._refusal is not None:
                self._execution.set_input_shapes(shapes, profile=profile, stream=stream)
                self._has_changed = False
                return
            key = self._key_of(shapes, profile)
            if self._padded:
                key = least_larger(key, self._pool.keys(), self._padded)
            handle = self._use.stream if stream is None else checked_stream(stream)
            if handle is not None:
                self._use.check_stream(handle)  # before a graph makes room
            self._work(key, handle)
            self._key, self._has_changed = key, False

    def get_tensor_shape(self, name: str) -> Shape:
        """Return the concrete shape."""
        return self._shaped().get_tensor_shape(name)

    def get_tensor_dtype(self, name: str) -> Any:
        """Return TensorRT's DataType of the tensor."""
        return self._execution.get_tensor_dtype(name)

    def get_tensor_values(self, name: str) -> tuple[int, ...]:
        """Return the contents of a shape tensor; an output's are those that the present shapes give."""
        return self._shaped().get_tensor_values(name)

    def enqueue(self, addresses: Mapping[str, SupportsIndex], *, stream: SupportsIndex) -> None:
        """Put one execution on a stream that is not the default one, and return. See EngineExecution.enqueue."""
        with self._use as use:
            self._check()
            if type(stream) is not int or not 0 <= stream < 1 << 64:
                stream = checked_stream(stream)
            self._check_shapes()
            before = use.stream
            is_eager = self._refusal is not None or (stream in _LEGACY and self._takes_default_stream())
            if stream != before:
                use.take(stream)
            try:
                if is_eager:
                    self._enqueue_eagerly(addresses, stream)
                else:
                    self._pool.enqueue(self._known_key(), cast("Mapping[str, int]", addresses), stream, self._make)
            except (TypeError, ValueError):  # before TensorRT has seen anything
                use.stream = before
                raise

    def __call__(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None, *, stream: Any = None
    ) -> dict[str, Any]:
        """Execute on arrays; see EngineExecution. With the same arrays, `out` too, nothing has to be updated."""
        from hatch_tensoracle.runtime.arrays import execute_on_arrays

        if self._padded:
            raise ExecutionError("arrays are not padded: enqueue takes addresses of memory that is large enough")
        with self._use:
            self._check()
        if self._refusal is not None:
            self._eager += 1
            outputs = self._execution(inputs, out, stream=stream)
            self._has_changed = False
            return outputs
        return execute_on_arrays(cast("EngineExecution", self), inputs, out, stream)

    def set_output_allocator(self, name: str, _allocator: object) -> None:
        """Raise ExecutionError: an allocator is set on the execution, before there are graphs, and needs `fallback`."""
        raise ExecutionError(
            f"no CUDA graph: the data decide the size of output {name!r}. Call set_output_allocator of the execution, "
            "and enable_cudagraphs after it, with fallback=True"
        )

    def capture(
        self,
        addresses: Mapping[str, SupportsIndex],
        shapes: Mapping[str, Sequence[SupportsIndex]] | None = None,
        *,
        profile: int | None = None,
        stream: SupportsIndex,
    ) -> None:
        """Have a graph ready for these buffers and shapes, by default the first or given profile's optimum.

        The engine is executed once on them as they are if it never was in these shapes. The shapes that are set stay.
        """
        with self._use as use:
            self._check()
            handle = checked_stream(stream)
            if self._refusal is not None or (handle in _LEGACY and self._takes_default_stream()):
                return
            use.take(handle)
            wanted = self._execution.context.shapes.optimum(profile or 0) if shapes is None else shapes
            key = self._key_of(wanted, profile)
            made = partial(self._captured, key, handle)
            self._pool.capture(key, cast("Mapping[str, int]", addresses), handle, made)
            if self._key is None and not self._has_changed:
                self._key = key

    def release_stream(self) -> None:
        """Say that all work is complete, or that the next stream waits for it: the next may be any stream."""
        with self._use:
            self._check()
            self._use.stream = None

    # What is not for callers

    def _check(self) -> None:
        self._use.check()
        if not self._is_open:
            raise ExecutionError("the CUDA graphs are closed")
        if (state := capture_state(self._execution)) != self._state:
            self._pool.clear()
            was_refused = self._refusal is not None
            self._refusal = self._refuse_or_fall_back()
            self._state = state
            if was_refused != (self._refusal is not None) and self._execution.context.shapes.ranged:
                self._key, self._has_changed = None, True

    def _check_shapes(self) -> None:
        if self._has_changed:
            now = "is no longer" if self._refusal is None else "is now"
            raise ExecutionError(
                f"the engine {now} executed without CUDA graphs, by another context than the one that has the shapes: "
                "call set_input_shapes again"
            )

    def _refuse_or_fall_back(self) -> str | None:
        refusal = next(refusals(self._execution), None)
        if refusal is not None and not self._fallback:
            raise ExecutionError(f"no CUDA graph: {refusal}")
        return refusal

    def _takes_default_stream(self) -> bool:
        if not self._fallback:
            raise ExecutionError("no CUDA graph: the default stream cannot be captured, give one that was created")
        return True

    def _enqueue_eagerly(self, addresses: Mapping[str, SupportsIndex], stream: int) -> None:
        if self._refusal is None:
            self._pool.execute(self._known_key(), cast("Mapping[str, int]", addresses), stream, self._make)
        else:
            self._execution.enqueue(addresses, stream=stream)
            self._eager += 1

    def _key_of(self, shapes: Mapping[str, Sequence[SupportsIndex]], profile: int | None) -> GraphKey:
        wanted, chosen = self._execution.context.shapes.choose(shapes, profile)
        return GraphKey(chosen, tuple((name, wanted[name]) for name in self.tensors if name in wanted))

    def _make(self) -> CapturedExecution:
        return self._captured(self._known_key(), self._use.stream)

    def _captured(self, key: GraphKey, stream: int | None) -> CapturedExecution:
        made = CapturedExecution(self._execution, key, stream)
        self._use.claim()  # after it, as TensorRT makes a CUDA context where there is none
        return made

    def _work(self, key: GraphKey, stream: int | None) -> CapturedExecution:
        return self._pool.work(key, partial(self._captured, key, stream), stream)

    def _shaped(self) -> EngineExecution:
        with self._use:
            self._check()
            self._check_shapes()
            if self._refusal is not None:
                return self._execution
            return self._work(self._known_key(), self._use.stream).execution

    def _known_key(self) -> GraphKey:
        if self._key is None:
            names = ", ".join(map(repr, self._execution.context.shapes.ranged))
            raise ExecutionError(f"the engine has no shapes: set_input_shapes for {names} has not succeeded")
        return self._key
