"""Worker processes: an executor in which the death of a process is the failure of one task.

LLVM ends its process on some inputs. A pool of the standard library is broken then, with no word of which task did it;
here each worker has one task at a time, so the guilty one is known, and a new worker takes the next.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

__all__ = ["WorkerDiedError", "WorkerPool"]

P = ParamSpec("P")
T = TypeVar("T")

_KEPT = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "SYSTEMROOT")
_LOG_TAIL = 20


class WorkerDiedError(Exception):
    """A worker process ended during a task; the message says how and what it printed last."""


class WorkerPool(Executor):
    """An executor over processes that are started when first needed. Functions and arguments are pickled."""

    def __init__(self, max_workers: int) -> None:
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._workers = [_Worker() for _ in range(max_workers)]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(max_workers, thread_name_prefix="tensoracle")

    def __exit__(self, *error: object) -> None:
        """End the workers; tasks that an error has left behind are not waited for."""
        self.shutdown(cancel_futures=True)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` in a worker. What it raises is raised by the future; WorkerDiedError if the process ended."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def _call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        worker = self._idle.get()
        try:
            return worker.call(fn, args, kwargs)
        finally:
            self._idle.put(worker)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - inherited
        """End the workers once their tasks are done; with `cancel_futures`, at once."""
        if cancel_futures:
            for worker in self._workers:
                worker.kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for worker in self._workers:
            worker.kill()


class _Worker:
    """One process, and what it prints."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
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
            if printed := self._printed(errors_only=True):
                error.add_note(printed)
            raise error
        return result  # type: ignore[no-any-return]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        ours, theirs = _socket_pair()
        self._pipe = Connection(ours)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-m", "tensoracle_producer.workers", str(theirs)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(theirs,),
                env=_environment(),
                cwd=tempfile.gettempdir(),
            )
        finally:
            os.close(theirs)

    def _obituary(self) -> str:
        assert self._process is not None  # noqa: S101 - started by call
        status = self._process.wait()
        self._process = None
        self._pipe.close()
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"the compiler's process {how}\n{self._printed()}".rstrip()

    def _printed(self, *, errors_only: bool = False) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        if errors_only:
            lines = [line for line in lines if "error:" in line]
        return "\n".join(lines[-_LOG_TAIL:])


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


def _serve(descriptor: int) -> None:
    """Answer tasks until the other side closes."""
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


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
