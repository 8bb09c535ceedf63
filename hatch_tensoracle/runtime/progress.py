"""Watches TensorRT build: shows how far it is, and lets Ctrl-C cancel it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from hatch_tensoracle._interrupts import interrupting
from hatch_tensoracle.runtime.distribution import distribution_of

__all__ = ["watched"]


@contextlib.contextmanager
def watched(config: Any, *, show: bool | None = None) -> Iterator[None]:
    """Have the build of an IBuilderConfig shown on stderr, or only if that is a terminal, and cancelled by Ctrl-C.

    Raises KeyboardInterrupt if it was. Where the program has a handler of its own for SIGINT, that one is left.
    """
    phases = _Phases()
    monitor = _monitor(distribution_of(config).module, phases)
    config.progress_monitor = monitor
    try:
        with phases.shown(show), interrupting(phases.cancel):
            yield
    finally:
        config.progress_monitor = None
    if phases.failure is not None:
        raise phases.failure


class _Phases:
    """The phases that TensorRT is in, from whichever thread it says so."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._is_cancelled = False
        self._display: Any = None
        self._tasks: dict[str, Any] = {}

    def cancel(self) -> None:
        """Have TensorRT stop at the next step."""
        self._is_cancelled = True

    @contextlib.contextmanager
    def shown(self, show: bool | None) -> Iterator[None]:  # noqa: FBT001 - of one call
        """Show them meanwhile."""
        if not (sys.stderr.isatty() if show is None else show):
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True) as self._display:
            yield
        self._display = None

    def start(self, phase: str, steps: int) -> None:
        """A phase begins."""
        if self._display is not None:
            self._tasks[phase] = self._display.add_task(phase, total=steps)

    def step(self, phase: str, step: int) -> bool:
        """A step is done; return whether to go on."""
        if self._display is not None and phase in self._tasks:
            self._display.update(self._tasks[phase], completed=step + 1)
        return not self._is_cancelled

    def finish(self, phase: str) -> None:
        """A phase is over."""
        if self._display is not None and phase in self._tasks:
            self._display.remove_task(self._tasks.pop(phase))


def _monitor(trt: Any, phases: _Phases) -> Any:
    def guarded(call: Callable[..., Any], *arguments: object) -> Any:
        # An exception would end the process: TensorRT's callbacks are noexcept.
        try:
            return call(*arguments)
        except Exception as error:  # noqa: BLE001 - raised again after the build
            phases.failure = phases.failure or error
            phases.cancel()
            return False

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, _parent_phase: str | None, num_steps: int) -> None:
            guarded(phases.start, phase_name, num_steps)

        def phase_finish(self, phase_name: str) -> None:
            guarded(phases.finish, phase_name)

        def step_complete(self, phase_name: str, step: int) -> bool:
            return bool(guarded(phases.step, phase_name, step))

    return Monitor()
