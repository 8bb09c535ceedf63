"""Runs all compiles on an executor, with progress; a failed one does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

from hatch_tensoracle.targets import Target
from tensoracle_producer.cache import CubinCache
from tensoracle_producer.compiler import Compiled, Job, KernelError, compile_job
from tensoracle_producer.errors import CompileError, Failure
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
    tasks: Sequence[Task], executor: Executor, cache: CubinCache, progress: Callable[[str], None]
) -> list[Compiled]:
    """Compile every task that the cache does not know, and return the results in the order of the tasks.

    Raises CompileError naming all that failed.
    """
    known = {task: compiled for task in tasks if (compiled := cache.get(task.job)) is not None}
    if known:
        progress(f"{len(known)} of {len(tasks)} are known from earlier builds")
    futures = {executor.submit(compile_job, task.job): task for task in tasks if task not in known}
    results: dict[Task, Compiled | str] = {**known}
    for done, future in enumerate(_as_they_end(futures, progress), start=1):
        task = futures[future]
        results[task] = result = _result(future)
        outcome = "failed"
        if isinstance(result, Compiled):
            outcome = f"{len(result.ptx or result.cubin)} bytes, {result.seconds:.2f} s"
            cache.put(task.job, result)
        progress(f"[{done}/{len(futures)}] {task.label}: {outcome}")
    if futures:
        cache.prune()
    if cache.outage:
        progress(f"the next build will compile this again: the cache cannot be written: {cache.outage}")
    failures = tuple(
        Failure(kernel=task.variant.label, target=task.goal, cause=result)
        for task in tasks
        if isinstance(result := results[task], str)
    )
    if failures:
        raise CompileError(failures)
    return [result for task in tasks if isinstance(result := results[task], Compiled)]


def _as_they_end(tasks: Mapping[Future[Compiled], Task], progress: Callable[[str], None]) -> Iterator[Future[Compiled]]:
    since: dict[Future[Compiled], float] = {}
    pending = set(tasks)
    while pending:
        now = time.monotonic()
        for future in pending:
            if future.running():
                since.setdefault(future, now)
        ended, pending = wait(pending, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
        yield from ended
        if not ended:
            now = time.monotonic()
            running = (
                f"{tasks[future].label} for {now - since[future]:.0f} s" for future in since if future in pending
            )
            progress(f"still compiling: {', '.join(running)}")


def _result(future: Future[Compiled]) -> Compiled | str:
    """The compiled kernel, or why there is none."""
    try:
        return future.result()
    except (KernelError, PrintedError, WorkerDiedError) as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
