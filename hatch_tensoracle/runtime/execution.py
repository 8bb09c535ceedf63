"""Executes an engine on the caller's buffers and streams."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, SupportsIndex

from hatch_tensoracle.runtime.addresses import check_aliases, checked_addresses, checked_stream
from hatch_tensoracle.runtime.contexts import Contexts
from hatch_tensoracle.runtime.distribution import Distribution
from hatch_tensoracle.runtime.engine_tensors import EngineTensor, read_tensors
from hatch_tensoracle.runtime.errors import ExecutionError, logged
from hatch_tensoracle.runtime.input_shapes import InputShapes
from hatch_tensoracle.runtime.output_allocator import Allocate
from hatch_tensoracle.runtime.output_allocators import OutputAllocators
from hatch_tensoracle.runtime.settings import RuntimeSettings
from hatch_tensoracle.runtime.settings_slot import SettingsSlot
from hatch_tensoracle.runtime.sole_use import SoleUse
from hatch_tensoracle.runtime.workspace import Workspace

__all__ = ["EngineExecution", "OpenEngine"]

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
        self._handle: OpenEngine | None = handle
        self._engine, self._distribution = handle.engine, handle.distribution
        self.tensors: Mapping[str, EngineTensor] = read_tensors(self._engine)
        """What is known of each input and output before there are shapes, in the engine's order."""
        self.buffers = tuple(name for name, tensor in self.tensors.items() if not tensor.is_shape_tensor)
        """The tensors that `enqueue` takes addresses of: no shape tensors, no outputs with an allocator."""
        self._shapes = InputShapes(self._engine, self.tensors)
        self._aliases = [(t.name, t.aliased_input) for t in self.tensors.values() if t.aliased_input is not None]
        self.allocators = OutputAllocators()
        """Those that outputs have."""
        self._workspace = Workspace(is_callers=caller_workspace)
        self.settings_slot = SettingsSlot(handle.settings_slot)
        """Where its runtime settings are."""
        self._contexts = Contexts(self._distribution, self.settings_slot)
        # Before all that a context uses, also where the garbage collector or the end of the process chooses the order.
        weakref.finalize(self, self._contexts.release)
        self._is_ready = False
        """Whether nothing but addresses is missing for an enqueue."""
        self._use = SoleUse()
        self._resources = contextlib.ExitStack()
        self._messages: deque[str] = self._resources.enter_context(self._distribution.messages())
        """What TensorRT logged since the last call began."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the context and then the engine. It does not wait for the GPU; again, it does nothing."""
        with self._use:
            self._contexts.release()
            self.allocators.clear()
            self._is_ready = False
            self._engine = self._handle = None
            self._resources.close()

    @property
    def distribution(self) -> Distribution:
        """The TensorRT that executes."""
        return self._distribution

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
        self._check_open()
        return self._shapes.profile

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
        with self._in_use() as context:
            is_plain = profile is None and all(type(shape) is tuple for shape in shapes.values())
            if is_plain and shapes == self._shapes.current:  # the usual case for arrays, without a look at each extent
                return
            wanted, chosen = self._shapes.choose(shapes, profile)
            if (wanted, chosen) != (self._shapes.current, self._shapes.profile):
                self._apply_shapes(context, wanted, chosen, stream)

    def get_tensor_shape(self, name: str) -> Shape:
        """Return the concrete shape; -1 in an output where only the data decide, until TensorRT has executed."""
        with self._in_use():
            current, tensor = self._current_shapes(), self._tensor(name)
            if (allocator := self.allocators.get(name)) is not None and allocator.shape is not None:
                return allocator.shape
            if tensor.is_shape_tensor:
                return tensor.shape
            return current[name] if tensor.is_input else self._shapes.outputs[name]

    def get_tensor_dtype(self, name: str) -> Any:
        """Return TensorRT's DataType of the tensor."""
        self._check_open()
        return self._tensor(name).dtype

    def get_tensor_values(self, name: str) -> tuple[int, ...]:
        """Return the contents of a shape tensor; an output's are those that the present shapes give."""
        with self._in_use():
            self._current_shapes()
            if self._tensor(name).is_shape_tensor:
                return self._shapes.contents(name)
            raise ValueError(f"tensor {name!r} is no shape tensor")

    def set_output_allocator(self, name: str, allocator: Allocate | Any | None) -> None:
        """Let a function, or an IOutputAllocator, provide an output's memory; it needs no address then. None ends it.

        The function is called in `enqueue` with a size, an alignment (bytes) and the stream, and returns an address.
        """
        with self._in_use() as context:
            tensor = self._tensor(name)
            if tensor.is_input or tensor.is_shape_tensor:
                raise ValueError(f"tensor {name!r} is no output in device memory")
            self.allocators.change(context, name, allocator, self._distribution.module, self._refused)
            self.buffers = tuple(
                each.name
                for each in self.tensors.values()
                if not each.is_shape_tensor and each.name not in self.allocators
            )
            self._is_ready = False

    @property
    def workspace_size(self) -> int:
        """Bytes of working memory: the caller's for the present shapes, TensorRT's own for any of the profile."""
        with self._in_use() as context:
            return self._needed_workspace(context)

    def set_workspace(self, address: SupportsIndex, size: SupportsIndex) -> None:
        """Give TensorRT working memory on the device, aligned to 256 bytes, for as long as it executes."""
        with self._in_use() as context:
            needed = self._needed_workspace(context) if self._workspace.is_callers else 0
            self._workspace.set(address, size, needed)
            context.set_device_memory(*self._workspace.memory)
            self._is_ready = False

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
        with self._in_use():
            pass  # the context is made
        for each in shapes:
            self.set_input_shapes(each, stream=stream)
            if addresses is not None and stream is not None:
                self.enqueue(addresses, stream=stream)

    def enqueue(self, addresses: Mapping[str, SupportsIndex], *, stream: SupportsIndex) -> None:
        """Put one execution on the stream and return.

        Every tensor of `buffers` needs one positive address, every output that is written over an input that input's;
        0 is the default stream. Addresses are not followed here: that buffers are large enough, contiguous and of the
        tensor's type is the caller's word. Work on another stream than the last needs `release_stream` first.

        Raises TypeError or ValueError for addresses and handles, before TensorRT has seen any.
        """
        with self._use as use:
            self._messages.clear()
            use.check()
            if type(stream) is not int or stream < 0:
                stream = checked_stream(stream)
            if not self._is_ready or self._contexts.is_stale:
                self._get_ready(stream)
            found = checked_addresses(self.buffers, addresses)
            if self._aliases:
                check_aliases(self._aliases, found)
            if stream != use.stream:
                use.take(stream)
            context = self._contexts.present
            for name, address in found.items():
                if not context.set_tensor_address(name, address):
                    raise self._refused(f"the address of tensor {name!r}")
            if self.allocators:
                self.allocators.forget_errors()
            if not context.execute_async_v3(stream):
                raise self._refused("to execute") from self.allocators.error

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
        with self._in_use():
            self._use.stream = None

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[Any]:
        """Keep others out, and hand out the context."""
        with self._use:
            self._messages.clear()
            yield self._open_context()

    # For CudaGraphs

    @property
    def state(self) -> tuple[object, ...]:
        """What a graph is captured with beside shapes and addresses: it is good for as long as this is equal."""
        return self._contexts.settings, self._workspace.memory, len(self.allocators)

    @property
    def ranged_inputs(self) -> tuple[str, ...]:
        """The inputs that must be told."""
        return self._shapes.ranged

    @property
    def has_callers_workspace(self) -> bool:
        """Whether it was created with `caller_workspace`."""
        return self._workspace.is_callers

    def fitting_profile(
        self, shapes: Mapping[str, Sequence[SupportsIndex]], profile: int | None
    ) -> tuple[Mapping[str, Shape], int]:
        """Return the shapes of all inputs and the profile for them, as `set_input_shapes` would take them."""
        self._check_open()
        return self._shapes.choose(shapes, profile)

    def optimum_shapes(self, profile: int) -> dict[str, Shape]:
        """Return what TensorRT tuned a profile for, by the inputs that must be told. Raises ValueError."""
        return self._shapes.optimum(profile)

    def sibling(self) -> EngineExecution:
        """Return another execution of the engine, with the settings and the workspace of this one."""
        self._check_open()
        assert self._handle is not None  # noqa: S101 - it is open
        made = EngineExecution(self._handle, caller_workspace=self._workspace.is_callers)
        made.settings_slot.follow(self.settings_slot)
        made._workspace.memory = self._workspace.memory
        return made

    def capture_refusal(self, stream: int) -> str | None:
        """Return why its work cannot be captured on a stream; None if it can."""
        with self._in_use() as context:
            for name, shape in self._shapes.outputs.items():
                if -1 in shape:
                    return f"the data decide the size of output {name!r}"
            # TensorRT-RTX's; elsewhere the capture itself tells.
            if hasattr(context, "is_stream_capturable") and not context.is_stream_capturable(stream):
                return "TensorRT says that the engine is not stream capturable" + logged(tuple(self._messages))
        return None

    def _check_open(self) -> None:
        if self._handle is None:
            raise ExecutionError("the execution is closed")

    def _open_context(self, stream: int | None = None) -> Any:
        """Return the context that is to be used, which `stream` may be needed for."""
        self._check_open()
        self._use.check()
        if self._contexts.present is None or self._contexts.is_stale:
            wanted, profile = self._shapes.current, self._shapes.profile
            if wanted is not None and profile:
                self._use.take(self._profile_stream(profile, stream))  # or nothing is changed
            self._is_ready = False
            context = self._contexts.create(self._engine, self._workspace.strategy(self._distribution.module))
            self._use.claim()  # after it, as TensorRT makes a CUDA context where there is none
            if context is None:
                raise self._refused("to create an execution context")
            self._shapes.forget()
            self.allocators.install(context, self._refused)
            if wanted is not None or not self._shapes.ranged:
                wanted, profile = (wanted, profile) if wanted is not None else self._shapes.choose({}, None)
                self._apply_shapes(context, wanted, profile, stream)
        return self._contexts.present

    def _apply_shapes(
        self, context: Any, wanted: Mapping[str, Shape], profile: int, stream: SupportsIndex | None
    ) -> None:
        self._is_ready = False
        if profile != self._shapes.profile:
            self._use.take(self._profile_stream(profile, stream))
        self.allocators.forget_shapes()
        self._shapes.apply(context, wanted, profile, self._use.stream or 0, self._refused)

    def _profile_stream(self, profile: int, stream: SupportsIndex | None) -> int:
        stream = self._use.stream if stream is None else stream
        if stream is None:
            raise ValueError(f"the shapes need profile {profile}: give the stream on which to change to it")
        return checked_stream(stream)

    def _get_ready(self, stream: int) -> None:
        """Raise for whatever is missing for an enqueue but addresses."""
        context = self._open_context(stream)
        self._current_shapes()
        for name, shape in self._shapes.outputs.items():
            if -1 in shape and name not in self.allocators:
                raise ExecutionError(f"the data decide the size of output {name!r}: call set_output_allocator first")
        self._workspace.give(context, self._shapes.profile)
        self._is_ready = True

    def _current_shapes(self) -> Mapping[str, Shape]:
        if self._shapes.current is None:
            names = ", ".join(map(repr, self._shapes.ranged)) or "no inputs"
            raise ExecutionError(f"the engine has no shapes: set_input_shapes for {names} has not succeeded")
        return self._shapes.current

    def _needed_workspace(self, context: Any) -> int:
        has_shapes = self._shapes.current is not None
        return self._workspace.needed(context, self._shapes.profile, has_shapes=has_shapes)

    def _tensor(self, name: str) -> EngineTensor:
        if name not in self.tensors:
            raise ValueError(f"there is no tensor {name!r}; the engine has {', '.join(map(repr, self.tensors))}")
        return self.tensors[name]

    def _refused(self, what: str) -> ExecutionError:
        return ExecutionError(f"TensorRT refuses {what}{logged(tuple(self._messages))}")  # others may log meanwhile
