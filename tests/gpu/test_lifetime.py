"""Threads, contexts, destruction in every order, the end of the process, and ten thousand executions."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest
from testing.child import in_child

from gpu.counting import CountingDriver
from gpu.work import KINDS, Execution, Session, session

PAGE = 4096
OWNED = ("plugin", "stream", "context", "harness")
left_alive: list[object] = []
"""What the interpreter finds at its exit."""


@in_child
def test_eight_threads_with_a_stream_each(library: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            at.context.make_current()
            stream = at.context.create_stream()
            kind = KINDS[number % len(KINDS)]
            shape = (33 + number, 700 + number) if kind.startswith("norm") else (65 + number, 40 + number, 90 + number)
            execution = Execution(at, kind, shape)
            together.wait()  # first uses, which load kernels, meet
            for seed in range(5):
                execution.fill(10 * seed)
                for i in range(100):
                    execution.enqueue(stream, rows=1 + i % shape[0])
                execution.enqueue(stream)
                stream.synchronize()
                execution.check()
            execution.running.close()
        except BaseException as error:  # noqa: BLE001 - it is for the main thread
            failures.append(error)
            together.abort()

    together = threading.Barrier(8)
    with session(library) as at:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


@in_child
def test_two_contexts_of_a_device_have_plugins_of_their_own(library: Path) -> None:
    with session(library) as at:
        places = [at.context, at.cuda.create_context()]
        executions = []
        for context in places:
            context.make_current()
            executions.append([Execution(at, kind, (40, 72, 56)) for kind in KINDS])
        for seed in (3, 9):
            for context, own in zip(places, executions, strict=True):
                with context:
                    run_and_check(at, own, seed)
        places[0].destroy()
        places[1].make_current()
        run_and_check(at, executions[1], 15)
        for execution in itertools.chain(*executions):
            execution.running.close()


@pytest.mark.parametrize("order", [*itertools.permutations(OWNED)], ids=" ".join)
@in_child
def test_destruction_in_any_order(library: Path, order: tuple[str, ...]) -> None:
    """While work is under way. A stream goes with its context: its handle is dead after that."""
    with session(library) as at:
        executions = [Execution(at, kind, (300, 200, 100)) for kind in KINDS]
        stream = at.context.create_stream()
        for execution in executions:
            execution.enqueue(stream)
        for what in order:
            if what == "plugin":
                for execution in executions:
                    execution.running.close()
            elif what == "context":
                at.context.destroy()
            elif what == "harness":
                at.harness.__exit__(None, None, None)
            elif order.index("stream") < order.index("context"):  # the driver must not be asked of a dead context
                stream.destroy()
        at.cuda.create_context()
        run_and_check(at, [Execution(at, kind, (3, 20, 100)) for kind in KINDS], 5)


@pytest.mark.parametrize("how", ["idle", "busy"])
@in_child
def test_interpreter_exits_with_plugins_alive(library: Path, how: str) -> None:
    with session(library) as at:
        left_alive.append(at)
        executions = [Execution(at, kind, (300, 200, 100)) for kind in KINDS]
        run_and_check(at, executions, 5)
        stream = at.context.create_stream()
        for execution in executions if how == "busy" else ():
            execution.enqueue(stream)
        left_alive.extend([executions, stream])
        at.harness._plugins.clear()  # noqa: SLF001 - which leaving the session would destroy


@in_child
def test_nothing_grows_over_ten_thousand_alternating_shapes(library: Path, counting_driver: tuple[Path, str]) -> None:
    """Code is counted by the calls that load it, which pass through a library before the driver."""
    driver = CountingDriver(*counting_driver)
    with session(library) as at:
        executions = [
            *(Execution(at, kind, (64, 1040)) for kind in KINDS[:2]),
            *(Execution(at, kind, (130, 96, 80), tactic=tactic) for kind in KINDS[2:] for tactic in (1, 2, 7)),
        ]
        stream = at.context.create_stream()

        def alternate(times: int) -> tuple[int, int]:
            for i in range(times):
                execution = executions[i % len(executions)]
                execution.enqueue(stream, rows=1 + 7 * i % execution.shape[0])
            stream.synchronize()
            resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE
            return at.free_memory(), resident

        alternate(1000)  # every shape and configuration has been seen
        loaded = driver.calls()
        free, resident = alternate(100)
        free_after, resident_after = alternate(10_000)
        made = driver.calls() - loaded
        assert loaded["cuLibraryLoadData"] > 0
        assert not made.keys() & {"cuLibraryLoadData", "cuMemAlloc_v2", "cuKernelSetAttribute", "cuStreamCreate"}
        assert made["cuLaunchKernel"] == 10_100
        assert free_after == free
        assert resident_after - resident < 4 << 20, "bytes"  # what the harness keeps of messages is less
        for execution in executions:
            execution.fill(3)
            execution.enqueue(stream)
            stream.synchronize()
            execution.check()


def run_and_check(at: Session, executions: list[Execution], seed: int) -> None:
    """Execute each on a new stream of the current context, on new numbers."""
    context = at.cuda.current_context()
    assert context is not None
    stream = context.create_stream()
    for execution in executions:
        execution.fill(seed)
        execution.enqueue(stream)
    stream.synchronize()
    for execution in executions:
        execution.check()
    stream.destroy()
