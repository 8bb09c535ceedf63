"""The producer's step of the example when nothing has changed: `python benchmarks/producer_step.py`.

Every run is a fresh process with a warm cache; the baseline is a process that imports Triton, which the step does not.
Processor time is that of the whole process, and given beside time on the clock since machines are shared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from machine import describe_machine

EXAMPLE = Path(__file__).parents[1] / "example_plugin"


def step() -> float:
    """Seconds of one step, imports included."""
    start = time.perf_counter()
    from hatch_tensoracle.config import HookConfig
    from hatch_tensoracle.incremental import make_bundle

    table = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    (library,) = HookConfig.from_table(table["hooks"]["tensoracle"]).libraries
    with tempfile.TemporaryDirectory() as directory:
        make_bundle(library, EXAMPLE, Path(directory) / "bundle", lambda line: print(line, file=sys.stderr))
        return time.perf_counter() - start


def baseline() -> float:
    """Seconds of importing what the kernels file imports."""
    start = time.perf_counter()
    import triton.language  # noqa: F401

    return time.perf_counter() - start


SIDES = {"step": step, "triton": baseline}


def timed(side: str, cache: str) -> tuple[float, float]:
    """Seconds that a fresh process has measured: of the side by the clock, and of the processor's in all."""
    environment = os.environ | {"TENSORACLE_CACHE_DIR": cache}
    command = [sys.executable, __file__, side]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    clock, processor = map(float, printed.split())
    return clock, processor


def main() -> None:
    """Measure and print, or run one side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", nargs="?", choices=SIDES)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--cache", help="a directory that may be warm (default: a new one)")
    options = parser.parse_args()
    if options.side:
        print(SIDES[options.side](), time.process_time())
        return
    with tempfile.TemporaryDirectory() as directory:
        cache = options.cache or directory
        print(describe_machine())
        print(f"first: {timed('step', cache)[0]:.1f} s")
        measured: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
        for _ in range(options.runs):
            for side, seconds in measured.items():
                seconds.append(timed(side, cache))
    medians = {
        side: [statistics.median(column) for column in zip(*rows, strict=True)] for side, rows in measured.items()
    }
    for side, (clock, processor) in medians.items():
        print(f"{side}: medians of {options.runs}: {clock:.3f} s by the clock, {processor:.3f} s of processor time")
    ratios = [one / other for one, other in zip(medians["step"], medians["triton"], strict=True)]
    print(f"the step takes {ratios[0]:.2f} and {ratios[1]:.2f} of importing Triton")


if __name__ == "__main__":
    main()
