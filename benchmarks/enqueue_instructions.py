"""Instructions of one enqueue with 20 arguments and two variants, the driver's own not counted.

`python benchmarks/enqueue_instructions.py`. valgrind's callgrind counts, on the fake driver, so the figure does not
depend on the machine's load. Two cases: the first variant accepts the arguments, and it refuses the last of them.
Exits with 1 if either needs 1,500 instructions or more.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

from machine import describe_machine

from hatch_tensoracle.cmake import build_library
from hatch_tensoracle.testing import native

EXECUTIONS = 1000
LIMIT = 1500
ENQUEUE = "non-virtual thunk to tensoracle::Plugin::enqueue*"
SOURCE = Path(__file__).with_suffix(".cpp")
INCLUDE = Path(__file__).resolve().parents[1] / "cpp" / "include"


def make_library(directory: Path) -> Path:
    """The plugin, around the kernel in its two variants: all divisible by 16, and any."""
    from kernels import twenty  # type: ignore[attr-defined,unused-ignore]

    from tensoracle_producer import KernelSpec, Pointer, Scalar, compile_bundle

    def variant(divisor: int) -> KernelSpec:
        pointers = [Pointer("fp32", divisible_by=divisor)] * 8
        integers = [Scalar("i32", divisible_by=divisor)] * 7
        floats = [Scalar("fp32")] * 4
        return KernelSpec(twenty, name="twenty", arguments=[*pointers, *integers, *floats, integers[0]])

    compile_bundle([variant(16), variant(1)], ["sm86"], directory / "bundle")
    build_library(directory / "bundle", [SOURCE], directory / "libtwenty.so")
    return directory / "libtwenty.so"


def count(program: Path, library: Path, last: int, output: Path) -> float:
    """Instructions of an execution whose last argument is `last`."""
    counting = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", f"--toggle-collect={ENQUEUE}"]
    command: list[str | Path] = [
        *counting,
        program,
        native.build(native.FAKE_DRIVER),
        library,
        str(last),
        str(EXECUTIONS),
    ]
    subprocess.run(command, check=True, capture_output=True)
    report = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(output)]
    lines = subprocess.run(report, check=True, capture_output=True, text=True).stdout.splitlines()
    return (cost(lines, "PROGRAM TOTALS") - cost(lines, "cuLaunchKernel")) / EXECUTIONS


def cost(lines: list[str], function: str) -> int:
    """What a function and all that it calls have cost."""
    found = [line for line in lines if re.search(rf"[:\s]{function}( \[|$)", line)]
    return max(int(line.split()[0].replace(",", "")) for line in found)  # parts of it may stand in lines of their own


def main() -> int:
    """Print both figures."""
    print(describe_machine())
    figures = []
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        library, program = make_library(directory), directory / "program"
        subprocess.run(
            [which("g++") or "g++", "-std=c++17", "-O2", "-DMAIN", "-I", INCLUDE, SOURCE, "-o", program, "-ldl"],
            check=True,
        )
        for last, case in ((16, "the first variant accepts"), (17, "the first variant refuses the last argument")):
            figures.append(count(program, library, last, directory / f"out.{last}"))
            print(f"{figures[-1]:8.1f} instructions: {case}")
    return 0 if max(figures) < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
