"""What Ctrl-C does where Python must not raise KeyboardInterrupt."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

__all__ = ["interrupting"]


@contextlib.contextmanager
def interrupting(cancel: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C call `cancel` meanwhile, and raise KeyboardInterrupt afterwards.

    Python's own handler would raise it wherever the main thread is: in the middle of a callback of a library's, with a
    lock that other threads wait for, or while it cleans up after an earlier one. A program's own handler is left.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    interrupted = False

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        cancel()

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if interrupted:
        raise KeyboardInterrupt
