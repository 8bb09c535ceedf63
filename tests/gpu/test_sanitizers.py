"""compute-sanitizer finds nothing in the kernels, and finds what is there to be found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def sanitizer() -> str:
    found = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if found is None:
        pytest.skip("compute-sanitizer is not on PATH and not in /usr/local/cuda/bin")
    return found


def watch(sanitizer: str, tool: str, *arguments: str | Path) -> tuple[int, str]:
    """The exit status of the watched program, and what was printed."""
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", "gpu.sanitized"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=100,
    )
    if "Device not supported" in done.stdout:
        pytest.skip(f"{tool}: {done.stdout.strip()[-300:]}")
    return done.returncode, done.stdout


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_kernels_are_clean(sanitizer: str, library: Path, tool: str) -> None:
    status, printed = watch(sanitizer, tool, library)
    assert status == 0, printed[-6000:]


@pytest.mark.parametrize(
    ("tool", "defect", "finding"),
    [
        ("memcheck", "short", "Invalid __global__ write"),
        ("initcheck", "unwritten", "Uninitialized __global__ memory read"),
    ],
)
def test_defects_are_found(sanitizer: str, library: Path, tool: str, defect: str, finding: str) -> None:
    """Or the tests before could not fail."""
    status, printed = watch(sanitizer, tool, library, defect)
    assert status != 0, printed[-6000:]
    assert finding in printed, printed[-6000:]
