"""`import hatch_tensoracle` above bare Python: `python benchmarks/import_time.py`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from machine import describe_machine

RUNS = 30


def timed(code: str) -> float:
    """Milliseconds of a fresh Python that runs `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Alternate both and print the difference of the medians."""
    measured: dict[str, list[float]] = {"pass": [], "import hatch_tensoracle": []}
    for _ in range(RUNS):
        for code, milliseconds in measured.items():
            milliseconds.append(timed(code))
    bare, package = (statistics.median(milliseconds) for milliseconds in measured.values())
    print(describe_machine())
    print(f"bare Python {bare:.1f} ms, with the import {package:.1f} ms: {package - bare:.1f} ms above")


if __name__ == "__main__":
    main()
