"""The tools that have a part in a cubin's bytes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle._process import run, tool_of
from hatch_tensoracle.errors import BuildError
from tensoracle_producer.errors import ToolchainError

__all__ = ["PTX_DRIVERS", "Toolchain", "find_toolchain", "source_digest"]

# CUDA Toolkit Release Notes, table 2: drivers under which code of any minor release runs (Linux x86_64).
_MINIMUM_DRIVERS = {12: "525.60.13", 13: "580.65.06"}
PTX_DRIVERS = {
    "8.0": "525.60.13",
    "8.1": "530.30.02",
    "8.2": "535.54.03",
    "8.3": "545.23.06",
    "8.4": "550.54.14",
    "8.5": "555.42.02",
    "8.7": "570.26",
    "8.8": "575.51.03",
    "9.0": "580.65.06",
}
"""Versions of the PTX ISA from the oldest on, and the first driver that compiles each: that of the CUDA Toolkit which
brought it (PTX ISA, release notes; CUDA Toolkit Release Notes, table 3: 12.0 to 13.0). No toolkit brought 8.6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What compiles kernels here."""

    triton: str
    """Version of Triton."""
    ptxas: Path
    ptxas_version: str

    @property
    def versions(self) -> dict[str, str]:
        """For the manifest."""
        return {"triton": self.triton, "ptxas": self.ptxas_version}

    def minimum_driver(self, ptx_versions: Iterable[str] = ()) -> str:
        """The oldest Linux driver that is documented to run what ptxas makes, and to compile PTX of these versions.

        That cubins run on older drivers of the same CUDA major version does not hold for PTX.
        """
        drivers = [_MINIMUM_DRIVERS[int(self.ptxas_version.partition(".")[0])]]
        drivers += [PTX_DRIVERS[version] for version in ptx_versions]
        return max(drivers, key=lambda driver: tuple(map(int, driver.split("."))))


def find_toolchain(ptxas: Path | None = None) -> Toolchain:
    """Find Triton and ptxas: the one given, else that of nvidia-cuda-nvcc-cu12. Raises ToolchainError."""
    try:
        triton = importlib.metadata.version("triton")
        path = ptxas.absolute() if ptxas else tool_of("nvidia-cuda-nvcc-cu12", "ptxas")  # workers run elsewhere
    except (importlib.metadata.PackageNotFoundError, FileNotFoundError) as error:
        message = f"{error} is not installed"
        raise ToolchainError(message, remedy="Install hatch-tensoracle[producer].") from error
    return Toolchain(triton=triton, ptxas=path, ptxas_version=_version(path))


def source_digest(files: Iterable[str | Path | None]) -> str:
    """SHA-256 over files of our own: an editable installation keeps its version while its code changes."""
    content = sorted((path.name, path.read_bytes()) for path in [Path(file) for file in files if file is not None])
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _version(ptxas: Path) -> str:
    try:
        output = run([ptxas, "--version"], what="ptxas").stdout
    except BuildError as error:
        raise ToolchainError(error.cause, remedy="Name another ptxas.") from error
    version = re.search(r"^Cuda compilation tools,.* V(\d+\.\d+\.\d+)$", output, re.MULTILINE)
    is_ptxas = "Ptx optimizing assembler" in output  # before it stands the name that it was started by
    if not is_ptxas or version is None or int(version[1].partition(".")[0]) not in _MINIMUM_DRIVERS:
        known = ", ".join(map(str, _MINIMUM_DRIVERS))
        message = f"{ptxas} is no ptxas of CUDA {known}: it says {textwrap.shorten(output, 200)!r}"
        raise ToolchainError(message, remedy="Name another ptxas.")
    return version[1]
