"""The example's plugin, in TensorRT's hands as far as the harness is TensorRT: from fields to the bytes of a launch."""

from __future__ import annotations

import hashlib
import itertools
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np  # noqa: TID253 - what the harness copies
import pytest

from hatch_tensoracle.testing import (
    BuiltPlugin,
    Context,
    DevicePointer,
    FakeDriver,
    FormatError,
    PluginFailedError,
    PluginHarness,
    RunningPlugin,
    Stream,
    Tensor,
)
from hatch_tensoracle.testing.cuda import CaptureMode
from hatch_tensoracle.testing.records import Call, FunctionLoad, Launch, LibraryLoad
from testing.child import in_child

EPSILON = 3e-5


def tensors(type_: str = "fp16", columns: int = 64) -> tuple[Tensor, ...]:
    x = Tensor(type_, (-1, columns), min=(0, columns), opt=(4, columns), max=(1 << 20, columns))
    return (x, x, Tensor(type_, (columns,)))


def built(harness: PluginHarness, type_: str = "fp16", columns: int = 64) -> BuiltPlugin:
    return harness.create("AddRmsNorm", {"epsilon": EPSILON}).build(tensors(type_, columns))


def enqueue(running: RunningPlugin, address: int, rows: int, stream: Stream, columns: int = 64) -> list[int]:
    """Enqueue on pointers of which nothing is read, and return them."""
    addresses = [address + 4096 * i for i in range(5)]
    shapes = [(rows, columns), (rows, columns), (columns,), (rows, columns), (rows, columns)]
    pointers = [DevicePointer(a, shape, "fp16") for a, shape in zip(addresses, shapes, strict=True)]
    running.enqueue(pointers[:3], pointers[3:], stream)
    return addresses


# Build time.


@pytest.mark.parametrize("type_", ["fp32", "fp16", "bf16"])
def test_outputs_have_the_inputs_type_and_shape(example_library: Path, type_: str) -> None:
    outputs = built(PluginHarness(example_library), type_).outputs
    assert outputs == (tensors(type_)[0],) * 2


def test_all_tensors_are_linear_and_of_one_type(example_library: Path) -> None:
    plugin = PluginHarness(example_library).create("AddRmsNorm")
    assert plugin.format_combinations(tensors()) == tuple(
        ((type_, "LINEAR"),) * 5 for type_ in ("fp32", "fp16", "bf16")
    )
    with pytest.raises(FormatError, match=r"for inputs of fp16 HWC8, .*; it supports fp32 LINEAR"):
        plugin.build([tensor.with_format("HWC8") for tensor in tensors()])


def test_types_that_do_not_match_are_named(example_library: Path) -> None:
    x, residual, _ = tensors()
    with pytest.raises(PluginFailedError, match=r"data types \(HALF, HALF, FLOAT\); permitted are"):
        PluginHarness(example_library).create("AddRmsNorm").build([x, residual, Tensor("fp32", (64,))])


def test_shapes_that_do_not_match_are_named(example_library: Path) -> None:
    x, residual, _ = tensors()
    with pytest.raises(PluginFailedError) as caught:
        PluginHarness(example_library).create("AddRmsNorm").build([x, residual, Tensor("fp16", (63,))])
    assert caught.value.method == "configurePlugin"
    assert "weight has shape (63); it must be (64), the last axis of x" in caught.value.messages[0]


@pytest.mark.parametrize(
    ("epsilon", "stored"),
    [
        (np.float32(EPSILON), np.float32(EPSILON)),
        (np.float16(0.5), np.float32(0.5)),
        (np.float64(0.25), np.float32(0.25)),
        (0, np.float32(0)),
        (None, np.float32(1e-6)),
    ],
    ids=repr,
)
def test_epsilon_is_serialised_as_declared(example_library: Path, epsilon: Any, stored: np.float32) -> None:
    fields = {} if epsilon is None else {"epsilon": epsilon}
    (field,) = PluginHarness(example_library).create("AddRmsNorm", fields).build(tensors()).fields
    assert (field.name, field.type, field.data, field.length) == ("epsilon", "FLOAT32", stored.tobytes(), 1)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"epsilon": -1.0}, r"field epsilon is -1; it must be in \[0"),
        ({"epsilon": float("nan")}, "field epsilon is NaN"),
        ({"epsilon": np.float64(0.1)}, "which the declared type cannot hold exactly"),
        ({"epsilon": "text"}, "field epsilon is CHAR; it is declared as FLOAT32"),
        ({"epsilon": np.zeros(2, np.float32)}, "field epsilon has 2 elements"),
        ({"eps": 1.0}, "field eps is unknown; the declared fields are epsilon"),
    ],
    ids=str,
)
def test_wrong_field_is_named(example_library: Path, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(PluginFailedError, match=problem):
        PluginHarness(example_library).create("AddRmsNorm", fields)


def test_timing_cache_tells_fields_apart(example_library: Path) -> None:
    harness = PluginHarness(example_library)
    ids = {harness.create("AddRmsNorm", {"epsilon": e}).build(tensors()).timing_cache_id for e in (0.5, 0.25, 0.5)}
    assert len(ids) == 2
    assert all(each is not None and harness.creators[0].name in each for each in ids)


# Run time.


@in_child
def test_launch_has_the_bits_of_every_argument(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        context = driver.create_context()
        stream = context.create_stream()
        memory = driver.allocate(1 << 16)
        addresses = enqueue(built(harness).run_time(), memory, 5, stream)
        (launch,) = driver.launches
        assert launch.arguments == (
            *(struct.pack("<Q", address) for address in addresses),
            struct.pack("<i", 64),
            np.float32(EPSILON).tobytes(),
            bytes(8),
            bytes(8),
        )
        assert (launch.grid, launch.block) == ((5, 1, 1), (256, 1, 1))
        assert (launch.stream, launch.owner, launch.captured) == (stream.handle, context.handle, False)


@in_child
def test_unaligned_pointers_and_odd_columns_get_the_unspecialised_variant(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        stream = driver.create_context().create_stream()
        memory = driver.allocate(1 << 16)
        running, odd = built(harness).run_time(), built(harness, columns=63).run_time()
        enqueue(running, memory, 1, stream)
        enqueue(running, memory + 2, 1, stream)
        enqueue(odd, memory, 1, stream, columns=63)
        fast, unaligned, uneven = (launch.sha256 for launch in driver.launches)
        assert fast != unaligned == uneven


@in_child
def test_each_device_runs_the_code_for_it_or_says_what_there_is(
    example_library: Path, cubins: dict[int, bytes]
) -> None:
    devices = [86, 89, 90, 120, 75, 87, 121, 130]
    with FakeDriver(devices) as driver, PluginHarness(example_library) as harness:
        plugin = built(harness)
        for number, sm in enumerate(devices):
            stream = driver.create_context(number).create_stream()
            memory = driver.allocate(1 << 16)
            driver.clear()
            running = plugin.run_time()
            if sm in cubins:
                enqueue(running, memory, 1, stream)
                assert driver.launches[0].sha256 == hashlib.sha256(cubins[sm]).hexdigest()
                continue
            with pytest.raises(PluginFailedError) as caught:
                enqueue(running, memory, 1, stream)
            assert caught.value.method == "onShapeChange"
            assert f"no code runs on this device of sm_{sm}; the library has " in caught.value.messages[0]
            assert all(f"sm_{shipped}" in caught.value.messages[0] for shipped in cubins)
            assert not driver.records(LibraryLoad)


@in_child
def test_code_is_loaded_once_and_into_each_context_once(example_library: Path) -> None:
    with FakeDriver([86, 89]) as driver, PluginHarness(example_library) as harness:
        plugin = built(harness)
        contexts = [driver.create_context(device) for device in (0, 0, 1)]
        for _, context in itertools.product(range(3), contexts):
            with context:
                memory, stream = driver.allocate(1 << 16), context.create_stream()
                running = plugin.run_time()
                for rows in (1, 2, 1, 2):
                    enqueue(running, memory, rows, stream)
        libraries = [library.sha256 for library in driver.records(LibraryLoad)]
        assert len(libraries) == len(set(libraries)) == 4  # two variants for each of two SMs
        functions = [(function.sha256, function.context) for function in driver.records(FunctionLoad)]
        assert len(functions) == len(set(functions)) == 6
        assert all(launch.owner in {context.handle for context in contexts} for launch in driver.launches)


@in_child
def test_execution_without_a_change_of_shapes_is_one_launch(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        stream = driver.create_context().create_stream()
        memory = driver.allocate(1 << 16)
        running = built(harness).run_time()
        enqueue(running, memory, 4, stream)
        driver.clear()
        enqueue(running, memory, 4, stream)
        assert [call.name for call in driver.records(Call)] == ["cuLaunchKernel"]


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@in_child
def test_first_execution_may_be_captured(example_library: Path, mode: CaptureMode, blocking: bool) -> None:  # noqa: FBT001
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        stream = driver.create_context().create_stream(blocking=blocking)
        memory = driver.allocate(1 << 16)
        running = built(harness).run_time()
        with stream.capture(mode):
            enqueue(running, memory, 4, stream)
        (launch,) = driver.launches
        assert launch.captured


@in_child
def test_thread_without_a_capture_may_load_while_another_captures(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        context = driver.create_context()
        captured, other = context.create_stream(), context.create_stream()
        memory = driver.allocate(1 << 16)
        running = built(harness).run_time()

        def load() -> None:
            context.make_current()
            enqueue(running, memory, 4, other)

        with captured.capture("global"), ThreadPoolExecutor(1) as pool:
            pool.submit(load).result()
        assert not driver.launches[0].captured


@in_child
def test_tensors_without_elements_launch_nothing(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        driver.create_context()
        empty, weight = np.zeros((0, 64), np.float16), np.ones(64, np.float16)
        y, r = built(harness).run_time().run([empty, empty, weight])
        assert y.shape == r.shape == (0, 64)
        assert not driver.launches


@pytest.mark.parametrize(
    ("call", "method"),
    [
        ("cuCtxGetCurrent", "onShapeChange"),
        ("cuCtxGetDevice", "onShapeChange"),
        ("cuDeviceGetAttribute", "onShapeChange"),
        ("cuThreadExchangeStreamCaptureMode", "onShapeChange"),
        ("cuLibraryLoadData", "onShapeChange"),
        ("cuLibraryGetKernel", "onShapeChange"),
        ("cuKernelGetAttribute", "onShapeChange"),
        ("cuKernelGetFunction", "onShapeChange"),
        ("cuLaunchKernel", "enqueue"),
    ],
)
@in_child
def test_failed_call_is_reported_and_the_next_attempt_succeeds(example_library: Path, call: str, method: str) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        stream = driver.create_context().create_stream()
        memory = driver.allocate(1 << 16)
        running = built(harness).run_time()
        driver.fail(call, "CUDA_ERROR_ILLEGAL_ADDRESS")
        with pytest.raises(PluginFailedError) as caught:
            enqueue(running, memory, 4, stream)
        assert caught.value.method == method
        (message,) = caught.value.messages
        assert "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered" in message
        assert call in message
        enqueue(running, memory, 4, stream)
        assert len(driver.launches) == 1


@in_child
def test_earlier_error_is_not_taken_for_a_defect_of_the_code(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        stream = driver.create_context().create_stream()
        running = built(harness).run_time()
        for call in ("cuLibraryLoadData", "cuMemGetInfo"):
            driver.fail(call, "CUDA_ERROR_LAUNCH_FAILED")
        with pytest.raises(
            PluginFailedError, match=r"already in error before .* the cause is work that was enqueued earlier"
        ):
            enqueue(running, 4096, 4, stream)
        assert not driver.records(LibraryLoad)


@in_child
def test_thread_without_a_context_is_told_so(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        stream = driver.create_context().create_stream()
        running = built(harness).run_time()
        with ThreadPoolExecutor(1) as pool, pytest.raises(PluginFailedError, match="no CUDA context is current"):
            pool.submit(enqueue, running, 4096, 4, stream).result()


@in_child
def test_destroyed_context_is_an_error_and_no_crash(example_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(example_library) as harness:
        context = driver.create_context()
        stream = context.create_stream()
        running = built(harness).run_time()
        enqueue(running, 4096, 4, stream)
        context.destroy()
        driver.create_context()
        with pytest.raises(PluginFailedError, match="cuLaunchKernel: CUDA_ERROR_CONTEXT_IS_DESTROYED"):
            enqueue(running, 4096, 4, stream)


@in_child
def test_threads_with_contexts_of_their_own_run_at_once(example_library: Path) -> None:
    with FakeDriver([86, 89]) as driver, PluginHarness(example_library) as harness:
        contexts = [driver.create_context(device) for device in (0, 1, 0, 1)]
        plugin = built(harness)

        def work(context: Context) -> int:
            context.make_current()
            stream, memory = context.create_stream(), driver.allocate(1 << 16)
            with plugin.run_time() as running:
                for rows in range(1, 30):
                    enqueue(running, memory, rows, stream)
            return stream.handle

        with ThreadPoolExecutor(len(contexts)) as pool:
            streams = list(pool.map(work, contexts))
        for context, stream in zip(contexts, streams, strict=True):
            own = [launch.grid[0] for launch in driver.records(Launch) if launch.owner == context.handle]
            assert own == list(range(1, 30))
            assert {launch.stream for launch in driver.launches if launch.owner == context.handle} == {stream}


@in_child
def test_damaged_code_is_refused_before_the_driver_sees_it(
    example_library: Path, cubins: dict[int, bytes], tmp_path: Path
) -> None:
    image = example_library.read_bytes()
    at = image.index(cubins[86]) + len(cubins[86]) // 2
    damaged = tmp_path / "libdamaged.so"
    damaged.write_bytes(image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :])
    with FakeDriver([86]) as driver, PluginHarness(damaged) as harness:
        stream = driver.create_context().create_stream()
        with pytest.raises(PluginFailedError, match=r"the embedded code has SHA-256 .* the library is damaged"):
            enqueue(built(harness).run_time(), 4096, 4, stream)
        assert not driver.records(LibraryLoad)


@in_child
def test_process_ends_cleanly_with_everything_alive(example_library: Path) -> None:
    driver = FakeDriver([86])
    harness = PluginHarness(example_library)
    stream = driver.create_context().create_stream()
    globals()["kept"] = (driver, harness, running := built(harness).run_time())
    enqueue(running, 4096, 4, stream)
