"""Executes an engine on the caller's buffers and streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Self, SupportsIndex

from hatch_tensoracle.runtime.addresses import check_places, checked_addresses, checked_stream
from hatch_tensoracle.runtime.distribution import Distribution
from hatch_tensoracle.runtime.errors import ExecutionError
from hatch_tensoracle.runtime.execution_context import ExecutionContext, OpenEngine
from hatch_tensoracle.runtime.output_allocator import Allocate
from hatch_tensoracle.runtime.settings import RuntimeSettings
from hatch_tensoracle.runtime.settings_slot import SettingsSlot
from hatch_tensoracle.runtime.values import not_by_name

__all__ = ["EngineExecution"]

Shape = tuple[int, ...]


class EngineExecution:
    """An engine with a context of its own, for one thread and one stream at a time.

    Shapes first, then buffers, then `enqueue`; as a context manager it is closed at the end. It never waits, allocates
    or copies, and keeps no buffer alive: the caller orders the work of other streams before enqueue and keeps buffers
    and the execution until the work is complete. The context is made with the first use, on the device that is current
    then. Methods raise ExecutionError when TensorRT refuses, when the execution is closed, and when it is used from
    another thread than before or by two at once.
    """

    def __init__(self, handle: OpenEngine, *, caller_workspace: bool = False) -> None:
        """Read the engine's tensors. With `caller_workspace`, TensorRT's working memory is what `set_workspace` says.

        Raises ExecutionError for an engine with tensors that cannot be handed over here.
        """
        self.context = context = ExecutionContext(handle, is_callers_workspace=caller_workspace)
        """What it is told, and who may use it: CudaGraphs builds on it."""
        self.tensors = context.tensors
        """What is known of each input and output before there are shapes, in the engine's order."""
        self.buffers = tuple(name for name, tensor in self.tensors.items() if not tensor.is_shape_tensor)
        """The tensors that `enqueue` takes addresses of: no shape tensors, no outputs with an allocator."""
        self._aliases = {t.name: t.aliased_input for t in self.tensors.values() if t.aliased_input is not None}
        self._written = {tensor.name for tensor in self.tensors.values() if tensor.is_written}
        self._placed: Mapping[str, int] | None = None
        """The addresses that were last found good for the shapes."""
        self._sizes: Mapping[str, int] = {}
        """Bytes of these tensors, at least."""
        self.allocators = context.allocators
        """Those that outputs have."""
        self.settings_slot: SettingsSlot = context.settings_slot
        """Where its runtime settings are."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the context and then the engine. It does not wait for the GPU; again, it does nothing."""
        self.context.close()

    @property
    def distribution(self) -> Distribution:
        """The TensorRT that executes."""
        return self.context.distribution

    @property
    def runtime_settings(self) -> RuntimeSettings:
        """Its own, or its handle's. A change makes another context with the next use, once its work is complete."""
        return self.settings_slot.applied.settings

    @runtime_settings.setter
    def runtime_settings(self, settings: RuntimeSettings) -> None:
        self.settings_slot.assign(settings)

    @property
    def profile(self) -> int:
        """The optimization profile in use."""
        self.context.check_open()
        return self.context.shapes.profile

    def set_input_shapes(
        self,
        shapes: Mapping[str, Sequence[SupportsIndex]],
        *,
        profile: int | None = None,
        stream: SupportsIndex | None = None,
    ) -> None:
        """Set the shapes of all inputs that vary, and the contents of all shape tensors that do, together.

        The optimization profile stays as long as the shapes fit, else the lowest that they fit is taken, or the one
        given. A change of profile may copy on `stream`, by default that of the last enqueue.

        Raises TypeError or ValueError for shapes that no profile takes; what was set before then still holds. After an
        ExecutionError nothing can be enqueued until a call succeeds.
        """
        with self.context.in_use() as context:
            try:
                is_plain = profile is None and all(type(shape) is tuple for shape in shapes.values())
            except AttributeError:
                raise not_by_name("shapes", shapes) from None
            # The usual case for arrays, without a call for each extent. True and 1.0 are equal to 1.
            if (
                is_plain
                and shapes == self.context.shapes.current
                and {*map(type, chain.from_iterable(shapes.values()))} <= {int}
            ):
                return
            wanted, chosen = self.context.shapes.choose(shapes, profile)
            if (wanted, chosen) != (self.context.shapes.current, self.context.shapes.profile):
                self.context.apply_shapes(context, wanted, chosen, stream)

    def get_tensor_shape(self, name: str) -> Shape:
        """Return the concrete shape; -1 in an output where only the data decide, until TensorRT has executed."""
        with self.context.in_use():
            current, tensor = self.context.current_shapes(), self.context.tensor(name)
            if (allocator := self.allocators.get(name)) is not None and allocator.shape is not None:
                return allocator.shape
            if tensor.is_shape_tensor:
                return tensor.shape
            return current[name] if tensor.is_input else self.context.shapes.outputs[name]

    def get_tensor_dtype(self, name: str) -> Any:
        """Return TensorRT's DataType of the tensor."""
        self.context.check_open()
        return self.context.tensor(name).dtype

    def get_tensor_values(self, name: str) -> tuple[int, ...]:
        """Return the contents of a shape tensor; an output's are those that the present shapes give."""
        with self.context.in_use():
            self.context.current_shapes()
            if self.context.tensor(name).is_shape_tensor:
                return self.context.shapes.contents(name)
            raise ValueError(f"tensor {name!r} is no shape tensor")

    def set_output_allocator(self, name: str, allocator: Allocate | Any | None) -> None:
        """Let a function, or an IOutputAllocator, provide an output's memory; it needs no address then. None ends it.

        The function is called in `enqueue` with a size, an alignment (bytes) and the stream, and returns an address.
        """
        with self.context.in_use() as context:
            tensor = self.context.tensor(name)
            if tensor.is_input or tensor.is_shape_tensor:
                raise ValueError(f"tensor {name!r} is no output in device memory")
            self.allocators.change(context, name, allocator, self.distribution.module, self.context.refused)
            self.buffers = tuple(
                each.name
                for each in self.tensors.values()
                if not each.is_shape_tensor and each.name not in self.allocators
            )
            self.context.is_ready = False

    @property
    def workspace_size(self) -> int:
        """Bytes of working memory: the caller's for the present shapes, TensorRT's own for any of the profile."""
        with self.context.in_use() as context:
            return self.context.needed_workspace(context)

    def set_workspace(self, address: SupportsIndex, size: SupportsIndex) -> None:
        """Give TensorRT working memory on the device, aligned to 256 bytes, for as long as it executes."""
        with self.context.in_use() as context:
            needed = self.context.needed_workspace(context) if self.context.workspace.is_callers else 0
            self.context.workspace.set(address, size, needed)
            context.set_device_memory(*self.context.workspace.memory)
            self.context.is_ready = False

    def warm_up(
        self,
        shapes: Iterable[Mapping[str, Sequence[SupportsIndex]]],
        addresses: Mapping[str, SupportsIndex] | None = None,
        *,
        stream: SupportsIndex | None = None,
    ) -> None:
        """Do what a first use does, before it: the context, and for each set of shapes their inference.

        With `addresses`, of buffers large enough for all of them, each is also enqueued once, on `stream`: that is when
        TensorRT loads kernels and TensorRT-RTX compiles them. The last shapes stay set.
        """
        if addresses is not None and stream is None:
            raise ValueError("warm_up needs the stream to enqueue on")
        if isinstance(shapes, Mapping):
            raise TypeError(f"warm_up: shapes must be a sequence, of mappings by tensor name: [{shapes!r}]")
        with self.context.in_use():
            pass  # the context is made
        for each in shapes:
            self.set_input_shapes(each, stream=stream)
            if addresses is not None and stream is not None:
                self.enqueue(addresses, stream=stream)

    def enqueue(self, addresses: Mapping[str, SupportsIndex], *, stream: SupportsIndex) -> None:
        """Put one execution on the stream and return.

        Every tensor of `buffers` needs one positive address, every output that is written over an input that input's;
        no other output may overlap a tensor. 0 is the default stream. Addresses are not followed here: that buffers are
        large enough, contiguous and of the tensor's type is the caller's word. Work on another stream than the last
        needs `release_stream` first.

        Raises TypeError or ValueError for addresses and handles, before TensorRT has seen any.
        """
        at = self.context
        with at.use as use:
            at.messages.clear()
            use.check()
            if type(stream) is not int or not 0 <= stream < 1 << 64:
                stream = checked_stream(stream)
            if not at.is_ready or at.contexts.is_stale:
                at.get_ready(stream)
                self._placed, self._sizes = None, at.shapes.least_sizes(self.buffers)
            found = checked_addresses(self.buffers, addresses)
            if found != self._placed:
                check_places(found, self._sizes, self._aliases, self._written)
                self._placed = found
            if stream != use.stream:
                use.take(stream)
            context = at.contexts.present
            for name, address in found.items():
                if not context.set_tensor_address(name, address):
                    raise at.refused(f"the address of tensor {name!r}")
            if self.allocators:
                self.allocators.forget_errors()
            if not context.execute_async_v3(stream):
                raise at.refused("to execute") from self.allocators.error
            if self.allocators and (error := self.allocators.error) is not None:
                raise ExecutionError("the work is enqueued, but notify_shape of an output's allocator fails") from error

    def __call__(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None, *, stream: Any = None
    ) -> dict[str, Any]:
        """Set shapes, enqueue on arrays in device memory, and return all outputs by name, without waiting.

        `inputs` has a contiguous array of the tensor's type for every input, by DLPack, `__cuda_array_interface__` or
        DevicePointer, and for a shape tensor its contents. `out` has arrays to write to; outputs that it lacks are
        allocated by the library of the inputs, torch or CuPy. What the caller's allocator gave is returned as
        DevicePointer. An output that is written over an input is that input's array, a shape tensor's a NumPy array.
        `stream` is a handle or a stream of another library; without it, the current one of the inputs' library. Raises
        TypeError or ValueError by the tensor's name.
        """
        from hatch_tensoracle.runtime.arrays import execute_on_arrays

        return execute_on_arrays(self, inputs, out, stream)

    def release_stream(self) -> None:
        """Say that all work is complete, or that the next stream waits for it: the next may be any stream."""
        with self.context.in_use():
            self.context.use.stream = None
