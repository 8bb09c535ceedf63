"""Measures the launcher and the example's kernels on this machine's GPU: `measure.py DIRECTORY --output RESULTS`.

DIRECTORY is what tests/gpu/pack.py made. Writes RESULTS.md and RESULTS.json. About six minutes, or one with --quick.
Every part is a process of its own: one that fails, hangs or loses the GPU leaves the others, and its own rows so far.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from records import Report, Row, Section

__all__ = ["Part", "main", "rows_of"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One question, and the script that answers it."""

    script: str
    title: str
    seconds: int
    quick_seconds: int


PARTS = {
    "enqueue": Part(script="enqueue_time.py", title="Host time of enqueue", seconds=40, quick_seconds=10),
    "first": Part(script="first_launch.py", title="Library load to first launch", seconds=70, quick_seconds=15),
    "jit": Part(script="jit_parity.py", title="Kernels against Triton's JIT", seconds=80, quick_seconds=12),
    "norm": Part(script="norm_bandwidth.py", title="Add + RMSNorm against a copy", seconds=75, quick_seconds=12),
    "matmul": Part(script="matmul_gelu.py", title="MatmulBiasGelu against cuBLAS", seconds=80, quick_seconds=12),
}
_GRACE = 45
"""Seconds that a case may take beyond the time in which it may begin."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts. Returns 1 if a part failed or a row of it has no figures; missed goals are results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--output", type=Path, default=Path("gpu"), help="without suffix")
    parser.add_argument("--quick", action="store_true", help="fewer cases and repetitions")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--driver", default="libcuda.so.1", help="the driver's library")
    parser.add_argument("--fake-sm", type=int, default=0, help="the SM that a fake driver plays")
    options = parser.parse_args(arguments)
    further = ["--driver", options.driver, "--fake-sm", str(options.fake_sm)]
    sections = []
    with tempfile.TemporaryDirectory(prefix="tensoracle-gpu-") as scratch:
        environment = _environment(options.directory, Path(scratch))
        for name in options.parts:
            sections.append(_run(PARTS[name], options, further, environment, Path(scratch)))
            report = Report(machine=_machine(options.directory), sections=tuple(sections))
            _write(report, options.output)  # after every part: what was measured is kept, whatever comes
    print(report.to_markdown())
    return 1 if any(row.failure for section in sections for row in section.rows) else 0


def rows_of(file: Path) -> list[Row]:
    """The whole lines of a part's file."""
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return [Row.parse(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _run(
    part: Part, options: argparse.Namespace, further: list[str], environment: Mapping[str, str], scratch: Path
) -> Section:
    seconds = part.quick_seconds if options.quick else part.seconds
    rows_file = scratch / f"{part.script}.rows"
    command: list[str | Path] = [sys.executable, HERE / part.script, options.directory, "--rows", rows_file]
    command += ["--seconds", str(seconds), *further, *(["--quick"] if options.quick else [])]
    print(f"{part.title} ...", file=sys.stderr, flush=True)
    begin = time.monotonic()
    failure = ""
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdout=sys.stderr,
            stderr=subprocess.PIPE,
            text=True,
            timeout=seconds + _GRACE,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            failure = f"{part.script} ended with status {done.returncode}: {last}"
            print(done.stderr, file=sys.stderr)
    except subprocess.TimeoutExpired:
        failure = f"{part.script} was stopped after {seconds + _GRACE} s"
    rows = rows_of(rows_file)
    if failure:
        rows.append(Row(case="the part itself", failure=failure))
    return Section(title=part.title, rows=tuple(rows), seconds=time.monotonic() - begin)


def _environment(directory: Path, scratch: Path) -> dict[str, str]:
    """With this repository, the example's kernels, what DIRECTORY brings, and empty caches that end with the run."""
    paths = [ROOT, ROOT / "producer", ROOT / "example_plugin", (directory / "python").resolve()]
    before = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *([before] if before else [])]),
        "PYTHONUNBUFFERED": "1",
        "TENSORACLE_CACHE_DIR": str(scratch / "tensoracle"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # workers take longer to start than these few kernels to compile
    }


def _machine(directory: Path) -> dict[str, str]:
    tools = {
        name: ", ".join(f"{tool} {version}" for tool, version in _manifest(directory, name)["tools"].items())
        for name in ("example", "launch")
    }
    versions = [f"{name} {version}" for name in ("torch", "triton", "numpy") if (version := _version(name))]
    return {
        "Date": dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d"),
        "GPU": _gpu(),
        "System": f"{platform.platform()}, Python {platform.python_version()}, {', '.join(versions) or 'no torch'}",
        "Libraries": f"kernels by {tools['example']}",
        "Command": shlex.join(["python", "benchmarks/gpu/measure.py", *sys.argv[1:]]),
    }


def _manifest(directory: Path, name: str) -> dict[str, dict[str, str]]:
    content: dict[str, dict[str, str]] = json.loads((directory / name / "bundle" / "bundle.json").read_bytes())
    return content


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpu() -> str:
    program = which("nvidia-smi")
    if program is None:
        return "unknown: there is no nvidia-smi"
    query = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    name, _, driver = (done.stdout.splitlines() or ["unknown"])[0].partition(", ")
    return f"{name}, driver {driver}"


def _write(report: Report, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".md").write_text(report.to_markdown(), encoding="utf-8")
    output.with_suffix(".json").write_text(report.to_json(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
