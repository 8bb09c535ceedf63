"""What is done with TensorRT in a process of its own: `scenarios.py RUNTIME NAME [LIBRARY]`.

The last line of stdout is JSON: `{"skipped": why}` or `{"done": true}`; a failed check is a traceback. With `build` in
place of a name the engines of all scenarios are built and no more, which TensorRT-RTX does without a GPU; with `survey`
the line says what is there.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np  # noqa: TID253 - a process of its own
from numpy.typing import NDArray  # noqa: TID253

from hatch_tensoracle import runtime
from hatch_tensoracle.runtime import EngineBuild, EngineIO, ExecutionError, InputShape, TensorSpec
from hatch_tensoracle.runtime.distribution import distribution
from hatch_tensoracle.runtime.settings_slot import SettingsSlot

API: Any = runtime
Array = NDArray[Any]

RTX_SMS = {75, 86, 89, 120}
"""Turing, Ampere, Ada and Blackwell without the data centre's: TensorRT-RTX's support matrix; 90 was seen refused."""
OLDEST_SM = 75
"""TensorRT's own."""


class SkippedError(Exception):
    """Something that the scenario needs is not there."""


class Gpu:
    """The first GPU by the driver API, in its primary context, as torch and CuPy use it."""

    def __init__(self) -> None:
        from hatch_tensoracle.testing.cuda import Context, Cuda

        self._cuda = Cuda()
        handle = ctypes.c_void_p()
        self._cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), 0)
        self._context = Context(self._cuda, handle.value or 0)
        self._context.make_current()
        self.stream = self._context.create_stream().handle

    @property
    def sm(self) -> int:
        """Compute capability, such as 89."""
        numbers = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and MINOR
            number = ctypes.c_int()
            self._cuda.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, 0)
            numbers.append(number.value)
        return numbers[0] * 10 + numbers[1]

    def place(self, array: Array) -> int:
        """Copy an array to the device; nothing is freed, the process ends soon."""
        address = self._cuda.allocate(max(array.nbytes, 1))
        self._cuda.copy_to_device(address, np.ascontiguousarray(array).tobytes())
        return address

    def empty(self, size: int) -> int:
        """Allocate bytes."""
        return self._cuda.allocate(max(size, 1))

    def read(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """Wait for the stream and copy an array to the host."""
        self._cuda.synchronize(self.stream)
        data = self._cuda.copy_to_host(address, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return np.frombuffer(data, dtype).reshape(shape)


# Graphs, all of them strongly typed and with one output that is named y.

ROWS = InputShape.ranged((1, 2), (4, 2), (8, 2))
MORE_ROWS = InputShape.ranged((9, 2), (16, 2), (64, 2))


def finished(network: Any, tensor: Any, name: str = "y") -> None:
    """Mark an output."""
    tensor.name = name
    network.mark_output(tensor)


def doubled(trt: Any) -> Callable[[Any], None]:
    """Return the graph of y = x + x."""

    def graph(network: Any) -> None:
        x = network.add_input("x", trt.float32, (-1, 2))
        finished(network, network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0))

    return graph


def cut(trt: Any) -> Callable[[Any], None]:
    """Return the graph of y = x[:n], where n is the shape tensor, and of the shape tensor 2n, `twice`."""

    def graph(network: Any) -> None:
        x = network.add_input("x", trt.float32, (12,))
        n = network.add_input("n", trt.int64, (1,))
        layer = network.add_slice(x, (0,), (1,), (1,))
        layer.set_input(2, n)
        finished(network, layer.get_output(0))
        twice = network.add_elementwise(n, n, trt.ElementWiseOperation.SUM).get_output(0)
        twice.name = "twice"
        network.mark_output_for_shapes(twice)

    return graph


def non_zero(trt: Any) -> Callable[[Any], None]:
    """Return the graph of the indices of x's elements that are not zero, (2, as many as there are)."""

    def graph(network: Any) -> None:
        x = network.add_input("x", trt.float32, (-1, 2))
        layer = network.add_non_zero(x, trt.int64) if _takes_type(network.add_non_zero) else network.add_non_zero(x)
        finished(network, layer.get_output(0))

    return graph


def normalised(name: str) -> Callable[[Any], object]:
    """Return the graph of the example package's AddRmsNorm: through ONNX for TensorRT-RTX, else through add_plugin."""
    if name == "tensorrt_rtx":
        example: Any = importlib.import_module("example_plugin.build_engine")
        return API.onnx_graph(example.make_model(example.TYPES["fp16"], ["rows", 64], EPSILON))  # type: ignore[no-any-return]

    def graph(network: Any) -> None:
        trt = distribution(name).module
        inputs = [network.add_input(each, trt.float16, shape) for each, shape in NORMALISED_SHAPES.items()]
        layer = API.add_plugin(network, inputs, "AddRmsNorm", "1", {"epsilon": EPSILON})
        finished(network, layer.get_output(0))
        finished(network, layer.get_output(1), "r")

    return graph


EPSILON = 1e-5
NORMALISED_SHAPES = {"x": (-1, 64), "residual": (-1, 64), "weight": (64,)}


def normalised_declaration(name: str) -> EngineBuild:
    """Return what is declared for it."""
    rows = InputShape.ranged((1, 64), (16, 64), (64, 64))
    return declared(name, "fp16", x=rows, residual=rows, weight=InputShape.fixed((64,)))


def _takes_type(function: Any) -> bool:
    return "indices_type" in (function.__doc__ or "")


def declared(name: str, precision: Literal["fp32", "fp16"], /, **inputs: Any) -> EngineBuild:
    """Declare the engine of a scenario."""
    return EngineBuild(precision=precision, inputs=inputs, runtime=name)


GRAPHS: Mapping[str, tuple[Callable[[Any], Callable[[Any], None]], Mapping[str, Any]]] = {
    "doubled": (doubled, {"x": (ROWS, MORE_ROWS)}),
    "cut": (cut, {"x": InputShape.fixed((12,)), "n": InputShape.values((1,), (4,), (12,))}),
    "non_zero": (non_zero, {"x": ROWS}),
}


NOT_IN = {"tensorrt": (), "tensorrt_rtx": ("non_zero",)}
"""Graphs that cannot be built: TensorRT-RTX 1.7 says, on the CPU, that nothing in it implements NonZero or NMS."""


class Handle:
    """An engine that is in no file."""

    def __init__(self, name: str, graph: str) -> None:
        self.distribution = distribution(name)
        if graph in NOT_IN[name]:
            raise SkippedError(f"{self.distribution.name} {self.distribution.version} cannot build {graph}")
        make, inputs = GRAPHS[graph]
        plan = API.build_serialized_engine(make(self.distribution.module), declared(name, "fp32", **inputs))
        self.runtime = self.distribution.module.Runtime(self.distribution.logger)
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        assert self.engine is not None
        self.settings_slot = SettingsSlot()


def opened(name: str, graph: str, **options: Any) -> Any:
    """Return an execution of it."""
    from hatch_tensoracle.runtime.execution import EngineExecution

    return EngineExecution(Handle(name, graph), **options)


# Scenarios


def shapes_and_profiles(name: str, gpu: Gpu) -> None:
    """Outputs are right for shapes of both profiles, and for the first again."""
    execution = opened(name, "doubled")
    for rows in (1, 4, 64, 9, 8):
        x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        execution.set_input_shapes({"x": x.shape}, stream=gpu.stream)
        assert execution.profile == (0 if rows < 9 else 1)
        assert execution.get_tensor_shape("y") == x.shape
        y = gpu.empty(x.nbytes)
        execution.enqueue({"x": gpu.place(x), "y": y}, stream=gpu.stream)
        np.testing.assert_array_equal(gpu.read(y, x.shape, np.float32), x + x)
    execution.close()


def refusals(name: str, gpu: Gpu) -> None:
    """What is refused is refused by us; after it the execution works."""
    execution = opened(name, "doubled")
    execution.set_input_shapes({"x": (4, 2)})
    x, y = gpu.place(np.ones((4, 2), np.float32)), gpu.empty(32)
    for addresses in ({"x": x}, {"x": x, "y": 0}, {"x": x, "y": y, "z": y}):
        try:
            execution.enqueue(addresses, stream=gpu.stream)
        except ValueError:
            continue
        raise AssertionError(addresses)
    execution.enqueue({"x": x, "y": y}, stream=gpu.stream)
    assert (gpu.read(y, (4, 2), np.float32) == 2).all()
    execution.close()
    try:
        execution.enqueue({"x": x, "y": y}, stream=gpu.stream)
    except ExecutionError:
        return
    raise AssertionError("a closed execution enqueued")


def shape_tensors(name: str, gpu: Gpu) -> None:
    """Contents on the host decide a shape, and come out as contents."""
    execution = opened(name, "cut")
    x = np.arange(12, dtype=np.float32)
    place = gpu.place(x)
    for n in (1, 12, 5):
        execution.set_input_shapes({"n": (n,)})
        assert execution.get_tensor_shape("y") == (n,)
        assert execution.get_tensor_values("twice") == (2 * n,)
        y = gpu.empty(x.nbytes)
        execution.enqueue({"x": place, "y": y}, stream=gpu.stream)
        np.testing.assert_array_equal(gpu.read(y, (n,), np.float32), x[:n])


def sizes_that_data_decide(name: str, gpu: Gpu) -> None:
    """The allocator is asked, and the shape is known after the enqueue."""
    execution = opened(name, "non_zero")
    execution.set_input_shapes({"x": (4, 2)})
    asked: list[tuple[int, int]] = []

    def allocate(size: int, _alignment: int, stream: int) -> int:
        assert stream == gpu.stream
        asked.append((size, gpu.empty(size)))
        return asked[-1][1]

    execution.set_output_allocator("y", allocate)
    x = np.array([[0, 1], [2, 0], [0, 0], [0, 3]], np.float32)
    execution.enqueue({"x": gpu.place(x)}, stream=gpu.stream)
    shape = execution.get_tensor_shape("y")
    assert shape == (2, 3)
    dtype = np.dtype(execution.get_tensor_dtype("y").name.lower())
    np.testing.assert_array_equal(gpu.read(asked[-1][1], shape, dtype), np.array(np.nonzero(x)))


def caller_s_workspace(name: str, gpu: Gpu) -> None:
    """TensorRT works in the caller's memory."""
    execution = opened(name, "doubled", caller_workspace=True)
    execution.set_input_shapes({"x": (4, 2)})
    if size := execution.workspace_size:
        execution.set_workspace(gpu.empty(size), size)
    y = gpu.empty(32)
    execution.enqueue({"x": gpu.place(np.ones((4, 2), np.float32)), "y": y}, stream=gpu.stream)
    assert (gpu.read(y, (4, 2), np.float32) == 2).all()


def warmed_up(name: str, gpu: Gpu) -> None:
    """Buffers for the largest do for all."""
    execution = opened(name, "doubled")
    x, y = gpu.place(np.ones((64, 2), np.float32)), gpu.empty(64 * 8)
    execution.warm_up([{"x": (1, 2)}, {"x": (8, 2)}, {"x": (64, 2)}], {"x": x, "y": y}, stream=gpu.stream)
    assert (gpu.read(y, (64, 2), np.float32) == 2).all()


def doubled_by(execution: Any, gpu: Gpu, rows: int, times: int = 2) -> None:
    """Execute at one place on new numbers, and compare."""
    x = np.random.default_rng(rows).standard_normal((rows, 2)).astype(np.float32)
    execution.set_input_shapes({"x": x.shape}, stream=gpu.stream)
    addresses = {"x": gpu.place(x), "y": gpu.empty(x.nbytes)}
    for _ in range(times):
        execution.enqueue(addresses, stream=gpu.stream)
    np.testing.assert_array_equal(gpu.read(addresses["y"], x.shape, np.float32), x + x)


def cuda_graphs(name: str, gpu: Gpu) -> None:
    """Graphs of our own are right in shapes of both profiles, in turn, at new addresses, and where one is evicted."""
    execution = opened(name, "doubled")
    if name == "tensorrt_rtx":
        execution.runtime_settings = API.RuntimeSettings(dynamic_shapes_kernel_specialization_strategy="eager")
    with API.enable_cudagraphs(execution, limit=2) as graphs:
        for rows in (1, 4, 1, 64, 1, 4):
            doubled_by(graphs, gpu, rows)
        found = graphs.statistics
        assert found.evictions > 0
        assert found.replays + found.eager == 2 * 6


def native_graphs(name: str, gpu: Gpu) -> None:
    """TensorRT-RTX's own are right too; elsewhere there are none."""
    execution = opened(name, "doubled")
    if name != "tensorrt_rtx":
        try:
            API.enable_cudagraphs(execution, "whole_graph_capture")
        except ExecutionError:
            return
        raise AssertionError("TensorRT has graphs of its own")
    with API.enable_cudagraphs(execution, "whole_graph_capture"):
        for rows in (1, 4, 1, 64):
            doubled_by(execution, gpu, rows, times=3)
    doubled_by(execution, gpu, 4)


def runtime_settings(name: str, gpu: Gpu) -> None:
    """Each choice executes; a change goes on with the shapes that are set."""
    execution = opened(name, "doubled")
    for strategy in ("lazy", "eager", "none"):
        execution.runtime_settings = API.RuntimeSettings(dynamic_shapes_kernel_specialization_strategy=strategy)
        for rows in (4, 64):
            doubled_by(execution, gpu, rows)
    x, y = gpu.place(np.ones((64, 2), np.float32)), gpu.empty(64 * 8)
    with API.runtime_config(execution, dynamic_shapes_kernel_specialization_strategy="eager"):
        execution.enqueue({"x": x, "y": y}, stream=gpu.stream)
        assert (gpu.read(y, (64, 2), np.float32) == 2).all()


def runtime_caches(name: str, gpu: Gpu) -> None:
    """A cache is saved, taken by the next, and has what two have saved."""
    path = Path(os.environ["XDG_CACHE_HOME"]) / "kernels"
    if name != "tensorrt_rtx":
        with API.runtime_cache(opened(name, "doubled"), path):
            pass
        assert not path.exists()
        return
    for _ in range(2):
        execution = opened(name, "doubled")
        with API.runtime_cache(execution, path):
            doubled_by(execution, gpu, 4)
        assert path.stat().st_size > 0
    assert not path.with_name("kernels.refused").exists()
    one, other = opened(name, "doubled"), opened(name, "cut")
    caches = [API.RuntimeCache(path.with_name("both")) for _ in range(2)]
    for execution, cache in zip((one, other), caches, strict=True):
        execution.runtime_settings = API.RuntimeSettings(runtime_cache=cache)
    doubled_by(one, gpu, 4)
    other.set_input_shapes({"n": (5,)})
    other.enqueue({"x": gpu.place(np.ones(12, np.float32)), "y": gpu.empty(48)}, stream=gpu.stream)
    first, both = (cache.save() for cache in caches)
    assert both >= first, "deserialize replaces what a cache has: say so in docs/runtime-settings.md"


def arrays_of_torch(name: str, _gpu: Gpu) -> None:
    """Outputs are torch's, on its current stream or the one given."""
    torch = _library("torch")
    execution = opened(name, "doubled")
    x = torch.arange(8, dtype=torch.float32, device="cuda").reshape(4, 2)
    y = execution({"x": x})["y"]
    assert torch.equal(y.cpu(), x.cpu() * 2)
    execution.release_stream()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    again = execution({"x": x}, stream=stream)["y"]
    stream.synchronize()
    assert torch.equal(again.cpu(), x.cpu() * 2)
    if "non_zero" in NOT_IN[name]:
        return
    found = opened(name, "non_zero")({"x": x})["y"]
    torch.cuda.synchronize()
    assert torch.equal(found.cpu(), torch.nonzero(x.cpu()).T.to(found.dtype))


def arrays_of_cupy(name: str, _gpu: Gpu) -> None:
    """The same of CuPy's."""
    cupy = _library("cupy")
    execution = opened(name, "doubled")
    x = cupy.arange(8, dtype=cupy.float32).reshape(4, 2)
    np.testing.assert_array_equal(cupy.asnumpy(execution({"x": x})["y"]), cupy.asnumpy(x) * 2)
    out = cupy.empty((4, 2), cupy.float32)
    assert execution({"x": x}, {"y": out})["y"] is out
    np.testing.assert_array_equal(cupy.asnumpy(out), cupy.asnumpy(x) * 2)
    if "non_zero" in NOT_IN[name]:
        return
    found = opened(name, "non_zero")({"x": x})["y"]
    np.testing.assert_array_equal(cupy.asnumpy(found), np.array(np.nonzero(cupy.asnumpy(x))))


def the_example(name: str, gpu: Gpu, library: str) -> None:
    """The example's plugin, from open_engine to numbers, twice: the second engine is the saved one."""
    _library("onnx")
    shapes = {each: TensorSpec("fp16", shape) for each, shape in NORMALISED_SHAPES.items()}
    io = EngineIO(inputs=shapes, outputs={each: TensorSpec("fp16", (-1, 64)) for each in ("y", "r")})
    random = np.random.default_rng(0)
    given = {each: random.standard_normal((5, 64) if each != "weight" else 64) for each in NORMALISED_SHAPES}
    halves = {each: values.astype(np.float16) for each, values in given.items()}
    total = halves["x"].astype(np.float32) + halves["residual"].astype(np.float32)
    scale = 1 / np.sqrt((total**2).mean(axis=1, keepdims=True) + EPSILON)
    expected = total * scale * halves["weight"].astype(np.float32)
    for was_built in (True, False):
        handle = API.open_engine(
            normalised(name),
            normalised_declaration(name),
            name="example",
            graph_version="1",
            plugins=[library],
            io=io,
        )
        assert handle.was_built is was_built
        with handle.create_execution() as execution:
            execution.set_input_shapes({"x": (5, 64), "residual": (5, 64)})
            addresses = {each: gpu.place(values) for each, values in halves.items()}
            outputs = {each: gpu.empty(5 * 64 * 2) for each in ("y", "r")}
            execution.enqueue(addresses | outputs, stream=gpu.stream)
            y, r = (gpu.read(outputs[each], (5, 64), np.float16) for each in ("y", "r"))
        np.testing.assert_allclose(y.astype(np.float32), expected, atol=4e-3, rtol=4e-3)
        np.testing.assert_allclose(r.astype(np.float32), total, atol=2e-3, rtol=2e-3)


SCENARIOS: Mapping[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        shapes_and_profiles,
        refusals,
        shape_tensors,
        sizes_that_data_decide,
        caller_s_workspace,
        warmed_up,
        cuda_graphs,
        native_graphs,
        runtime_settings,
        runtime_caches,
        arrays_of_torch,
        arrays_of_cupy,
        the_example,
    )
}


def survey(name: str) -> str | None:
    """Return why nothing can be executed here, or None."""
    try:
        tensorrt = distribution(name)
    except ValueError as error:
        return str(error)
    try:
        gpu = Gpu()
    except OSError as error:
        return f"there is no CUDA driver: {error}"
    except Exception as error:  # noqa: BLE001 - such as CUDA_ERROR_NO_DEVICE
        return f"there is no GPU that the CUDA driver can use: {error}"
    is_supported = gpu.sm in RTX_SMS if name == "tensorrt_rtx" else gpu.sm >= OLDEST_SM
    return None if is_supported else f"{tensorrt.name} {tensorrt.version} does not support this GPU, sm{gpu.sm}"


def build_all(name: str, library: str) -> None:
    """Build every graph, which tells nothing of its execution."""
    trt = distribution(name).module
    for graph, (make, inputs) in GRAPHS.items():
        if graph not in NOT_IN[name]:
            assert API.build_serialized_engine(make(trt), declared(name, "fp32", **inputs))
    assert API.build_serialized_engine(normalised(name), normalised_declaration(name), [library])


def main(name: str, scenario: str, library: str = "") -> dict[str, object]:
    """Do one, and say how it went."""
    if scenario == "build":
        build_all(name, library)
        return {"done": True}
    why = survey(name)
    if why or scenario == "survey":
        return {"skipped": why}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        try:
            SCENARIOS[scenario](name, Gpu(), *filter(None, [library]))
        except SkippedError as error:
            return {"skipped": str(error)}
    return {"done": True}


def _library(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise SkippedError(f"{name} is not installed")
    return importlib.import_module(name)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - the answer
