"""What importing the package and its runtime takes above bare Python: `python benchmarks/import_time.py`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from machine import describe_machine

RUNS = 30
IMPORTS = ("import hatch_tensoracle", "import hatch_tensoracle.runtime", "from hatch_tensoracle.runtime import *")


def timed(code: str) -> float:
    """Milliseconds of a fresh Python that runs `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Alternate them and print the differences of the medians."""
    measured: dict[str, list[float]] = {code: [] for code in ("pass", *IMPORTS)}
    for _ in range(RUNS):
        for code, milliseconds in measured.items():
            milliseconds.append(timed(code))
    medians = {code: statistics.median(milliseconds) for code, milliseconds in measured.items()}
    bare = medians.pop("pass")
    print(describe_machine())
    print(f"bare Python: {bare:.1f} ms")
    for code, median in medians.items():
        print(f"{code}: {median:.1f} ms, {median - bare:.1f} ms above")


if __name__ == "__main__":
    main()
