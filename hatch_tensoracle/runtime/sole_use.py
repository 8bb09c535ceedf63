"""Who may use an execution: one caller at a time, on one thread, in one CUDA context, and on one stream."""

from __future__ import annotations

import threading
from threading import get_ident
from typing import Self

from hatch_tensoracle.runtime.driver import current_context_reader
from hatch_tensoracle.runtime.errors import ExecutionError

__all__ = ["SoleUse"]


class SoleUse:
    """A lock that nobody waits for. As a context manager it is held; a second caller meanwhile is an ExecutionError."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_context = current_context_reader()
        self._thread: int | None = None
        self._cuda_context: int | None = None
        self.stream: int | None = None
        """That of the last work; None if the next may be on any."""

    def __enter__(self) -> Self:
        if not self._lock.acquire(blocking=False):
            raise ExecutionError("the execution is in use by another call: an execution is for one caller at a time")
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._lock.release()

    def claim(self) -> None:
        """Give it to the calling thread and its CUDA context."""
        self._thread, self._cuda_context = get_ident(), self._read_context()

    def check(self) -> None:
        """Raise ExecutionError for another thread or CUDA context than the claim's, if there is one."""
        if self._thread is None:
            return
        if self._thread != get_ident():
            raise ExecutionError("the execution belongs to the thread that used it first: create one for each thread")
        if (current := self._read_context()) != self._cuda_context:
            raise ExecutionError(
                f"the execution was used first in the CUDA context {_handle(self._cuda_context)} and belongs to it; "
                f"the current one is {_handle(current)}: make the execution's current, or create another"
            )

    def take(self, stream: int) -> None:
        """Take a stream for the next work. Raises ExecutionError while the last work may be under way on another."""
        self.check_stream(stream)
        self.stream = stream

    def check_stream(self, stream: int) -> None:
        """Raise ExecutionError while the last work may be under way on another stream."""
        if self.stream not in {None, stream}:
            raise ExecutionError(
                f"the last work is on stream {self.stream:#x}, this is for {stream:#x}, and a context's work must not "
                "overlap: call release_stream() once it is complete or the new stream waits for it"
            )


def _handle(context: int | None) -> str:
    return "none" if context is None else hex(context)
