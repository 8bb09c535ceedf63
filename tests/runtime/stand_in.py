"""A stand-in for TensorRT's Python binding, for what lies beyond a serialised engine and so needs a GPU.

The module takes the place of `tensorrt` or `tensorrt_rtx`: its classes, methods and enumerations have the names and
signatures of the binding, which `test_stand_in.py` compares with the real ones, TensorRT-RTX and the lean runtimes. It
runs nothing: a plan is a description of tensors (`plan`), execution fills no memory, and what was asked for is kept in
`JOURNAL`. What it does on misuse is what a document says, which each method cites:

[py] the docstring of that method or class in tensorrt_rtx 1.7.1.116 and tensorrt_lean_bindings 11.2.1.2;
[h] the comment of the C++ method that it binds, NvInferRuntime.h of TensorRT 8.6 to 10.

Calls that fail do so as in the binding: they return False or None and tell the logger why.
"""

from __future__ import annotations

import ctypes
import enum
import json
import math
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["FAILING", "JOURNAL", "LIVE", "fresh", "plan", "tensor"]

__version__ = "11.2.1.2"
MAGIC = b"stand-in plan\n"
CACHE_MAGIC = b"stand-in cache\n"

JOURNAL: list[tuple[Any, ...]] = []
"""Each call that changes something, in order: the method and its arguments; `del` and a class when an object goes."""
FAILING: set[tuple[str, ...]] = set()
"""Calls that shall fail although nothing is wrong: `("set_input_shape", "x")`, `("execute_async_v3",)`."""
LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
"""Objects that the journal will say of when they go."""


def fresh() -> None:
    """Forget all calls and all failures that were asked for."""
    JOURNAL.clear()
    FAILING.clear()


def tensor(  # noqa: PLR0913 - what a tensor has
    mode: str,
    shape: Sequence[int | str],
    *,
    dtype: str = "FLOAT",
    profiles: Sequence[Sequence[Sequence[int]]] = (),
    values: Sequence[Sequence[Sequence[int]]] = (),
    location: str = "DEVICE",
    aliased: str | None = None,
    contents: Sequence[int | str] = (),
) -> dict[str, Any]:
    """One tensor of a plan; `mode` is `INPUT` or `OUTPUT`.

    An input's dynamic dimensions are -1, with (minimum, optimum, maximum) shapes for each profile; a shape tensor has
    such `values` instead. An output's dimensions, and its `contents` if it is a shape tensor, are numbers or say where
    they come from: `"x.0"` is dimension 0 of input x, `"s[1]"` element 1 of shape tensor s, `"?8"` depends on the data
    and is 8 at most.
    """
    return {
        "mode": mode,
        "shape": list(shape),
        "dtype": dtype,
        "profiles": [list(map(list, profile)) for profile in profiles],
        "values": [list(map(list, profile)) for profile in values],
        "location": "HOST" if values or contents else location,
        "aliased": aliased,
        "contents": list(contents),
    }


def plan(tensors: Mapping[str, Mapping[str, Any]], *, workspace: int = 0) -> bytes:
    """A serialised engine that `Runtime` takes; `workspace` in bytes, for each element of all inputs."""
    return MAGIC + json.dumps({"tensors": tensors, "workspace": workspace}).encode()


class TensorIOMode(enum.Enum):
    """[py]."""

    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(enum.Enum):
    """[py]."""

    DEVICE = 0
    HOST = 1


class ExecutionContextAllocationStrategy(enum.Enum):
    """[py]."""

    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class CudaGraphStrategy(enum.Enum):
    """[py]; TensorRT-RTX's."""

    DISABLED = 0
    WHOLE_GRAPH_CAPTURE = 1


class DynamicShapesKernelSpecializationStrategy(enum.Enum):
    """[py]; TensorRT-RTX's."""

    LAZY = 0
    EAGER = 1
    NONE = 2


class TensorFormat(enum.Enum):
    """[py]."""

    LINEAR = 0
    CHW2 = 1
    HWC8 = 2
    CHW4 = 3
    CHW16 = 4
    CHW32 = 5


class DataType(enum.Enum):
    """[py]; the numbers are compared with the binding's."""

    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    FP4 = 10

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return {"FLOAT": 4, "HALF": 2, "INT32": 4, "BF16": 2, "INT64": 8}.get(self.name, 1)


float32, float16, bfloat16 = DataType.FLOAT, DataType.HALF, DataType.BF16
int8, int32, int64, uint8 = DataType.INT8, DataType.INT32, DataType.INT64, DataType.UINT8


class Dims:
    """[py] "behave like Python tuples"; no tuple themselves."""

    MAX_DIMS = 8

    def __init__(self, shape: Sequence[int] = ()) -> None:
        self._shape = tuple(shape)

    def __len__(self) -> int:
        return len(self._shape)

    def __getitem__(self, arg0: int) -> int:
        return self._shape[arg0]

    def __iter__(self) -> Iterator[int]:
        return iter(self._shape)

    def __repr__(self) -> str:
        return repr(self._shape)


class ILogger:
    """[py] `log` is what an application implements."""

    class Severity(enum.Enum):
        """[py]."""

        INTERNAL_ERROR = 0
        ERROR = 1
        WARNING = 2
        INFO = 3
        VERBOSE = 4

    INTERNAL_ERROR = Severity.INTERNAL_ERROR
    ERROR = Severity.ERROR
    WARNING = Severity.WARNING
    INFO = Severity.INFO
    VERBOSE = Severity.VERBOSE

    def __init__(self) -> None: ...

    def log(self, severity: Any, msg: str) -> None:
        """Take a message."""
        raise NotImplementedError


class Logger(ILogger):
    """[py] the simple logger, which prints; here it keeps."""

    def __init__(self, min_severity: Any = ILogger.Severity.WARNING) -> None:
        super().__init__()
        self.min_severity = min_severity
        self.messages: list[str] = []

    def log(self, severity: Any, msg: str) -> None:
        """Keep a message."""
        self.messages.append(f"{severity.name}: {msg}")


class IOutputAllocator:
    """[py] the application implements `reallocate_output_async` and `notify_shape`."""

    def __init__(self) -> None:
        self.is_initialised = True  # [py] "ensure that you explicitly instantiate the base class"


class IPluginRegistry:
    """[py] the registry; a library is taken by its path alone."""

    def __init__(self) -> None:
        self.libraries: list[str] = []
        self.all_creators: list[Any] = []

    def load_library(self, plugin_path: str) -> Any:
        """[py] "will fail and return None if any of the plugins are already registered"."""
        JOURNAL.append(("load_library", plugin_path))
        if ("load_library",) in FAILING or plugin_path in self.libraries:
            return None
        self.libraries.append(plugin_path)
        return object()


_REGISTRY = IPluginRegistry()


def get_plugin_registry() -> IPluginRegistry:
    """The one registry of the process."""
    return _REGISTRY


class Runtime:
    """[py] "Allows a serialized ICudaEngine to be deserialized."."""

    def __init__(self, logger: ILogger) -> None:
        self.logger = logger
        self.engine_host_code_allowed = False
        LIVE.add(self)

    def __del__(self) -> None:
        JOURNAL.append(("del", "Runtime"))

    def get_plugin_registry(self) -> IPluginRegistry:
        """[py] the local registry; here there is only one."""
        return _REGISTRY

    def deserialize_cuda_engine(self, serialized_engine: Any) -> ICudaEngine | None:
        """[py] "The ICudaEngine, or None if it could not be deserialized."."""
        data = bytes(serialized_engine)
        JOURNAL.append(("deserialize_cuda_engine", len(data)))
        if ("deserialize_cuda_engine",) in FAILING or not data.startswith(MAGIC):
            self.logger.log(ILogger.ERROR, "the stand-in cannot deserialise this plan")
            return None
        return ICudaEngine._of(self, json.loads(data[len(MAGIC) :]))  # noqa: SLF001


class ICudaEngine:
    """[py] "An ICudaEngine for executing inference on a built network."."""

    runtime: Runtime
    tensors: dict[str, dict[str, Any]]
    workspace: int
    name: str

    @classmethod
    def _of(cls, runtime: Runtime, description: dict[str, Any]) -> ICudaEngine:
        engine = cls()
        engine.runtime = runtime
        engine.tensors = description["tensors"]
        engine.workspace = description["workspace"]
        LIVE.add(engine)
        return engine

    def __del__(self) -> None:
        JOURNAL.append(("del", "ICudaEngine"))

    @property
    def num_io_tensors(self) -> int:
        """[py]."""
        return len(self.tensors)

    @property
    def num_optimization_profiles(self) -> int:
        """[py] "This is always at least 1."."""
        return max((len(t["profiles"] or t["values"]) for t in self.tensors.values()), default=0) or 1

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        """[py]."""
        inputs = [name for name, t in self.tensors.items() if t["mode"] == "INPUT"]
        return self.workspace * sum(math.prod(self.get_tensor_profile_shape(name, profile_index)[2]) for name in inputs)

    def get_tensor_name(self, index: int) -> str:
        """[py]."""
        return list(self.tensors)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        """[py]; [h] kNONE if it is neither input nor output."""
        return TensorIOMode[self.tensors[name]["mode"]] if name in self.tensors else TensorIOMode.NONE

    def get_tensor_dtype(self, name: str) -> DataType:
        """[py]; [h] kFLOAT if the name is none of the tensors'."""
        return DataType[self.tensors[name]["dtype"]] if name in self.tensors else DataType.FLOAT

    def get_tensor_shape(self, name: str) -> Dims:
        """[h] "with -1 in place of each dynamic runtime dimension"."""
        return Dims([extent if isinstance(extent, int) else -1 for extent in self.tensors[name]["shape"]])

    def get_tensor_location(self, name: str) -> TensorLocation:
        """[h] "established at build time. E.g. shape tensors inputs are typically required to be on the CPU."."""
        return TensorLocation[self.tensors[name]["location"]]

    def is_shape_inference_io(self, name: str) -> bool:
        """[py] "Determine whether a tensor is read or written by infer_shapes."."""
        return bool(self.tensors[name]["values"] or self.tensors[name]["contents"])

    def get_tensor_format(self, name: str, profile_index: int = 0) -> TensorFormat:  # noqa: ARG002 - the binding's
        """[py]; the same of every tensor."""
        return TensorFormat.LINEAR

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Dims]:
        """[py] "Get the minimum/optimum/maximum dimensions for a particular tensor under an optimization profile."."""
        profiles = self.tensors[name]["profiles"]
        return [Dims(shape) for shape in (profiles[profile_index] if profiles else [self.tensors[name]["shape"]] * 3)]

    def get_tensor_profile_values(self, name: int, profile_index: str) -> list[list[int]]:
        """[py] minimum, optimum, maximum; the profile comes first, whatever the parameters are called.

        The binding's own names for the two are exchanged: `name: typing.SupportsInt, profile_index: str`.
        """
        values: list[list[list[int]]] = self.tensors[profile_index]["values"]
        return values[name] if values else []

    def get_aliased_input_tensor(self, name: str) -> str | None:
        """[py] "None should be returned" where there is none."""
        aliased: str | None = self.tensors[name]["aliased"]
        return aliased

    def create_runtime_config(self) -> IRuntimeConfig:
        """[py] "Create a runtime configuration."."""
        return IRuntimeConfig._made()  # noqa: SLF001

    def create_execution_context(
        self, strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC
    ) -> IExecutionContext | None:
        """[py] the newly created context; None on failure, as pybind11 hands over a null pointer.

        TensorRT-RTX has another form, of one IRuntimeConfig: what that says then is in the journal.
        """
        config = None
        if isinstance(strategy, IRuntimeConfig):
            config, strategy = strategy, strategy.strategy
        JOURNAL.append(("create_execution_context", strategy.name, *(() if config is None else config._described())))  # noqa: SLF001
        if ("create_execution_context",) in FAILING:
            self.runtime.logger.log(ILogger.ERROR, "the stand-in was told to create no context")
            return None
        return IExecutionContext._of(self, strategy, config)  # noqa: SLF001


class Kernels(set[str]):
    """What is in a runtime cache, and whether that is still there: a context has no reference to it."""

    is_there = True


class IRuntimeCache:
    """[py] "A runtime cache for storing runtime compilation details."; TensorRT-RTX's.

    Kernels are numbers here: each execution with a cache adds one, of its engine and shapes.
    """

    kernels: Kernels

    @classmethod
    def _made(cls) -> IRuntimeCache:
        cache = cls()
        cache.kernels = Kernels()
        LIVE.add(cache)
        return cache

    def __del__(self) -> None:
        self.kernels.is_there = False
        JOURNAL.append(("del", "IRuntimeCache"))

    def serialize(self) -> bytes:
        """[py] "Memory object containing the serialized runtime cache."."""
        return CACHE_MAGIC + json.dumps(sorted(self.kernels)).encode()

    def deserialize(self, blob: Any) -> bool:
        """[py] False "on an invalid/corrupt blob or an environment mismatch", "leaving this cache unchanged".

        Whether what it had stays is not documented: it does, unless `("replacing",)` is in FAILING.
        """
        data = bytes(blob)
        JOURNAL.append(("deserialize", len(data)))
        if ("deserialize",) in FAILING or not data.startswith(CACHE_MAGIC):
            return False
        if ("replacing",) in FAILING:
            self.kernels.clear()
        self.kernels.update(json.loads(data[len(CACHE_MAGIC) :]))
        return True


class IRuntimeConfig:
    """[py] "A runtime configuration for an ICudaEngine."."""

    strategy: ExecutionContextAllocationStrategy
    cache: IRuntimeCache | None

    @classmethod
    def _made(cls) -> IRuntimeConfig:
        config = cls()
        config.strategy, config.cache = ExecutionContextAllocationStrategy.STATIC, None
        config._graphs = CudaGraphStrategy.DISABLED
        config._specialization = DynamicShapesKernelSpecializationStrategy.LAZY
        return config

    _graphs: CudaGraphStrategy
    _specialization: DynamicShapesKernelSpecializationStrategy

    def _described(self) -> tuple[Any, ...]:
        """For the journal."""
        return self._graphs.name, self._specialization.name, self.cache is not None

    @property
    def cuda_graph_strategy(self) -> CudaGraphStrategy:
        """TensorRT-RTX's."""
        return self._graphs

    @cuda_graph_strategy.setter
    def cuda_graph_strategy(self, strategy: CudaGraphStrategy) -> None:
        assert isinstance(strategy, CudaGraphStrategy)
        self._graphs = strategy

    @property
    def dynamic_shapes_kernel_specialization_strategy(self) -> DynamicShapesKernelSpecializationStrategy:
        """TensorRT-RTX's."""
        return self._specialization

    @dynamic_shapes_kernel_specialization_strategy.setter
    def dynamic_shapes_kernel_specialization_strategy(
        self, strategy: DynamicShapesKernelSpecializationStrategy
    ) -> None:
        assert isinstance(strategy, DynamicShapesKernelSpecializationStrategy)
        self._specialization = strategy

    def set_execution_context_allocation_strategy(
        self, strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC
    ) -> None:
        """[py]."""
        self.strategy = strategy

    def create_runtime_cache(self) -> IRuntimeCache:
        """[py] "Create a runtime cache."; TensorRT-RTX's."""
        JOURNAL.append(("create_runtime_cache",))
        return IRuntimeCache._made()  # noqa: SLF001

    def set_runtime_cache(self, cache: IRuntimeCache | None = None) -> bool:
        """[py]; TensorRT-RTX's."""
        self.cache = cache
        return True


class IExecutionContext:
    """[py] "Context for executing inference using an ICudaEngine."."""

    engine: ICudaEngine
    active_optimization_profile: int

    @classmethod
    def _of(
        cls, engine: ICudaEngine, strategy: ExecutionContextAllocationStrategy, config: IRuntimeConfig | None
    ) -> IExecutionContext:
        context = cls()
        context.engine = engine
        context.active_optimization_profile = 0  # [py] "Profile 0 is selected by default."
        context.tensors = engine.tensors
        context._is_user_managed = strategy is ExecutionContextAllocationStrategy.USER_MANAGED
        context._shapes, context._addresses, context._allocators, context._memory = {}, {}, {}, 0
        context._kept_alive = []
        context._cache = None if config is None or config.cache is None else config.cache.kernels
        LIVE.add(context)
        return context

    tensors: dict[str, dict[str, Any]]
    _is_user_managed: bool
    _shapes: dict[str, tuple[int, ...]]
    _addresses: dict[str, int]
    _allocators: dict[str, Any]
    _kept_alive: list[Any]
    _memory: int
    _cache: Kernels | None = None

    def is_stream_capturable(self, stream: int) -> bool:
        """[py] "Check if the execution context is stream capturable"; TensorRT-RTX's."""
        JOURNAL.append(("is_stream_capturable", stream))
        return not self._is_failing("is_stream_capturable")

    def __del__(self) -> None:
        assert self._cache is None or self._cache.is_there, "the cache went before the context"
        JOURNAL.append(("del", "IExecutionContext"))

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        """[py] True "if the optimization profile was set successfully".

        Of active_optimization_profile: "Changing this value will invalidate all dynamic bindings".
        """
        JOURNAL.append(("set_optimization_profile_async", profile_index, stream_handle))
        if not 0 <= profile_index < self.engine.num_optimization_profiles or self._is_failing(
            "set_optimization_profile_async"
        ):
            return self._refuse(f"there is no profile {profile_index}")
        self.active_optimization_profile = profile_index
        self._shapes.clear()
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        """[py]; [h] false if the name is no input's or the shape is outside of the profile."""
        JOURNAL.append(("set_input_shape", name, tuple(shape)))
        if self.engine.get_tensor_mode(name) is not TensorIOMode.INPUT or self._is_failing("set_input_shape", name):
            return self._refuse(f"{name} is no input whose shape can be set")
        least, _, most = self.engine.get_tensor_profile_shape(name, self.active_optimization_profile)
        is_inside = len(shape) == len(least) and all(a <= n <= b for a, n, b in zip(least, shape, most, strict=True))
        if not is_inside:
            return self._refuse(f"{name}: {tuple(shape)} is not between {least} and {most}")
        self._shapes[name] = tuple(shape)
        return True

    def get_tensor_shape(self, name: str) -> Dims:
        """[h] -1 while a runtime dimension or a shape tensor's address is not set, and for what the data decide."""
        found = self.tensors[name]
        if found["mode"] == "INPUT":
            return Dims(self._shapes.get(name, found["shape"]))
        return Dims(list(map(self._number, found["shape"])))

    def infer_shapes(self) -> list[str]:
        """[py] "the names of any tensors that are insufficiently specified".

        Dynamic dimensions not set, or is_shape_inference_io and no address; [h] it writes to outputs that are shape
        tensors.
        """
        JOURNAL.append(("infer_shapes",))
        if self._is_failing("infer_shapes"):
            raise RuntimeError("shape inference failed")  # [py] ":raises: RuntimeError"
        missing = [name for name, t in self.tensors.items() if self._is_missing(name, t)]
        if not missing:
            for name, found in self.tensors.items():
                if found["contents"]:
                    self._write(name, [self._number(content) for content in found["contents"]])
        return missing

    def set_tensor_address(self, name: str, memory: int) -> bool:
        """[h] "Return false if the provided name does not map to an input or output tensor."."""
        JOURNAL.append(("set_tensor_address", name, memory))
        if name not in self.tensors or self._is_failing("set_tensor_address", name):
            return self._refuse(f"{name} is no tensor")
        self._addresses[name] = memory
        return True

    def set_output_allocator(self, name: str, output_allocator: IOutputAllocator | None) -> bool:
        """[py] "Pass None to unset the output allocator.".

        The context keeps every one that it was given, as pybind11's keep_alive does.
        """
        JOURNAL.append(("set_output_allocator", name, output_allocator is not None))
        if self.engine.get_tensor_mode(name) is not TensorIOMode.OUTPUT:
            return self._refuse(f"{name} is no output")
        if output_allocator is not None and not hasattr(output_allocator, "is_initialised"):
            raise TypeError("IOutputAllocator.__init__() must be called when overriding __init__")  # pybind11's own
        self._allocators[name] = output_allocator
        self._kept_alive.append(output_allocator)
        return True

    def get_max_output_size(self, name: str) -> int:
        """[py] "the upper bound on an output tensor's size, in bytes".

        -1 "if the profile or input shapes are not yet set, or the provided name does not map to an output".
        """
        if self.engine.get_tensor_mode(name) is not TensorIOMode.OUTPUT:
            return -1
        extents = [self._number(str(extent).removeprefix("?")) for extent in self.tensors[name]["shape"]]
        return -1 if -1 in extents else math.prod(extents) * self.engine.get_tensor_dtype(name).itemsize

    def update_device_memory_size_for_shapes(self) -> int:
        """[py] "return the total amount of memory required"; "Must specify all input shapes"; [h] 0 on failure."""
        JOURNAL.append(("update_device_memory_size_for_shapes",))
        inputs = [self.get_tensor_shape(name) for name, t in self.tensors.items() if t["mode"] == "INPUT"]
        return 0 if any(-1 in shape for shape in inputs) else self.engine.workspace * sum(map(math.prod, inputs))

    def set_device_memory(self, memory: int, size: int) -> None:
        """[py] "256-byte aligned device memory", "at least as large as" what is needed."""
        JOURNAL.append(("set_device_memory", memory, size))
        self._memory = memory

    def execute_async_v3(self, stream_handle: int) -> bool:
        """[h] "True if the kernels were enqueued successfully, false otherwise".

        [py] "The allocator is called by execute_async_v3": reallocate_output_async, then notify_shape.
        """
        JOURNAL.append(("execute_async_v3", stream_handle))
        missing = [
            name
            for name, found in self.tensors.items()
            if self._is_missing(name, found) or not (self._addresses.get(name) or self._allocators.get(name))
        ]
        if missing or self._is_failing("execute_async_v3"):
            return self._refuse(f"not all is set: {', '.join(missing)}")
        if self._is_user_managed and not self._memory and self.update_device_memory_size_for_shapes():
            return self._refuse("no device memory is set")
        if self._cache is not None:
            self._cache.add(f"stand-in {sorted(self._shapes.items())}")
        return all(
            self._allocate(name, allocator, stream_handle) for name, allocator in self._allocators.items() if allocator
        )

    def _allocate(self, name: str, allocator: Any, stream: int) -> bool:
        found, size = self.tensors[name], self.get_max_output_size(name)
        if not allocator.reallocate_output_async(name, self._addresses.get(name, 0), size, 256, stream):
            return self._refuse(f"no memory for {name}")
        allocator.notify_shape(name, Dims([self._number(str(extent).removeprefix("?")) for extent in found["shape"]]))
        return True

    def _number(self, extent: int | str) -> int:
        """Where a dimension or a value of an output comes from, see `tensor`."""
        if isinstance(extent, int) or extent.isdigit():
            return int(extent)
        if extent.startswith("?"):
            return -1
        if dimension := re.fullmatch(r"(\w+)\.(\d+)", extent):
            return self.get_tensor_shape(dimension[1])[int(dimension[2])]
        element = re.fullmatch(r"(\w+)\[(\d+)\]", extent)
        assert element is not None
        values = self._read(element[1])
        return values[int(element[2])] if values else -1

    def _host(self, name: str) -> Any:
        """A shape tensor's own memory, as an array of ctypes."""
        length = math.prod(self.tensors[name]["shape"])
        type_: Callable[[int], Any] = (
            (ctypes.c_int64 if self.tensors[name]["dtype"] == "INT64" else ctypes.c_int32) * length
        ).from_address
        return type_(self._addresses[name])

    def _read(self, name: str) -> list[int]:
        return list(self._host(name)) if self._addresses.get(name) else []

    def _write(self, name: str, values: list[int]) -> None:
        if self._addresses.get(name):
            self._host(name)[:] = values

    def _is_missing(self, name: str, found: dict[str, Any]) -> bool:
        if found["mode"] != "INPUT":
            return False
        return -1 in self.get_tensor_shape(name) or (bool(found["values"]) and not self._addresses.get(name))

    def _is_failing(self, method: str, *names: str) -> bool:
        return (method, *names) in FAILING

    def _refuse(self, cause: str) -> bool:
        self.engine.runtime.logger.log(ILogger.ERROR, cause)
        return False
