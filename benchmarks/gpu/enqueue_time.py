"""Host time of enqueue over a bare cuLaunchKernel with ready arguments; Triton's launcher and torch.add beside it."""

from __future__ import annotations

import functools
import importlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from launch_program import LAUNCHES, Launch, LaunchProgram
from part import Case, Setting, run
from records import Figure, Row

GOAL = 150.0
"""Nanoseconds that enqueue may cost more."""
LAUNCHES_PER_BATCH = 128  # far fewer than a stream's queue holds, so none waits for room


def cases(setting: Setting) -> Iterator[Case]:
    """Every launch, then the other launchers."""
    program = functools.cache(lambda: LaunchProgram(setting))
    batches = 100 if setting.is_quick else 1000
    bare: dict[str, float] = {}
    for launch in LAUNCHES:
        yield launch.case, functools.partial(_enqueue, program, launch, batches, bare)
    for name, kernel in (("Triton's launcher, 5 arguments", "five"), ("Triton's launcher, 20 arguments", "twenty")):
        yield name, functools.partial(_other, name, functools.partial(_triton, kernel), bare, batches // 4)
    yield "torch.add", functools.partial(_other, "torch.add", _add, bare, batches // 4)


def _enqueue(program: Callable[[], LaunchProgram], launch: Launch, batches: int, bare: dict[str, float]) -> Row:
    series = program().run("enqueue", launch, batches, LAUNCHES_PER_BATCH)
    more = [mine - other for mine, other in zip(series["plugin"], series["function"], strict=True)]
    bare[launch.kernel] = statistics.median(series["function"])
    absolutes = [
        Figure.median(name, series[key], "ns")
        for name, key in (("enqueue", "plugin"), ("bare", "function"), ("bare by CUkernel", "kernel"))
    ]
    return Row(
        ratios=(
            Figure.median("enqueue minus bare cuLaunchKernel", more, "ns", at_most=GOAL),
            Figure(name="enqueue / bare", value=absolutes[0].value / absolutes[1].value),
        ),
        absolutes=tuple(absolutes),
        note=f"{batches} batches of {LAUNCHES_PER_BATCH} a side, alternating, one pinned thread; median and quartiles",
    )


def _other(name: str, prepare: Callable[[], Callable[[], Any]], bare: dict[str, float], batches: int) -> Row:
    import torch

    allowed = os.sched_getaffinity(0)
    launch = prepare()
    launch()
    torch.cuda.synchronize()
    os.sched_setaffinity(0, {min(allowed)})
    try:
        batch = functools.partial(_batch, launch, torch.cuda.synchronize)
        times = [batch() for _ in range(batches + batches // 10)][batches // 10 :]
    finally:
        os.sched_setaffinity(0, allowed)
    baseline = bare.get("twenty" if "20" in name else "five", bare.get("five"))
    figure = Figure.median(name, times, "ns")
    ratios = (Figure(name="over bare cuLaunchKernel", value=figure.value / baseline),) if baseline else ()
    return Row(ratios=ratios, absolutes=(figure,), note=f"from Python, {batches} batches")


def _batch(launch: Callable[[], Any], synchronize: Callable[[], None]) -> float:
    launch()
    synchronize()
    begin = time.perf_counter_ns()
    for _ in range(LAUNCHES_PER_BATCH):
        launch()
    passed = time.perf_counter_ns() - begin
    synchronize()
    return passed / LAUNCHES_PER_BATCH


def _triton(name: str) -> Callable[[], Any]:
    import torch

    kernel = getattr(importlib.import_module("launch_kernels"), name)
    x, y = (torch.zeros(64, device="cuda") for _ in range(2))
    if name == "five":
        return lambda: kernel[(1,)](x, y, 64, 0.5, 16)
    return lambda: kernel[(1,)](x, x, x, x, x, x, x, y, 64, 64, 64, 64, 64, 64, 64, 0.5, 0.5, 0.5, 0.5, 16)


def _add() -> Callable[[], Any]:
    import torch

    x, y = (torch.zeros(64, device="cuda") for _ in range(2))
    return lambda: torch.add(x, x, out=y)


if __name__ == "__main__":
    run(cases)
