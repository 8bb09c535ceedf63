"""CUDA graphs and pools of them, on the fake driver: which calls they make of it, and what they do when it fails.

`tests/gpu/test_cuda_graphs.py` has the same on a GPU, with numbers. Each runs in a process that has that driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest
from testing.child import in_child
from testing.test_fake_driver import load, made

from hatch_tensoracle.runtime.cuda_graph import CudaGraph
from hatch_tensoracle.runtime.errors import ExecutionError
from hatch_tensoracle.runtime.graph_pool import GraphPool
from hatch_tensoracle.testing import CudaError, FakeDriver, Stream
from hatch_tensoracle.testing.records import Call, CaptureBegin

THREAD_LOCAL = 1


class Kernels:
    """A driver with one stream, and launches on it."""

    def __init__(self, driver: FakeDriver, cubin: bytes) -> None:
        self.driver, self.context = driver, driver.create_context()
        self.stream: Stream = self.context.create_stream()
        self._kernel = made(driver, "cuLibraryGetKernel", load(driver, cubin), b"copy")
        self.launch(0)  # loads it
        driver.clear()

    def launch(self, address: int, stream: Stream | None = None, *, count: int = 1) -> None:
        """Enqueue it, with arguments that are all the address."""
        value = ctypes.c_uint64(address)
        addresses = (ctypes.c_void_p * 5)(*[ctypes.addressof(value)] * 5)
        numbers = [ctypes.c_uint(number) for number in (1, 1, 1, 128, 1, 1, 0)]
        for _ in range(count):
            handle = ctypes.c_void_p((stream or self.stream).handle)
            self.driver.call("cuLaunchKernel", self._kernel, *numbers, handle, addresses, None)

    def calls(self) -> list[str]:
        """What was called since the last time, but for questions."""
        names = [call.name for call in self.driver.records(Call)]
        self.driver.clear()
        return [name for name in names if name not in {"cuInit", "cuMemGetInfo", "cuGetErrorName"}]


class Launches:
    """A work that is one launch."""

    size = 100

    def __init__(self, kernels: Kernels, refusal: str | None = None) -> None:
        self._kernels, self._refusal = kernels, refusal
        self.is_closed = False

    def refusal(self, stream: int) -> str | None:
        """As it was made."""
        assert stream == self._kernels.stream.handle
        return self._refusal

    def enqueue(self, addresses: Mapping[str, int], stream: int) -> None:
        """Launch."""
        assert stream == self._kernels.stream.handle
        self._kernels.launch(addresses["x"])

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


CAPTURE = ["cuStreamBeginCapture", "cuLaunchKernel", "cuStreamEndCapture"]
INSTANTIATE = ["cuGraphInstantiateWithFlags", "cuGraphDestroy"]


@in_child
def test_a_graph_is_captured_launched_updated_and_closed(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        handle = at.stream.handle
        graph = CudaGraph.capture(handle, lambda: at.launch(256))
        assert [call.mode for call in driver.records(CaptureBegin)] == [THREAD_LOCAL]
        assert at.calls() == [*CAPTURE, *INSTANTIATE]
        for _ in range(3):
            graph.launch(handle)
        assert at.calls() == ["cuGraphLaunch"] * 3
        assert graph.update(handle, lambda: at.launch(512))
        assert at.calls() == [*CAPTURE, "cuGraphExecUpdate", "cuGraphDestroy"]
        graph.launch(handle)
        at.calls()
        graph.close()
        graph.close()
        assert at.calls() == ["cuGraphExecDestroy"]


@in_child
def test_a_graph_of_another_shape_is_made_anew(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        graph = CudaGraph.capture(at.stream.handle, lambda: at.launch(256))
        at.calls()
        assert not graph.update(at.stream.handle, lambda: at.launch(256, count=2))
        assert at.calls()[4:] == [
            *("cuGraphExecUpdate", "cuGraphInstantiateWithFlags", "cuGraphExecDestroy", "cuGraphDestroy"),
        ]
        graph.launch(at.stream.handle)


@in_child
def test_what_fails_leaves_no_capture_and_no_graph_behind(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        handle = at.stream.handle

        def wrong() -> None:
            at.launch(256)
            raise KeyError("mine")

        def breaking() -> None:
            with contextlib.suppress(CudaError):
                driver.synchronize(handle)

        with pytest.raises(KeyError, match="mine"):
            CudaGraph.capture(handle, wrong)
        assert at.calls() == [*CAPTURE, "cuGraphDestroy"]
        with pytest.raises(ExecutionError, match=r"cannot be captured: cuStreamEndCapture fails with .*INVALIDATED"):
            CudaGraph.capture(handle, breaking)
        assert at.stream.capture_status() == "none"
        for call, failure in (
            ("cuStreamBeginCapture", "the stream cannot be captured: cuStreamBeginCapture fails with"),
            ("cuGraphInstantiateWithFlags", "the graph cannot be instantiated: cuGraphInstantiateWithFlags fails with"),
        ):
            driver.fail(call, "CUDA_ERROR_OUT_OF_MEMORY")
            with pytest.raises(ExecutionError, match=f"{failure} CUDA_ERROR_OUT_OF_MEMORY"):
                CudaGraph.capture(handle, lambda: at.launch(256))
            assert at.stream.capture_status() == "none"
        graph = CudaGraph.capture(handle, lambda: at.launch(256))
        driver.fail("cuGraphExecUpdate", "CUDA_ERROR_OUT_OF_MEMORY")
        with pytest.raises(ExecutionError, match=r"the graph cannot be updated: cuGraphExecUpdate fails with .*MEMORY"):
            graph.update(handle, lambda: at.launch(512))
        graph.launch(handle)  # it is as it was
        driver.fail("cuGraphLaunch", "CUDA_ERROR_ILLEGAL_ADDRESS")
        with pytest.raises(ExecutionError, match=r"cannot be launched: cuGraphLaunch fails with .*ILLEGAL_ADDRESS"):
            graph.launch(handle)
        with pytest.raises(ExecutionError, match="the stream cannot be captured"):
            CudaGraph.capture(0, lambda: at.launch(256))


@in_child
def test_each_call_of_a_pool_executes_once(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        pool: GraphPool[str, Launches] = GraphPool(2)

        def enqueue(key: str, address: int) -> list[str]:
            pool.enqueue(key, {"x": address}, at.stream.handle, lambda: Launches(at))
            return at.calls()

        assert enqueue("a", 256) == ["cuLaunchKernel", *CAPTURE, *INSTANTIATE]
        assert enqueue("a", 256) == ["cuGraphLaunch"]
        assert enqueue("b", 256) == ["cuLaunchKernel", *CAPTURE, *INSTANTIATE]
        assert enqueue("a", 512) == [*CAPTURE, "cuGraphExecUpdate", "cuGraphDestroy", "cuGraphLaunch"]
        assert enqueue("a", 512) == ["cuGraphLaunch"]
        assert enqueue("b", 256) == ["cuGraphLaunch"]
        found = pool.statistics
        assert (found.captures, found.replays, found.updates, found.eager, found.graphs) == (2, 4, 1, 2, 2)
        assert found.bytes == 2 * Launches.size


@in_child
def test_the_graph_that_was_not_used_for_longest_goes(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        works: dict[str, Launches] = {}
        pool: GraphPool[str, Launches] = GraphPool(2)

        def enqueue(key: str) -> list[str]:
            pool.enqueue(key, {"x": 256}, at.stream.handle, lambda: works.setdefault(key, Launches(at)))
            return at.calls()

        for key in ("a", "b", "a"):
            enqueue(key)
        assert enqueue("c")[:2] == ["cuStreamSynchronize", "cuGraphExecDestroy"]  # its work is complete
        assert {key for key, work in works.items() if work.is_closed} == {"b"}
        assert set(pool.keys()) == {"a", "c"}
        assert enqueue("a") == ["cuGraphLaunch"]
        assert pool.statistics.evictions == 1
        pool.clear()
        assert at.calls() == ["cuGraphExecDestroy"] * 2
        assert all(work.is_closed for work in works.values())


@in_child
def test_a_graph_ahead_of_time_is_executed_once_and_then_replayed(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        pool: GraphPool[str, Launches] = GraphPool(2)
        given: tuple[str, Mapping[str, int], int, Callable[[], Launches]]
        given = ("a", {"x": 256}, at.stream.handle, lambda: Launches(at))
        pool.capture(*given)
        assert at.calls() == ["cuLaunchKernel", *CAPTURE, *INSTANTIATE]
        pool.capture(*given)
        assert at.calls() == []
        pool.enqueue(*given)
        assert at.calls() == ["cuGraphLaunch"]
        pool.capture(given[0], {"x": 512}, *given[2:])
        assert at.calls() == [*CAPTURE, "cuGraphExecUpdate", "cuGraphDestroy"]


@in_child
def test_what_cannot_be_captured_is_refused_or_executed_as_it_is(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        refusing: GraphPool[str, Launches] = GraphPool(1)
        falling: GraphPool[str, Launches] = GraphPool(1, fallback=True)
        for _ in range(2):
            with pytest.raises(ExecutionError, match="no CUDA graph: not today"):
                refusing.enqueue("a", {"x": 256}, at.stream.handle, lambda: Launches(at, refusal="not today"))
            assert at.calls() == []
            falling.enqueue("a", {"x": 256}, at.stream.handle, lambda: Launches(at, refusal="not today"))
            assert at.calls() == ["cuLaunchKernel"]
        assert (falling.statistics.eager, falling.statistics.graphs) == (2, 0)


@in_child
def test_a_capture_that_breaks_is_an_error_or_the_end_of_graphs(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        pools: Sequence[GraphPool[str, Launches]] = [GraphPool(1), GraphPool(1, fallback=True)]

        def enqueue(pool: GraphPool[str, Launches], address: int) -> Counter[str]:
            pool.enqueue("a", {"x": address}, at.stream.handle, lambda: Launches(at))
            return Counter(at.calls())

        for pool in pools:
            driver.fail("cuGraphInstantiateWithFlags", "CUDA_ERROR_OUT_OF_MEMORY")
            if pool is pools[0]:
                with pytest.raises(ExecutionError, match=r"no CUDA graph: it was executed, and a capture .*OUT_OF_MEM"):
                    enqueue(pool, 256)
                at.calls()
                assert enqueue(pool, 256)["cuGraphInstantiateWithFlags"] == 1  # it is tried again
                driver.fail("cuGraphExecUpdate", "CUDA_ERROR_OUT_OF_MEMORY")
                with pytest.raises(ExecutionError, match="a capture of it with other addresses failed"):
                    enqueue(pool, 512)
                assert Counter(at.calls())["cuGraphLaunch"] == 0
            else:
                enqueue(pool, 256)
                assert enqueue(pool, 256) == {"cuLaunchKernel": 1}


@in_child
def test_threads_capture_at_once_and_what_others_do_breaks_nothing(cubin: bytes) -> None:
    with FakeDriver([86]) as driver:
        at = Kernels(driver, cubin)
        barrier, errors = threading.Barrier(5, timeout=120), list[BaseException]()

        def work() -> None:
            try:
                at.context.make_current()
                stream = at.context.create_stream()

                def enqueue() -> None:
                    at.launch(256, stream)
                    barrier.wait()  # all of them are capturing
                    barrier.wait()

                graph = CudaGraph.capture(stream.handle, enqueue)
                graph.launch(stream.handle)
                graph.close()
            except BaseException as error:  # noqa: BLE001 - shown by the main thread
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        barrier.wait()
        driver.free(driver.allocate(256))  # breaks captures in global mode
        barrier.wait()
        for thread in threads:
            thread.join()
        assert errors == []
        assert at.calls().count("cuGraphLaunch") == 4
