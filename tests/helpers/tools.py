"""The tools that tests call themselves, as independent truth or to build inputs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

__all__ = ["PTXAS", "PTXAS_13", "SITE", "assemble", "cuobjdump", "run", "tool"]

SITE = Path(sysconfig.get_path("purelib"))
"""Where Triton and ptxas are installed."""
PTXAS = SITE / "nvidia/cuda_nvcc/bin/ptxas"
"""Of CUDA 12.9, which the producer uses."""
PTXAS_13 = SITE / "triton/backends/nvidia/bin/ptxas-blackwell"


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed and return what it printed."""
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tool(name: str) -> Path:
    """Find a program of the system; without it the test is skipped."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return Path(path)


def cuobjdump(*options: str | Path) -> str:
    """Run the reader of cubins that comes with Triton."""
    return run(SITE / "triton/backends/nvidia/bin/cuobjdump", *options)


def assemble(ptx: str, directory: Path, *, target: str, ptxas: Path = PTXAS) -> Path:
    """Make a cubin of PTX below the directory, for a target such as sm_90a."""
    (directory / "kernel.ptx").write_text(ptx)
    cubin = directory / f"{target}.cubin"
    run(ptxas, "--gpu-name", target, directory / "kernel.ptx", "-o", cubin)
    return cubin
