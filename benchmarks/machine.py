"""What a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from shutil import which

__all__ = ["describe_machine"]


def describe_machine() -> str:
    """Processor, cores, memory and the versions that matter, one line each."""
    models = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    }
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    compiler = subprocess.run([which("g++") or "g++", "--version"], capture_output=True, text=True, check=True).stdout
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("triton", "nvidia-cuda-nvcc-cu12", "cmake")]
    return "\n".join(
        (
            f"{', '.join(models)}; {len(os.sched_getaffinity(0))} cores, {memory} GiB",
            f"{platform.platform()}; Python {platform.python_version()}; {compiler.partition(chr(10))[0]}",
            "; ".join(versions),
        )
    )
