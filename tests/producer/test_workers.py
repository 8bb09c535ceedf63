"""A worker's death is the failure of one task, and nothing of a worker outlives its pool."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import is_running, wait_until

from tensoracle_producer.workers import PrintedError, WorkerDiedError, WorkerPool, _Worker


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a temporary directory of the test's own, to see what is left in it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_task_runs_in_another_process_that_is_used_again(pool: WorkerPool) -> None:
    first, second = pool.submit(os.getpid).result(), pool.submit(os.getpid).result()
    assert first == second != os.getpid()


def test_what_a_task_raises_is_raised_here(pool: WorkerPool) -> None:
    with pytest.raises(ZeroDivisionError, match="division"):
        pool.submit(divmod, 1, 0).result()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT], ids=lambda number: number.name)
def test_a_worker_that_dies_by_a_signal_fails_its_task_alone(pool: WorkerPool, number: signal.Signals) -> None:
    before = pool.submit(abs, -1)
    dying = pool.submit(signal.raise_signal, number)
    after = pool.submit(abs, -2)
    with pytest.raises(WorkerDiedError, match=f"was killed by {number.name}"):
        dying.result()
    assert (before.result(), after.result()) == (1, 2)


def test_a_worker_that_exits_fails_its_task_with_what_it_printed(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDiedError) as caught:
        pool.submit(sys.exit, "LLVM ERROR: out of registers").result()
    assert str(caught.value) == "the compiler's process ended with status 1\nLLVM ERROR: out of registers"
    assert pool.submit(abs, -1).result() == 1


def test_what_an_earlier_task_printed_is_not_told_of_a_later_one(pool: WorkerPool) -> None:
    pool.submit(builtins.print, "from another task", flush=True).result()
    with pytest.raises(WorkerDiedError) as caught:
        pool.submit(os._exit, 3).result()
    assert str(caught.value) == "the compiler's process ended with status 3"


def test_a_task_that_printed_an_error_has_failed_though_it_came_to_its_end(pool: WorkerPool) -> None:
    with pytest.raises(PrintedError, match=r"^error: could not allocate$"):
        pool.submit(builtins.print, "error: could not allocate", flush=True).result()


def test_what_cannot_be_pickled_is_refused_and_the_worker_goes_on(pool: WorkerPool) -> None:
    with pytest.raises(Exception, match="pickle"):
        pool.submit(lambda: None).result()
    assert pool.submit(abs, -1).result() == 1


def test_a_result_that_cannot_be_pickled_fails_its_task_alone(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDiedError, match="pickle"):
        pool.submit(open, os.devnull).result()
    assert pool.submit(abs, -1).result() == 1


def test_no_variable_that_steers_a_compiler_reaches_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRITON_PRINT_AUTOTUNING", "LLVM_PASS_PLUGIN_PATH", "MLIR_ENABLE_DUMP", "DISABLE_LLVM_OPT"):
        monkeypatch.setenv(name, "1")
    with WorkerPool(1) as pool:
        environment = pool.submit(subprocess.check_output, [sys.executable, "-c", "import os; print(*os.environ)"])
    names = set(environment.result().decode().split())
    assert names <= {"PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "PYTHONPATH", "PYTHONHASHSEED", "LC_ALL", "LC_CTYPE"}


def test_no_process_outlives_the_pool(temporary: Path) -> None:
    with WorkerPool(2) as pool:
        workers = {future.result() for future in [pool.submit(os.getpid) for _ in range(4)]}
        assert all(is_running(worker) for worker in workers)
    assert not any(is_running(worker) for worker in workers)
    assert list(temporary.iterdir()) == []


def test_a_file_of_a_worker_that_was_killed_does_not_outlive_the_pool(temporary: Path) -> None:
    with WorkerPool(1) as pool:
        left = Path(pool.submit(tempfile.mkdtemp).result())
        with pytest.raises(WorkerDiedError):
            pool.submit(signal.raise_signal, signal.SIGKILL).result()
        assert left.is_relative_to(temporary)
    assert list(temporary.iterdir()) == []


def test_an_error_ends_the_pool_without_waiting(temporary: Path) -> None:
    """As a keyboard interrupt does while kernels are compiled; children of the workers end too."""
    with pytest.raises(KeyboardInterrupt), WorkerPool(2) as pool:  # noqa: PT012 - the error is raised inside
        futures = [pool.submit(subprocess.call, ["sleep", "1000"]) for _ in range(6)]
        wait_until(lambda: len(sleeping(temporary)) == 2, "two tasks at work")
        children = sleeping(temporary)
        raise KeyboardInterrupt
    assert [future.cancelled() for future in futures] == [False] * 2 + [True] * 4
    assert all(isinstance(future.exception(), WorkerDiedError) for future in futures[:2])
    wait_until(lambda: not any(map(is_running, children)), "the end of what the workers had started")
    assert list(temporary.iterdir()) == []


def test_an_error_ends_a_worker_that_is_only_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, killed = threading.Event(), threading.Event()
    popen, kill = subprocess.Popen, _Worker.kill

    def slow(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = popen(*arguments, **options)
        starting.set()
        killed.wait()
        return process

    def told(worker: _Worker) -> None:
        kill(worker)
        killed.set()

    monkeypatch.setattr(subprocess, "Popen", slow)
    monkeypatch.setattr(_Worker, "kill", told)
    with pytest.raises(KeyboardInterrupt), WorkerPool(1) as pool:  # noqa: PT012 - the error is raised inside
        future = pool.submit(time.sleep, 60)
        starting.wait()
        raise KeyboardInterrupt
    assert isinstance(future.exception(), WorkerDiedError)


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_interrupts_end_the_pool_and_none_disturbs_the_end(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, *, is_waited_for: bool
) -> None:
    close = _Worker.close

    def interrupted(worker: _Worker) -> None:
        signal.raise_signal(signal.SIGINT)
        close(worker)

    monkeypatch.setattr(_Worker, "close", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    try:
        with pytest.raises(KeyboardInterrupt), WorkerPool(2) as pool:  # noqa: PT012 - the error is raised inside
            futures = [pool.submit(subprocess.call, ["sleep", "1000"]) for _ in range(6)]
            wait_until(lambda: len(sleeping(temporary)) == 2, "two tasks at work")
            children = sleeping(temporary)
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
            if is_waited_for:
                futures[0].result()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(future.cancelled() or isinstance(future.exception(), KeyboardInterrupt) for future in futures)
    wait_until(lambda: not any(map(is_running, children)), "the end of what the workers had started")
    assert list(temporary.iterdir()) == []


def sleeping(directory: Path) -> list[int]:
    """Processes called sleep that run below the directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "sleep\n" and (process / "cwd").resolve().is_relative_to(directory):
                found.append(int(process.name))
        except OSError:
            continue  # it has ended since
    return found
