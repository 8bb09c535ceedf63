"""TensorRT's callbacks are answered from any thread, and never raise into TensorRT."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from hatch_tensoracle.runtime.progress import watched


class IProgressMonitor:
    """TensorRT's base class."""


class ILogger:
    """TensorRT's base class."""


class Config:
    """Of a binding whose module is called `tensorrt`."""

    __module__ = "bindings.tensorrt"
    progress_monitor: Any = None


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tensorrt")
    vars(module).update(IProgressMonitor=IProgressMonitor, ILogger=ILogger, __version__="11.0")
    monkeypatch.setitem(sys.modules, "tensorrt", module)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is handled as by a plain Python program, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_build_goes_on_while_nobody_cancels() -> None:
    config = Config()
    with watched(config, show=False):
        monitor = config.progress_monitor
        monitor.phase_start("Building engine", None, 2)
        assert monitor.step_complete("Building engine", 0) is True
        monitor.phase_finish("Building engine")
    assert config.progress_monitor is None


def test_phases_are_shown_with_their_steps(capsys: pytest.CaptureFixture[str]) -> None:
    config = Config()
    with watched(config, show=True):
        monitor = config.progress_monitor
        monitor.phase_start("Building engine", None, 2)
        monitor.phase_start("Timing tactics", "Building engine", 3)
        assert monitor.step_complete("Timing tactics", 0) is True
        assert monitor.step_complete("a phase that never started", 0) is True
        monitor.phase_finish("a phase that never started")
    assert "Building engine" in capsys.readouterr().err


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    config = Config()
    with watched(config):
        config.progress_monitor.phase_start("Building engine", None, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_at_the_next_step_and_is_raised_after_the_build() -> None:
    config, steps = Config(), []

    def build() -> None:
        with watched(config, show=False):
            steps.append(config.progress_monitor.step_complete("Building engine", 0))
            signal.raise_signal(signal.SIGINT)
            steps.append(config.progress_monitor.step_complete("Building engine", 1))

    with pytest.raises(KeyboardInterrupt):
        build()
    assert steps == [True, False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interruptible")
def test_a_handler_of_the_programs_own_is_left() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    config = Config()
    with watched(config, show=False):
        signal.raise_signal(signal.SIGINT)
        assert config.progress_monitor.step_complete("Building engine", 0) is True
    assert seen == [signal.SIGINT]


def test_a_build_in_another_thread_is_watched_too() -> None:
    config, outcome = Config(), []

    def build() -> None:
        with watched(config, show=False):
            outcome.append(config.progress_monitor.step_complete("Building engine", 0))

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    assert outcome == [True]


def test_a_display_that_fails_stops_the_build_and_is_raised_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.progress import Progress

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError("the terminal is gone")

    config, steps = Config(), []

    def build() -> None:
        with watched(config, show=True):
            config.progress_monitor.phase_start("Building engine", None, 2)
            steps.append(config.progress_monitor.step_complete("Building engine", 0))

    monkeypatch.setattr(Progress, "add_task", fail)
    with pytest.raises(OSError, match="the terminal is gone"):
        build()
    assert steps == [False]


def test_what_the_build_raises_reaches_the_caller() -> None:
    config = Config()
    with pytest.raises(ZeroDivisionError), watched(config, show=False):
        raise ZeroDivisionError
    assert config.progress_monitor is None
