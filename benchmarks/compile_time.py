"""Cold bundle of 8 kernels for 4 targets: worker processes against the same compiles one after another in one process.

`python benchmarks/compile_time.py`. Both sides start a fresh Python and import Triton in it; the ratio of the medians
of alternating runs counts, since machines are shared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from machine import describe_machine

TARGETS = ("sm86", "sm89", "sm90", "sm120")


def in_workers(directory: str) -> None:
    """What users call."""
    from kernels import KERNELS

    from tensoracle_producer import compile_bundle

    compile_bundle(KERNELS, TARGETS, directory)


def one_after_another() -> None:
    """The baseline: the same jobs in a loop."""
    from kernels import KERNELS

    from hatch_tensoracle.targets import parse_target
    from tensoracle_producer.compiler import compile_job
    from tensoracle_producer.toolchain import find_toolchain
    from tensoracle_producer.variant import make_variants

    ptxas = find_toolchain().ptxas
    for variant in make_variants(KERNELS):
        for name in TARGETS:
            start = time.perf_counter()
            compile_job(variant.job(parse_target(name), ptxas))
            print(f"{variant.label} {name} {time.perf_counter() - start:.2f} s")


def timed(side: str) -> float:
    """Seconds of a fresh process that runs one side."""
    with tempfile.TemporaryDirectory() as cold:
        environment = os.environ | {"TENSORACLE_CACHE_DIR": cold}
        start = time.perf_counter()
        subprocess.run([sys.executable, __file__, side], check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - start


def main() -> None:
    """Measure and print, or run one side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", nargs="?", choices=("workers", "loop"), help="run one side only, without measuring")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.side == "workers":
        with tempfile.TemporaryDirectory() as directory:
            in_workers(f"{directory}/bundle")
    elif options.side == "loop":
        one_after_another()
    else:
        seconds: dict[str, list[float]] = {"loop": [], "workers": []}
        for _ in range(options.runs):
            for side, measured in seconds.items():
                measured.append(timed(side))
        medians = {side: statistics.median(measured) for side, measured in seconds.items()}
        print(describe_machine())
        for side, measured in seconds.items():
            print(f"{side}: median {medians[side]:.1f} s of {', '.join(f'{run:.1f}' for run in measured)}")
        print(f"workers are {medians['loop'] / medians['workers']:.2f} times as fast")


if __name__ == "__main__":
    main()
