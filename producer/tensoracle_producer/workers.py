"""Worker processes: an executor in which the death of a process is the failure of one task.

LLVM ends its process on some inputs. A pool of the standard library is broken then, with no word of which task did it;
here each worker has one task at a time, so the guilty one is known, and a new worker takes the next.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from hatch_tensoracle._interrupts import interrupting

__all__ = ["PrintedError", "WorkerDiedError", "WorkerPool", "serve"]

P = ParamSpec("P")
T = TypeVar("T")

_KEPT = ("PATH", "LD_LIBRARY_PATH", "HOME")
_LOG_TAIL = 20


class WorkerDiedError(Exception):
    """A worker process ended during a task; the message says how and what it printed last."""


class PrintedError(Exception):
    """A task came to its end, but LLVM printed errors on the way and left out what they were about."""


class WorkerPool(Executor):
    """An executor over processes that are started when first needed. Functions and arguments are pickled."""

    def __init__(self, max_workers: int) -> None:
        # What a process that died in the middle of its work could not remove goes with the pool.
        self._directory = tempfile.TemporaryDirectory(prefix="tensoracle-")
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._workers = [_Worker(self._directory.name) for _ in range(max_workers)]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(max_workers, thread_name_prefix="tensoracle")
        self._interrupts = contextlib.ExitStack()
        self._is_interrupted = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` in a worker.

        What it raises is raised by the future; so is WorkerDiedError if the process ended, PrintedError if a line that
        it printed begins with `error:`.
        """
        return self._threads.submit(self._call, fn, args, kwargs)

    def _call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        worker = self._idle.get()
        try:
            if not self._is_interrupted:
                return worker.call(fn, args, kwargs)
        except WorkerDiedError:
            if not self._is_interrupted:
                raise
        finally:
            self._idle.put(worker)
        raise KeyboardInterrupt

    def _interrupt(self) -> None:
        self._is_interrupted = True
        for worker in self._workers:
            worker.end()

    def __enter__(self) -> Self:
        """Have Ctrl-C end the workers meanwhile: KeyboardInterrupt is what tasks raise then, and the block's end."""
        self._interrupts.enter_context(interrupting(self._interrupt))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the workers; after an error, such as a keyboard interrupt, without waiting for their tasks."""
        try:
            self.shutdown(cancel_futures=error is not None)
        finally:
            self._interrupts.__exit__(kind, error, traceback)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - inherited
        """End the workers once their tasks are done; with `cancel_futures`, at once."""
        if cancel_futures:
            self._threads.shutdown(wait=False, cancel_futures=True)  # first, or killed workers would start the next
            for worker in self._workers:
                worker.kill()
        self._threads.shutdown(wait=wait)
        for worker in self._workers:
            worker.close()
        self._directory.cleanup()


class _Worker:
    """One process, and what it prints."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the worker

    def call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        if self._process is None:
            self._start()
        self._log.seek(0)  # the worker writes at the same position: both share one open file
        self._log.truncate()
        try:
            self._pipe.send_bytes(pickle.dumps((fn, args, kwargs)))
            result, error = self._pipe.recv()
        except (EOFError, OSError) as ended:
            raise WorkerDiedError(self._obituary()) from ended
        if error is not None:
            if printed := self._printed("error:"):
                error.add_note(printed)
            raise error
        if printed := self._printed("^error:"):
            raise PrintedError(printed)
        return result  # type: ignore[no-any-return]

    def end(self) -> None:
        """Kill its process, if there is one, and the next one too. It takes no lock, so signal handlers may."""
        self._is_killed = True
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.killpg(process.pid, signal.SIGKILL)  # with the assembler that it may have started

    def kill(self) -> None:
        self.end()
        process = self._process
        if process is not None:
            process.wait()

    def close(self) -> None:
        self.kill()
        if self._process is not None:
            self._pipe.close()
        self._log.close()

    def _start(self) -> None:
        ours, theirs = _socket_pair()
        self._pipe = Connection(ours)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({theirs})"],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(theirs,),
                env=_environment() | {"TMPDIR": self._directory},
                cwd=self._directory,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        if self._is_killed:  # meanwhile, by another thread, which may have found no process yet
            self.kill()

    def _obituary(self) -> str:
        assert self._process is not None  # noqa: S101 - started by call
        status = self._process.wait()
        self._process = None
        self._pipe.close()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"the compiler's process {how}\n{self._printed()}".rstrip()

    def _printed(self, pattern: str = "") -> str:
        """The last lines that match the regular expression."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return "\n".join([line for line in lines if re.search(pattern, line)][-_LOG_TAIL:])


def _socket_pair() -> tuple[int, int]:
    import socket

    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def _environment() -> dict[str, str]:
    """What a worker needs and nothing that steers a compiler: Triton and LLVM read dozens of variables."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return environment | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
    }


def serve(descriptor: int) -> None:
    """Answer tasks, in a worker, until the other side of the socket closes."""
    pipe = Connection(descriptor)
    while True:
        try:
            fn, args, kwargs = pipe.recv()
        except EOFError:
            return
        answer: tuple[object, Exception | None]
        try:
            answer = fn(*args, **kwargs), None
        except Exception as error:  # noqa: BLE001 - it is raised again on the other side
            answer = None, _portable(error)
        pipe.send(answer)


def _portable(error: Exception) -> Exception:
    """The error without what it refers to, which may not be picklable."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
