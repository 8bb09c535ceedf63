"""A plugin's first execution can be captured, and an execution calls cuLaunchKernel and nothing else."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import get_args

import pytest
from testing.child import in_child

from hatch_tensoracle.testing.cuda import CaptureMode
from hatch_tensoracle.testing.records import Call, CaptureModeExchange, Free
from launcher.launching import argument, session

GIVEN = f"in out {argument('i32', 64)} {argument('i64', 1)}"


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("mode", get_args(CaptureMode))
@in_child
def test_first_execution_can_be_captured(library: Path, mode: CaptureMode, *, blocking: bool) -> None:
    with session(library) as at:
        context = at.driver.current_context()
        assert context is not None
        stream = context.create_stream(blocking=blocking)
        running = at.make("Weights", weights=[1.0]), at.make(kernel="guarded", arguments=GIVEN), at.make("Tuned")
        with stream.capture(mode):
            for each in running:
                at.enqueue(each, stream=stream)
            assert stream.capture_status() == "active"
        assert [launch.captured for launch in at.driver.launches] == [True, True]
        # The thread's own mode is what it was.
        exchanges = at.driver.records(CaptureModeExchange)
        assert exchanges[-1].mode == 0
        assert len(exchanges) % 2 == 0


@pytest.mark.parametrize("mode", get_args(CaptureMode))
@in_child
def test_plugin_can_be_attached_and_destroyed_while_a_stream_is_captured(library: Path, mode: CaptureMode) -> None:
    with session(library) as at:
        context = at.driver.current_context()
        assert context is not None
        stream = context.create_stream()
        with stream.capture(mode):
            running = at.make("Weights", weights=[1.0])
            at.enqueue(running, stream=stream)
            running.close()
            at.launch("shared", ["null"] * 3, stream=stream)
        assert [free.size for free in at.driver.records(Free)] == [4, 4]
        assert not [message for message in at.harness.messages if message.severity != "INFO"]


@in_child
def test_plugin_is_prepared_on_a_thread_while_another_captures(library: Path) -> None:
    errors: list[BaseException] = []

    def prepare() -> None:
        try:
            context.make_current()
            at.launch("tiled", ["null", "null", argument("i32", 7), argument("i64", 1)])
            at.make("Weights", weights=[1.0]).close()
        except BaseException as error:  # noqa: BLE001 - it is for the other thread
            errors.append(error)

    with session(library) as at:
        found = at.driver.current_context()
        assert found is not None
        context = found
        with context.create_stream().capture("global"):
            thread = threading.Thread(target=prepare)
            thread.start()
            thread.join()
        assert not errors


@in_child
def test_execution_calls_nothing_but_the_launch(library: Path) -> None:
    with session(library) as at:
        plugins = [
            at.make("Tuned"),
            at.make(kernel="shared", arguments="null null null"),
            at.make("Weights", weights=[1.0]),
        ]
        plugins.append(at.make(kernel="guarded", arguments=GIVEN, how="together"))
        for running in plugins:
            at.enqueue(running)
        at.driver.clear()
        for _ in range(3):
            for running in plugins:
                at.enqueue(running)
        assert [call.name for call in at.driver.records(Call)] == ["cuLaunchKernel"] * 9


@in_child
def test_shapes_that_change_under_capture_do_not_break_it(library: Path) -> None:
    with session(library) as at:
        context = at.driver.current_context()
        assert context is not None
        stream = context.create_stream()
        running = at.make("Tuned")
        with stream.capture("global"):
            for elements in (64, 4096, 64, 1024):
                at.enqueue(running, elements=elements, stream=stream)
        assert len(at.driver.launches) == 4
