"""The runtime's CUDA graphs with plugins in place of engines: captured, replayed, updated, evicted, on threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from testing.child import in_child

from gpu.test_capture import closed_gate
from gpu.work import KINDS, Execution, session
from hatch_tensoracle.runtime.cuda_graph import CudaGraph
from hatch_tensoracle.runtime.graph_pool import GraphPool
from hatch_tensoracle.testing import DevicePointer

SHAPES = {"norm": (9, 1025), "matmul": (70, 96, 144)}
MEBIBYTE = 1 << 20


class PluginWork:
    """A plugin with shapes of its own, executed at the addresses that are given."""

    size = 0

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    def refusal(self, stream: int) -> None:
        """It can be captured."""

    def enqueue(self, addresses: Mapping[str, int], stream: int) -> None:
        """Enqueue it."""
        pointers = self.execution.inputs + self.execution.outputs
        given = [DevicePointer(addresses[str(index)], each.shape, each.type) for index, each in enumerate(pointers)]
        count = len(self.execution.inputs)
        self.execution.running.enqueue(given[:count], given[count:], stream)

    def close(self) -> None:
        """Nothing is its own."""


def shape_of(kind: str) -> tuple[int, ...]:
    return SHAPES[kind.split(maxsplit=1)[0]]


def addresses(execution: Execution) -> dict[str, int]:
    """Where its buffers are."""
    return {str(index): each.address for index, each in enumerate(execution.inputs + execution.outputs)}


def run(pool: GraphPool[object, PluginWork], key: object, execution: Execution, stream: int) -> None:
    """Execute once by graph."""
    pool.enqueue(key, addresses(execution), stream, lambda: PluginWork(execution))


@pytest.mark.parametrize("kind", KINDS)
@in_child
def test_a_graph_is_right_on_new_numbers_and_at_new_addresses(library: Path, kind: str) -> None:
    with session(library) as at:
        execution, stream = Execution(at, kind, shape_of(kind)), at.context.create_stream()
        pool: GraphPool[object, PluginWork] = GraphPool(2)
        for seed in (1, 20, 30):
            execution.fill(seed)
            run(pool, kind, execution, stream.handle)
            stream.synchronize()
            execution.check()
        assert (pool.statistics.captures, pool.statistics.replays) == (1, 2)
        for seed in (40, 50):
            before, outputs = execution.values, execution.outputs
            execution.allocate()  # the old memory is not freed
            execution.fill(seed)
            run(pool, kind, execution, stream.handle)
            stream.synchronize()
            execution.check()
            execution.outputs, after = outputs, (execution.outputs, execution.values)
            execution.values = before
            execution.check()  # what the last graph wrote is there
            execution.outputs, execution.values = after
        found = pool.statistics
        assert (found.captures, found.replays, found.updates, found.eager) == (1, 4, 2, 1)
        pool.clear()


@in_child
def test_an_update_leaves_launches_alone_that_are_under_way(library: Path) -> None:
    with session(library) as at:
        execution, stream = Execution(at, KINDS[0], shape_of(KINDS[0])), at.context.create_stream()
        pool: GraphPool[object, PluginWork] = GraphPool(1)
        run(pool, 0, execution, stream.handle)
        stream.synchronize()
        execution.fill(7)
        with closed_gate(at.cuda, stream):
            run(pool, 0, execution, stream.handle)
            former = execution.values, execution.outputs
            execution.allocate()
            run(pool, 0, execution, stream.handle)
        stream.synchronize()
        execution.check()
        execution.values, execution.outputs = former
        execution.check()
        found = pool.statistics
        assert (found.captures, found.updates, found.replays) == (1, 1, 2)
        pool.clear()


@in_child
def test_the_first_use_of_a_plugin_may_be_the_capture(library: Path) -> None:
    with session(library) as at:
        execution, stream = Execution(at, KINDS[0], shape_of(KINDS[0])), at.context.create_stream()
        graph = CudaGraph.capture(stream.handle, lambda: execution.enqueue(stream))
        execution.fill(3)
        graph.launch(stream.handle)
        graph.close()  # while it executes
        stream.synchronize()
        execution.check()


@in_child
def test_more_launches_than_before_are_another_graph(library: Path) -> None:
    with session(library) as at:
        one, other = (Execution(at, kind, shape_of(kind)) for kind in (KINDS[0], KINDS[2]))
        stream = at.context.create_stream()

        def both() -> None:
            one.enqueue(stream)
            other.enqueue(stream)

        graph = CudaGraph.capture(stream.handle, lambda: one.enqueue(stream))
        assert not graph.update(stream.handle, both)
        assert graph.update(stream.handle, both)
        graph.launch(stream.handle)
        stream.synchronize()
        one.check()
        other.check()
        graph.close()


@in_child
def test_shapes_in_turn_are_right_with_fewer_graphs_than_shapes(library: Path) -> None:
    with session(library) as at:
        kind, stream = KINDS[0], at.context.create_stream()
        executions = [Execution(at, kind, (rows, 1024)) for rows in (1, 7, 64)]
        pool: GraphPool[object, PluginWork] = GraphPool(2)
        for number, key in enumerate((0, 1, 0, 2, 0, 1, 2, 2, 1)):
            executions[key].fill(100 * number)
            run(pool, key, executions[key], stream.handle)
            stream.synchronize()
            executions[key].check()
        found = pool.statistics
        assert (found.graphs, found.evictions) == (2, 3)
        assert found.captures + found.replays == 9
        pool.clear()


@in_child
def test_graphs_that_come_and_go_keep_no_memory(library: Path) -> None:
    with session(library) as at:
        stream = at.context.create_stream()
        executions = [Execution(at, KINDS[0], (rows, 1024)) for rows in (1, 2)]
        pool: GraphPool[object, PluginWork] = GraphPool(1)

        def alternate(times: int) -> int:
            for number in range(times):
                run(pool, number % 2, executions[number % 2], stream.handle)
            stream.synchronize()
            return at.free_memory()

        before = alternate(20)
        assert alternate(500) >= before - 2 * MEBIBYTE
        assert pool.statistics.captures == 520
        pool.clear()


@in_child
def test_threads_have_graphs_of_their_own_and_disturb_none(library: Path) -> None:
    with session(library) as at:
        errors: list[BaseException] = []
        is_over = threading.Event()

        def work(number: int) -> None:
            try:
                at.context.make_current()
                stream = at.context.create_stream()
                pool: GraphPool[object, PluginWork] = GraphPool(2)
                kind = KINDS[number % len(KINDS)]
                execution = Execution(at, kind, shape_of(kind))
                for seed in range(20):
                    if seed % 4 == 3:
                        execution.allocate()  # the graph is updated
                    execution.fill(seed + 100 * number)
                    run(pool, kind, execution, stream.handle)
                    stream.synchronize()
                    execution.check()
                assert pool.statistics.updates == 5
                pool.clear()
            except BaseException as error:  # noqa: BLE001 - shown by the main thread
                errors.append(error)

        def disturb() -> None:
            at.context.make_current()
            while not is_over.is_set():
                at.cuda.free(at.cuda.allocate(MEBIBYTE))  # breaks a capture in global mode

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        disturbing = threading.Thread(target=disturb)
        for thread in (disturbing, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        is_over.set()
        disturbing.join()
        assert errors == []
