"""The fake driver's clock, by events and by graphs that are launched. No GPU's time is like it, but it is exact."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from hatch_tensoracle.testing import Event, FakeDriver, Stream
from hatch_tensoracle.testing.records import Launch
from testing.child import in_child
from testing.test_fake_driver import fails, load, made


def kernel_of(driver: FakeDriver, cubin: bytes) -> ctypes.c_void_p:
    """Its kernel."""
    return made(driver, "cuLibraryGetKernel", load(driver, cubin), b"copy")


def launch(driver: FakeDriver, kernel: ctypes.c_void_p, stream: Stream, grid: tuple[int, int, int] = (1, 1, 1)) -> None:
    """Launch it with arguments that are all zero."""
    zero = ctypes.c_uint64(0)
    addresses = (ctypes.c_void_p * 5)(*[ctypes.addressof(zero)] * 5)
    numbers = (ctypes.c_uint(number) for number in (*grid, 128, 1, 1, 0))
    driver.call("cuLaunchKernel", kernel, *numbers, ctypes.c_void_p(stream.handle), addresses, None)


def us(blocks: int) -> float:
    """What a launch takes: a microsecond, and a nanosecond a thread of what each of four multiprocessors runs."""
    return 1 + -(-blocks // 4) * 128 / 1000


def recorded(driver: FakeDriver, stream: Stream) -> Event:
    """An event of now."""
    event = driver.create_event()
    event.record(stream)
    return event


@in_child
def test_a_stream_s_clock_goes_on_with_its_launches_alone(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        context = driver.create_context()
        stream, other, kernel = context.create_stream(), context.create_stream(), kernel_of(driver, cubin)
        events, others = [recorded(driver, stream)], [recorded(driver, other)]
        for blocks in (1, 4, 5, 1000):
            launch(driver, kernel, stream, grid=(blocks, 1, 1))
            events.append(recorded(driver, stream))
        others.append(recorded(driver, other))
        elapsed = [after.microseconds_since(before) for before, after in itertools.pairwise(events)]
        assert elapsed == pytest.approx([us(1), us(4), us(5), us(1000)], rel=1e-6)
        assert events[0].microseconds_since(events[1]) == pytest.approx(-us(1), rel=1e-6)
        assert others[1].microseconds_since(others[0]) == 0


@in_child
def test_a_graph_takes_what_was_captured_each_time_it_is_launched(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        stream, kernel = driver.create_context().create_stream(), kernel_of(driver, cubin)
        launch(driver, kernel, stream)

        def enqueue() -> None:
            launch(driver, kernel, stream, grid=(8, 1, 1))
            launch(driver, kernel, stream, grid=(2, 3, 1))

        start = recorded(driver, stream)
        graph = stream.graph_of(enqueue)
        assert recorded(driver, stream).microseconds_since(start) == 0  # captured, not executed
        graph.launch(stream)
        graph.launch(stream)
        assert recorded(driver, stream).microseconds_since(start) == pytest.approx(2 * (us(8) + us(6)), rel=1e-6)
        assert [record.captured for record in driver.records(Launch)] == [False, True, True]
        graph.destroy()
        fails("INVALID_VALUE", graph.launch, stream)
        fails("INVALID_VALUE", graph.destroy)


@in_child
def test_a_graph_is_updated_to_launches_of_the_same_kernels(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        stream, kernel = driver.create_context().create_stream(), kernel_of(driver, cubin)
        launch(driver, kernel, stream)
        graph = stream.graph_of(lambda: launch(driver, kernel, stream))

        def update(launches: int) -> None:
            def enqueue() -> None:
                for _ in range(launches):
                    launch(driver, kernel, stream, grid=(8, 1, 1))

            stream.update(graph, enqueue)

        update(1)
        fails("GRAPH_EXEC_UPDATE_FAILURE", update, 2)
        start = recorded(driver, stream)
        graph.launch(stream)
        assert recorded(driver, stream).microseconds_since(start) == pytest.approx(us(8), rel=1e-6)
        graph.destroy()
        fails("INVALID_VALUE", update, 1)


@in_child
def test_a_capture_that_fails_leaves_no_graph_and_the_stream_as_it_was(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        stream, kernel = driver.create_context().create_stream(), kernel_of(driver, cubin)

        def broken() -> None:
            raise ZeroDivisionError

        fails("STREAM_CAPTURE_UNSUPPORTED", stream.graph_of, stream.synchronize)
        with pytest.raises(ZeroDivisionError):
            stream.graph_of(broken)
        assert stream.capture_status() == "none"
        launch(driver, kernel, stream)


@in_child
def test_moments_that_have_not_come_are_refused() -> None:
    with FakeDriver([86]) as driver:
        context = driver.create_context()
        stream = context.create_stream()
        now, never = recorded(driver, stream), driver.create_event()
        fails("INVALID_HANDLE", now.microseconds_since, never)
        fails("INVALID_HANDLE", never.microseconds_since, now)
        now.destroy()
        fails("INVALID_HANDLE", now.destroy)
        fails("INVALID_HANDLE", now.record, stream)
        fails("INVALID_HANDLE", never.microseconds_since, now)
        with driver.create_context():
            fails("INVALID_HANDLE", driver.create_event().record, stream)  # of another context
        fails("INVALID_VALUE", driver.call, "cuEventCreate", ctypes.byref(ctypes.c_void_p()), 2)


@in_child
def test_memory_is_copied_and_written_by_streams() -> None:
    with FakeDriver([86]) as driver:
        stream = driver.create_context().create_stream()
        memory = driver.allocate(1 << 10)
        driver.copy_to_device(memory, bytes(range(16)))
        stream.copy(memory + 20, memory + 4, 8)
        assert driver.copy_to_host(memory + 20, 8) == bytes(range(4, 12))
        stream.fill(memory + 22, 3)
        assert driver.copy_to_host(memory + 20, 8) == bytes([4, 5, 0, 0, 0, 9, 10, 11])
        fails("INVALID_VALUE", stream.fill, memory + 1020, 5)
        fails("INVALID_VALUE", stream.copy, memory, memory + 1020, 5)
        fails("INVALID_VALUE", stream.copy, memory + 1020, memory, 5)


@in_child
def test_a_device_is_described() -> None:
    with FakeDriver([86, 120]) as driver:
        driver.create_context(1)
        device = driver.current_device()
        assert (device.name, device.sm, device.l2) == ("fake device of sm_120", 120, 1 << 18)
        before = driver.free_memory()
        driver.allocate(1 << 20)
        assert driver.free_memory() == before - (1 << 20)
        assert driver.driver_version()
