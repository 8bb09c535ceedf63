"""Cold bundles of 8 and of 200 kernels for 4 targets, time for each compile: `python benchmarks/scale.py`.

The 200 are the 8 under 25 names each; every one is compiled. Processor time is given beside time on the clock, since
machines are shared; it has in it all that `compile_bundle` does, and starting the workers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from machine import describe_machine

TARGETS = ("sm86", "sm89", "sm90", "sm120")


def compiled(copies: int) -> dict[str, float]:
    """Seconds of one bundle, divided by its compiles."""
    from kernels import KERNELS

    from tensoracle_producer import compile_bundle

    specs = [dataclasses.replace(spec, name=f"{spec.name}_{n}") for n in range(copies) for spec in KERNELS]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        bundle = compile_bundle(specs, TARGETS, f"{directory}/bundle")
    count = sum(1 for _ in bundle.codes())
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "compiles": count,
        "clock": (time.perf_counter() - start) / count,
        "processor": sum(usage.ru_utime + usage.ru_stime for usage in used) / count,
        "megabytes": used[0].ru_maxrss / 1024,
    }


def measured(copies: int) -> dict[str, float]:
    """The same in a fresh process with a cold cache."""
    with tempfile.TemporaryDirectory() as cold:
        environment = os.environ | {"TENSORACLE_CACHE_DIR": cold}
        command = [sys.executable, __file__, "--one", str(copies)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    print(
        f"{found['compiles']:.0f} compiles: {found['clock']:.3f} s each by the clock, {found['processor']:.3f} s of"
        f" processor time, {found['megabytes']:.0f} MB in the process that calls",
        flush=True,
    )
    return found


def main() -> None:
    """Measure small, large, small, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", type=int, metavar="COPIES", help="one bundle only, as JSON")
    parser.add_argument("--copies", type=int, default=25)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compiled(options.one)))
        return
    print(describe_machine())
    before, large, after = (measured(copies) for copies in (1, options.copies, 1))
    for name in ("clock", "processor"):
        small = (before[name] + after[name]) / 2
        print(f"{name}: {large[name] / small:.2f} of that of 8 kernels")


if __name__ == "__main__":
    main()
