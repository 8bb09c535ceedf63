"""Several contexts, devices and threads: each gets its own code and memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from testing.child import in_child

from hatch_tensoracle.testing import DevicePointer, PluginFailedError
from hatch_tensoracle.testing.records import Allocation, Call, Free, FunctionLoad, LibraryLoad
from launcher.launching import Session, X, argument, session

GIVEN = ["null", "null", argument("i32", 16), argument("i64", 1)]


def on_threads(count: int, work: Callable[[int], object]) -> None:
    """Let threads begin together, and fail with the first that fails."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001 - it is for the main thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@in_child
def test_each_device_gets_its_own_code(library: Path) -> None:
    with session(library, [86, 90, 120]) as at:
        contexts = [at.driver.create_context(device) for device in (0, 1, 2)]
        for context in (*contexts, *reversed(contexts)):
            context.make_current()
            at.launch("tiled", GIVEN)
        digests = [launch.sha256 for launch in at.driver.launches]
        assert len(set(digests)) == 3
        assert digests == digests[::-1]
        loads = {load.sha256: load.sm for load in at.driver.records(LibraryLoad)}
        assert [loads[digest] for digest in digests[:3]] == [86, 90, 120]
        assert len(loads) == 6  # both variants for each device, and nothing for a device before it is used


@in_child
def test_code_is_loaded_once_for_all_contexts_of_a_device_and_made_ready_in_each(library: Path) -> None:
    with session(library) as at:
        contexts = [at.driver.create_context() for _ in range(4)]
        for context in contexts:
            context.make_current()
            stream = context.create_stream()
            running = at.make(kernel="only_aligned", arguments=" ".join(GIVEN))
            with stream.capture("global"):  # the first launch in each
                at.enqueue(running, stream=stream)
        assert [launch.owner for launch in at.driver.launches] == [context.handle for context in contexts]
        assert len(at.driver.records(LibraryLoad)) == 1
        assert len(at.driver.records(FunctionLoad)) == 4


@in_child
def test_execution_follows_its_stream_whatever_context_is_current(library: Path) -> None:
    with session(library, [86, 90]) as at:
        own = at.driver.create_context(1)
        stream = own.create_stream()
        running = at.make(kernel="tiled", arguments=" ".join(GIVEN))
        at.enqueue(running, stream=stream)
        other = at.driver.create_context(0)
        other.make_current()
        at.enqueue(running, stream=stream)
        first, second = at.driver.launches
        assert (first.owner, first.sha256) == (second.owner, second.sha256) == (own.handle, first.sha256)


@in_child
def test_execution_context_that_moves_to_another_context_is_prepared_again_by_a_new_shape(library: Path) -> None:
    with session(library, [86, 90]) as at:
        running = at.make("Tuned")
        at.enqueue(running, elements=64)
        context = at.driver.create_context(1)
        at.enqueue(running, elements=128)
        first, second = at.driver.launches
        assert first.sha256 != second.sha256
        assert second.owner == context.handle


@in_child
def test_threads_may_prepare_and_launch_at_once(library: Path) -> None:
    with session(library, [86, 90, 120]) as at:
        contexts = [at.driver.create_context(device) for device in (0, 1, 2, 0, 1, 2)]
        at.driver.clear()

        def work(number: int) -> None:
            contexts[number].make_current()
            stream = contexts[number].create_stream()
            here = Session(at.driver, at.harness)
            for i in range(20):
                here.launch("guarded", GIVEN, stream=stream)
                here.launch("tiled", GIVEN, stream=stream, configuration=i % 3)
                tuned, weights = here.make("Tuned"), here.make("Weights", weights=[1.0] * 64)
                here.enqueue(tuned, stream=stream, elements=64 << i % 8)
                here.enqueue(weights, stream=stream)
                weights.close()

        on_threads(6, work)
        loads = [load.sha256 for load in at.driver.records(LibraryLoad)]
        assert len(loads) == 3 * (3 + 6)
        sms = {86: set[str](), 90: set[str](), 120: set[str]()}
        for load in at.driver.records(LibraryLoad):
            sms[load.sm].add(load.sha256)
        for context, device in zip(contexts, (86, 90, 120) * 2, strict=True):
            launches = [launch for launch in at.driver.launches if launch.owner == context.handle]
            assert len(launches) == 60
            assert {launch.sha256 for launch in launches} <= sms[device]
        assert not [message for message in at.harness.messages if message.severity != "INFO"]


@in_child
def test_one_creator_serves_every_thread(library: Path) -> None:
    with session(library) as at:
        names = [creator.fields for creator in at.harness.creators]

        def work(_: int) -> None:
            for _ in range(50):
                at.harness.create("EveryField", {"required": 1}).close()
                again = type(at.harness)(library)
                assert [creator.fields for creator in again.creators] == names

        on_threads(4, work)


@in_child
def test_plugin_outlives_its_context(library: Path) -> None:
    with session(library) as at:
        context = at.driver.create_context()
        weights, tuned = at.make("Weights", weights=[1.0]), at.make("Tuned")
        at.enqueue(tuned)
        context.destroy()
        other = at.driver.create_context()
        weights.close()
        # NVIDIA's driver reads freed memory where this one answers with an error.
        assert not [call for call in at.driver.records(Call) if call.result == "CUDA_ERROR_CONTEXT_IS_DESTROYED"]
        at.enqueue(tuned, elements=128)
        assert at.driver.launches[-1].owner == other.handle
        tuned.close()
        assert not [message for message in at.harness.messages if message.severity != "INFO"]


@in_child
def test_memory_is_freed_in_its_own_context(library: Path) -> None:
    with session(library, [86, 90]) as at:
        contexts = [at.driver.create_context(device) for device in (0, 1)]
        running = []
        at.driver.clear()
        for context in contexts:
            context.make_current()
            running.append(at.make("Weights", weights=[1.0, 2.0, 3.0]))
        allocations, moved = at.driver.records(Allocation), at.driver.records(Free)
        assert [each.context for each in allocations] == [context.handle for context in contexts for _ in range(2)]
        assert len(moved) == 2
        at.driver.clear()
        running[0].close()  # while the second's context is current
        on_threads(1, lambda _: running[1].close())  # where none is
        assert [free.owner for free in at.driver.records(Free)] == [context.handle for context in contexts]
        current = at.driver.current_context()
        assert current is not None
        assert current.handle == contexts[1].handle


@in_child
def test_copies_of_a_buffer_are_empty_and_a_moved_one_is_whole(library: Path) -> None:
    with session(library) as at:
        running = at.make("Weights", weights=[1.0, 2.0, 3.0])
        at.enqueue(running)
        again = at.make("Weights", weights=[])
        at.enqueue(again)
        assert at.told("copied buffer has ") == ["0 bytes", "0 bytes"]
        first, second = at.told("weights of ")
        address = int(first.removeprefix("12 bytes at "))
        assert at.driver.copy_to_host(address, 12) == b"".join([b"\0\0\x80\x3f", b"\0\0\0\x40", b"\0\0\x40\x40"])
        assert second == "0 bytes at 0"


@in_child
def test_attachments_of_one_engine_have_memory_of_their_own(library: Path) -> None:
    with session(library) as at:
        built = at.harness.create("Weights", {"weights": [1.0]}).build([X])
        at.driver.clear()
        running = [built.run_time() for _ in range(3)]
        for each in running:
            at.enqueue(each)
        assert len(set(at.told("weights of "))) == 3
        for each in running:
            each.close()
        allocated = [allocation.address for allocation in at.driver.records(Allocation)]
        assert sorted(allocated) == sorted(free.address for free in at.driver.records(Free))


@in_child
def test_memory_of_a_plugin_whose_attachment_fails_is_freed(library: Path) -> None:
    with session(library) as at:
        with pytest.raises(PluginFailedError, match="Weights: attachToContext: attached, and failed afterwards"):
            at.make("Weights", weights=[1.0], afterwards_fail=1)
        names = [call.name for call in at.driver.records(Call)]
        assert names.count("cuMemFree") == 2
        pointer = DevicePointer(at.memory, (64,), "fp32")
        at.make("Weights", weights=[1.0]).enqueue([pointer], [pointer])
