"""The build hook's own time for the example with warm caches: all but CMake, Ninja and the compiler.

`python benchmarks/build_hook.py`. Each run is a fresh process that builds the example with hatchling; medians count.
`producing` ends where the C++ build begins, `packing` begins where it has ended: inspection of bundle and wheel, and
hatchling's own packing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from machine import describe_machine

EXAMPLE = Path(__file__).resolve().parent.parent / "example_plugin"
PHASES = ("all", "compiling C++", "own", "producing", "packing", "own on the processor")


def build(project: Path) -> dict[str, float]:
    """Seconds of a build of the project in this process."""
    start = time.perf_counter()
    from hatchling.builders.wheel import WheelBuilder

    from hatch_tensoracle._process import run

    spans = []

    def timed(command: Sequence[str | Path], **options: Any) -> object:
        begin = time.perf_counter()
        try:
            return run(command, **options)
        finally:
            spans.append((begin, time.perf_counter()))

    with mock.patch("hatch_tensoracle.cmake.run", timed):
        list(WheelBuilder(str(project)).build(directory=str(project / "dist"), versions=["standard"]))
    end = time.perf_counter()
    tools = sum(stop - begin for begin, stop in spans)
    own = end - start - tools
    seconds = (end - start, tools, own, spans[0][0] - start, end - spans[-1][1], time.process_time())
    return dict(zip(PHASES, seconds, strict=True))


def main() -> None:
    """Measure and print, or build once and print as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", nargs="?", type=Path, help="build this one in this process, without measuring")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.project is not None:
        print(json.dumps(build(options.project)))
        return
    measured = []
    with tempfile.TemporaryDirectory() as directory:
        project = Path(shutil.copytree(EXAMPLE, Path(directory) / "example", ignore=shutil.ignore_patterns("*.so")))
        for _ in range(options.runs + 1):  # the first one warms the caches
            command = [sys.executable, __file__, str(project)]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True)
            measured.append(json.loads(done.stdout.splitlines()[-1]))
    print(describe_machine())
    for phase in PHASES:
        runs = [run[phase] for run in measured[1:]]
        print(f"{phase}: median {statistics.median(runs):.2f} s of {', '.join(f'{run:.2f}' for run in runs)}")


if __name__ == "__main__":
    main()
