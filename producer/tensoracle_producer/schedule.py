"""Runs all compiles on an executor, with progress; a failed one does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

from hatch_tensoracle.targets import Target
from tensoracle_producer.compiler import Compiled, Job, KernelError, compile_job
from tensoracle_producer.errors import CompileError, Failure
from tensoracle_producer.variant import Variant
from tensoracle_producer.workers import PrintedError, WorkerDiedError

__all__ = ["Task", "compile_all"]

_PATIENCE = 10.0
"""Seconds of silence after which progress says what is still running."""


@dataclass(frozen=True, slots=True)
class Task:
    """One variant for one target."""

    variant: Variant
    target: Target
    job: Job

    @property
    def label(self) -> str:
        """How progress calls it."""
        return f"{self.variant.label} {self.target.name}"


def compile_all(tasks: Sequence[Task], executor: Executor, progress: Callable[[str], None]) -> list[Compiled]:
    """Compile every task and return the results in order. Raises CompileError naming all that failed."""
    futures = [executor.submit(compile_job, task.job) for task in tasks]
    labels = {future: task.label for future, task in zip(futures, tasks, strict=True)}
    for done, future in enumerate(_as_they_end(labels, progress), start=1):
        result = _result(future)
        outcome = f"{len(result.cubin)} bytes, {result.seconds:.2f} s" if isinstance(result, Compiled) else "failed"
        progress(f"[{done}/{len(tasks)}] {labels[future]}: {outcome}")
    results = [_result(future) for future in futures]
    failures = tuple(
        Failure(kernel=task.variant.label, target=task.target.name, cause=result)
        for task, result in zip(tasks, results, strict=True)
        if isinstance(result, str)
    )
    if failures:
        raise CompileError(failures)
    return [result for result in results if isinstance(result, Compiled)]


def _as_they_end(labels: dict[Future[Compiled], str], progress: Callable[[str], None]) -> Iterator[Future[Compiled]]:
    since: dict[Future[Compiled], float] = {}
    pending = set(labels)
    while pending:
        now = time.monotonic()
        for future in pending:
            if future.running():
                since.setdefault(future, now)
        ended, pending = wait(pending, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
        yield from ended
        if not ended:
            now = time.monotonic()
            running = (f"{labels[future]} for {now - since[future]:.0f} s" for future in since if future in pending)
            progress(f"still compiling: {', '.join(running)}")


def _result(future: Future[Compiled]) -> Compiled | str:
    """The compiled kernel, or why there is none."""
    try:
        return future.result()
    except (KernelError, PrintedError, WorkerDiedError) as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
