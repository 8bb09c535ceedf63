"""Stream capture from the first enqueue on, and what enqueue calls and waits for, on the real driver."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from testing.child import in_child

from gpu.counting import CountingDriver
from gpu.work import KINDS, Execution, session
from hatch_tensoracle.testing import Cuda, CudaError, Stream
from hatch_tensoracle.testing.cuda import CaptureMode

SHAPES = {"norm": (9, 1025), "matmul": (70, 96, 144)}


def shape_of(kind: str) -> tuple[int, ...]:
    return SHAPES[kind.split(maxsplit=1)[0]]


@pytest.mark.parametrize("mode", get_args(CaptureMode))
@pytest.mark.parametrize("kind", KINDS)
@in_child
def test_first_enqueue_is_captured_replayed_and_updated(library: Path, kind: str, mode: CaptureMode) -> None:
    with session(library) as at:
        execution = Execution(at, kind, shape_of(kind))
        stream = at.context.create_stream()
        graph = stream.graph_of(lambda: execution.enqueue(stream), mode)  # loads the kernels
        for seed in (1, 20, 30):
            execution.fill(seed)
            graph.launch(stream)
            stream.synchronize()
            execution.check()
        before = execution.inputs + execution.outputs
        execution.allocate()  # other addresses: the old ones are not freed
        assert not {each.address for each in before} & {each.address for each in execution.inputs + execution.outputs}
        stream.update(graph, lambda: execution.enqueue(stream), mode)
        execution.fill(40)
        graph.launch(stream)
        stream.synchronize()
        execution.check()
        graph.destroy()


@in_child
def test_enqueue_calls_nothing_but_the_launch(library: Path, counting_driver: tuple[Path, str]) -> None:
    driver = CountingDriver(*counting_driver)
    with session(library) as at:
        executions = [Execution(at, kind, shape_of(kind)) for kind in KINDS]
        stream = at.context.create_stream()
        for execution in executions:
            execution.enqueue(stream)
        before = driver.calls()
        for _ in range(100):
            for execution in executions:
                execution.enqueue(stream)
        made = driver.calls() - before
        assert made == {"cuLaunchKernel": 100 * len(KINDS)}
        stream.synchronize()
        for execution in executions:
            execution.check()


@in_child
def test_enqueue_takes_no_device_memory_and_survives_capture_in_global_mode(library: Path) -> None:
    with session(library) as at:
        executions = [Execution(at, kind, shape_of(kind)) for kind in KINDS]
        stream = at.context.create_stream()
        for execution in executions:
            execution.enqueue(stream)
        stream.synchronize()
        before = at.free_memory()
        for _ in range(100):
            for execution in executions:
                execution.enqueue(stream)
        assert at.free_memory() == before
        with stream.capture("global"):  # which calls that allocate or wait would break
            for execution in executions:
                execution.enqueue(stream)
            assert stream.capture_status() == "active"


@in_child
def test_a_call_that_allocates_breaks_a_capture_in_global_mode(library: Path) -> None:
    """Or the test before could not fail."""
    with session(library) as at:
        stream = at.context.create_stream()
        with pytest.raises(CudaError, match="CUDA_ERROR_STREAM_CAPTURE"), stream.capture("global"):
            at.cuda.allocate(1 << 20)


@in_child
def test_enqueue_does_not_wait_for_the_stream(library: Path) -> None:
    with session(library) as at:
        executions = [Execution(at, kind, shape_of(kind)) for kind in KINDS]
        stream = at.context.create_stream()
        for execution in executions:
            execution.enqueue(stream)
        stream.synchronize()
        for execution in executions:
            execution.fill(7)
        with closed_gate(at.cuda, stream) as opened_by_force:
            for _ in range(20):
                for execution in executions:
                    execution.enqueue(stream)
            with pytest.raises(CudaError, match="CUDA_ERROR_NOT_READY"):
                at.cuda.call("cuStreamQuery", ctypes.c_void_p(stream.handle))
            assert not opened_by_force.is_set(), "enqueue waited for work before it"
        stream.synchronize()
        for execution in executions:
            execution.check()


@contextmanager
def closed_gate(cuda: Cuda, stream: Stream) -> Iterator[threading.Event]:
    """Let the stream wait for a number in host memory, which is written at the end; or by force after 20 s."""
    address = ctypes.c_void_p()
    cuda.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(4), 2)  # CU_MEMHOSTALLOC_DEVICEMAP
    assert address.value is not None
    gate = ctypes.c_uint32.from_address(address.value)
    gate.value = 0
    cuda.call(
        "cuStreamWaitValue32_v2", ctypes.c_void_p(stream.handle), ctypes.c_uint64(address.value), ctypes.c_uint32(1), 0
    )
    forced = threading.Event()

    def force() -> None:
        forced.set()
        gate.value = 1

    timer = threading.Timer(20, force)
    timer.start()
    try:
        yield forced
    finally:
        timer.cancel()
        gate.value = 1
