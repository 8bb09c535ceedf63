"""From the library's load to the end of its first launch, in fresh processes, against the bare driver calls."""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator

from launch_program import LAUNCHES, Launch, LaunchProgram, What
from part import Case, Setting, run
from records import Figure, Row

GOAL = 2.0
"""Times the bare calls."""

_TRITON = """
import importlib, time

import torch

kernel = importlib.import_module("kernels").add_rms_norm
x, residual, weight, y, r = (torch.zeros(4096, device="cuda", dtype=torch.float16) for _ in range(5))
torch.cuda.synchronize()
begin = time.perf_counter()
kernel[(1,)](x, residual, weight, y, r, 4096, 1e-6, BLOCK=1024, num_warps=4, num_stages=2)
torch.cuda.synchronize()
print(time.perf_counter() - begin)
"""


def cases(setting: Setting) -> Iterator[Case]:
    """A small library, the example's library, and Triton."""
    program = functools.cache(lambda: LaunchProgram(setting))
    processes = 5 if setting.is_quick else 21
    bare: dict[str, float] = {}
    for launch in LAUNCHES[0], LAUNCHES[-1]:
        yield launch.case, functools.partial(_first, program, launch, processes, bare)
    yield "AddRmsNorm by Triton", functools.partial(_triton, 1 if setting.is_quick else 3, bare)


def _first(program: Callable[[], LaunchProgram], launch: Launch, processes: int, bare: dict[str, float]) -> Row:
    sides: tuple[What, ...] = ("plugin", "bare", "all", "empty")
    times: dict[str, list[float]] = defaultdict(list)
    for what in sides:
        program().run(what, launch)  # files come into the system's cache
    for _ in range(processes):
        for what in sides:
            for name, (nanoseconds,) in program().run(what, launch).items():
                times[name].append(nanoseconds / 1000)
    times["after dlopen"] = [whole - part for whole, part in zip(times["plugin"], times["dlopen"], strict=True)]
    median = {name: statistics.median(values) for name, values in times.items()}
    bare[launch.kernel] = median["bare"]
    steps = ", ".join(
        f"{name} {median[name]:.0f} µs" for name in ("dlopen", "create", "onShapeChange", "enqueue", "wait")
    )
    return Row(
        ratios=(
            Figure(
                name="library load to first launch / bare load and launch of the cubin",
                value=median["plugin"] / median["bare"],
                at_most=GOAL,
            ),
            Figure(
                name="the same after dlopen / bare load of all variants and launch",
                value=median["after dlopen"] / median["all"],
                at_most=GOAL,
            ),
            Figure(name="dlopen / dlopen of an empty library", value=median["dlopen"] / median["empty"]),
        ),
        absolutes=tuple(Figure.median(name, times[name], "µs") for name in sides),
        note=f"{processes} processes a side; {steps} (create: getCreators, createPlugin, attachToContext); bare: "
        "cuLibraryLoadData of bytes in memory, cuLibraryGetKernel, cuLaunchKernel, wait; all: the other variants too, "
        "by cuKernelGetFunction; context excluded",
    )


def _triton(runs: int, bare: dict[str, float]) -> Row:
    cold, warm = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_triton_seconds(cache))
            warm.append(_triton_seconds(cache))
    baseline = bare.get("add_rms_norm_fp16")
    figures = (Figure.median("cold cache", cold, "s"), Figure.median("warm cache", warm, "s"))
    ratios = (
        tuple(Figure(name=f"{each.name} / bare", value=each.value * 1e6 / baseline) for each in figures)
        if baseline
        else ()
    )
    return Row(ratios=ratios, absolutes=figures, note="imports and context excluded")


def _triton_seconds(cache: str) -> float:
    environment = os.environ | {"TRITON_CACHE_DIR": cache}
    command = [sys.executable, "-P", "-c", _TRITON]  # -P: or a kernels.py of the current directory would come first
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"Triton's process failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
        raise RuntimeError(message)
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    run(cases)
