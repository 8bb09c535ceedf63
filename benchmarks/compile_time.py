"""Cold bundles for 4 targets, each made by a fresh Python with an empty cache: `python benchmarks/compile_time.py`.

8 kernels, by worker processes and by the same compiles one after another in one process: the ratio of the medians of
alternating runs counts, since machines are shared. With `--copies 25` it is 200 kernels instead, the 8 under 25 names
each, all of which are compiled, between two bundles of the 8: the ratio of processor time, starting Python included.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from machine import describe_machine

if TYPE_CHECKING:
    from tensoracle_producer import KernelSpec

TARGETS = ("sm86", "sm89", "sm90", "sm120")


def specs_of(copies: int) -> list[KernelSpec]:
    """The kernels under so many names."""
    from kernels import KERNELS

    return [dataclasses.replace(spec, name=f"{spec.name}_{n}") for n in range(copies) for spec in KERNELS]


def in_workers(specs: list[KernelSpec]) -> None:
    """What users call."""
    from tensoracle_producer import compile_bundle

    with tempfile.TemporaryDirectory() as directory:
        compile_bundle(specs, TARGETS, f"{directory}/bundle")


def one_after_another(specs: list[KernelSpec]) -> None:
    """The baseline: the same jobs in a loop."""
    from hatch_tensoracle.targets import parse_target
    from tensoracle_producer.compiler import compile_job
    from tensoracle_producer.toolchain import find_toolchain
    from tensoracle_producer.variant import make_variants

    ptxas = find_toolchain().ptxas
    for variant in make_variants(specs):
        for name in TARGETS:
            compile_job(variant.job(parse_target(name), ptxas))


SIDES = {"loop": one_after_another, "workers": in_workers}


def timed(side: str, copies: int = 1) -> tuple[float, float]:
    """Seconds of a fresh process and of those that it starts: by the clock, and of the processors."""
    with tempfile.TemporaryDirectory() as cold:
        environment = os.environ | {"TENSORACLE_CACHE_DIR": cold}
        start, before = time.perf_counter(), os.times()
        subprocess.run([sys.executable, __file__, side, "--copies", str(copies)], check=True, env=environment)
        after, end = os.times(), time.perf_counter()
    return end - start, sum(after[2:4]) - sum(before[2:4])  # of children, in user and in system mode


def compare_sides(runs: int) -> None:
    """Print how much faster the workers are."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(runs):
        for side, measured in seconds.items():
            measured.append(timed(side)[0])
    medians = {side: statistics.median(measured) for side, measured in seconds.items()}
    for side, measured in seconds.items():
        print(f"{side}: median {medians[side]:.1f} s of {', '.join(f'{run:.1f}' for run in measured)}")
    print(f"workers are {medians['loop'] / medians['workers']:.2f} times as fast")


def compare_sizes(copies: int) -> None:
    """Print what a compile takes in a large bundle, in terms of what it takes in small ones before and after."""
    processor = []
    for each in (1, copies, 1):
        count = len(specs_of(each)) * len(TARGETS)
        clock, used = (seconds / count for seconds in timed("workers", each))
        print(f"{count} compiles: {clock:.3f} s each by the clock, {used:.3f} s of processor time", flush=True)
        processor.append(used)
    before, large, after = processor
    print(f"processor time: {2 * large / (before + after):.2f} of that in small bundles")


def main() -> None:
    """Measure and print, or run one side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", nargs="?", choices=SIDES, help="run one side only, without measuring")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--copies", type=int, default=1, metavar="N")
    options = parser.parse_args()
    if options.side:
        SIDES[options.side](specs_of(options.copies))
        return
    print(describe_machine())
    if options.copies > 1:
        compare_sizes(options.copies)
    else:
        compare_sides(options.runs)


if __name__ == "__main__":
    main()
