"""Runs all compiles on an executor, with progress; a failed one does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

from hatch_tensoracle.targets import Target
from tensoracle_producer.cache import CubinCache
from tensoracle_producer.compiler import Compiled, Job, KernelError, compile_job
from tensoracle_producer.errors import CompileError, Failure, ToolchainError
from tensoracle_producer.variant import Variant
from tensoracle_producer.workers import PrintedError, WorkerDiedError

__all__ = ["Task", "compile_all"]

_PATIENCE = 10.0
"""Seconds of silence after which progress says what is still running."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One variant for one target."""

    variant: Variant
    target: Target
    job: Job

    @property
    def goal(self) -> str:
        """How messages call what is made: `sm89`, or `sm89 PTX`."""
        return f"{self.target.name}{' PTX' if self.job.keeps_ptx else ''}"

    @property
    def label(self) -> str:
        """How progress calls it."""
        return f"{self.variant.label} {self.goal}"


def compile_all(
    tasks: Sequence[Task],
    executor: Executor,
    cache: CubinCache,
    progress: Callable[[str], None],
    compile_: Callable[[Job], Compiled] = compile_job,
) -> list[Compiled]:
    """Compile every task that the cache does not know, and return the results in the order of the tasks.

    Raises CompileError naming all that failed.
    """
    found = zip(tasks, cache.get([task.job for task in tasks]), strict=True)
    results: dict[Task, Compiled | Exception] = {task: known for task, known in found if known is not None}
    if results:
        progress(f"{len(results)} of {len(tasks)} are known from earlier builds")
    futures = {_submit(executor, compile_, task.job): task for task in tasks if task not in results}
    try:
        for done, future in enumerate(_as_they_end(futures, progress), start=1):
            task = futures[future]
            results[task] = result = _result(future)
            outcome = "failed"
            if isinstance(result, Compiled):
                outcome = f"{len(result.content(is_ptx=task.job.keeps_ptx))} bytes, {result.seconds:.2f} s"
                cache.put(task.job, result)
            progress(f"[{done}/{len(futures)}] {task.label}: {outcome}")
    finally:
        for future in futures:  # of an executor that goes on when this ends early
            future.cancel()
    if futures:
        cache.close()
    for warning in cache.warnings:
        progress(warning)
    failed = {task: result for task in tasks if isinstance(result := results[task], Exception)}
    if failed:
        failures = (
            Failure(kernel=task.variant.label, target=task.goal, cause=_cause(error)) for task, error in failed.items()
        )
        raise CompileError(tuple(failures)) from next(iter(failed.values()))
    return [result for task in tasks if isinstance(result := results[task], Compiled)]


def _submit(executor: Executor, compile_: Callable[[Job], Compiled], job: Job) -> Future[Compiled]:
    try:
        return executor.submit(compile_, job)
    except RuntimeError as error:  # of an executor that is shut down or broken
        future: Future[Compiled] = Future()
        future.set_exception(error)
        return future


def _as_they_end(tasks: Mapping[Future[Compiled], Task], progress: Callable[[str], None]) -> Iterator[Future[Compiled]]:
    since: dict[Future[Compiled], float] = {}
    pending = set(tasks)

    def note() -> float:
        now = time.monotonic()
        for future in pending:
            if future.running():
                since.setdefault(future, now)
        return now

    while pending:
        note()
        ended, pending = wait(pending, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
        yield from ended
        if not ended:
            now = note()  # one may have begun just after the last time
            running = [
                f"{tasks[future].label} for {now - since[future]:.0f} s" for future in since if future in pending
            ]
            # Some executors, Dask's for one, do not say what is running.
            progress(f"still compiling: {', '.join(running) or f'{len(pending)} left'}")


def _result(future: Future[Compiled]) -> Compiled | Exception:
    """The compiled kernel, or why there is none."""
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - the compiler's, or that of an executor which lost the task
        return error


def _cause(error: Exception) -> str:
    own = isinstance(error, KernelError | PrintedError | WorkerDiedError | ToolchainError)
    cause = str(error) if own else f"not compiled: {type(error).__name__}: {error}".rstrip(": ")
    return "\n".join([cause, *getattr(error, "__notes__", ())])
