"""What this machine has. Another process looks: the answer of a fake driver in this one would be of no use."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PACK", "ROOT", "Machine", "packed"]

ROOT = Path(__file__).resolve().parents[2]
PACK = Path(os.environ.get("TENSORACLE_GPU_PACK") or ROOT / "build" / "gpu")
"""The folder that pack.py has made."""


def packed(name: str) -> Path:
    """The library of the example that pack.py calls `example`, `older` or `ptx`; its manifest lies beside it."""
    return PACK / name / "example_plugin" / "libexample_plugin.so"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """GPUs and driver, or why there are none."""

    absence: str = ""
    """Why no GPU can be used; empty if one can."""
    gpus: tuple[str, ...] = ()
    sms: tuple[int, ...] = ()
    """Of each GPU: 90 for compute capability 9.0."""
    cuda: str = ""
    """What the driver supports."""
    driver: str = ""
    """Its release."""
    library: str = ""
    """The path of libcuda.so.1."""

    @classmethod
    @functools.cache
    def this(cls) -> Machine:
        """Look, once."""
        done = subprocess.run(
            [sys.executable, "-m", "gpu.machine"],
            cwd=ROOT / "tests",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if done.returncode:
            return cls(absence=f"asking the CUDA driver ended with status {done.returncode}: {done.stderr[-500:]}")
        return cls(**json.loads(done.stdout))


def look() -> Machine:
    """Ask the driver. Its own messages are the cause of an absence."""
    from hatch_tensoracle.testing import Cuda, CudaError

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        missing = "cannot open shared object file" in str(error)
        return Machine(absence=f"no CUDA driver: {'libcuda.so.1 is not found' if missing else error}")
    try:
        cuda = Cuda()
        number = ctypes.c_int()
        cuda.call("cuDriverGetVersion", ctypes.byref(number))
        version = number.value
        cuda.call("cuDeviceGetCount", ctypes.byref(number))
    except CudaError as error:
        return Machine(absence=f"no GPU: {error}")
    names, sms = [], []
    for device in range(number.value):
        name = ctypes.create_string_buffer(256)
        cuda.call("cuDeviceGetName", name, 256, device)
        names.append(name.value.decode())
        parts = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
            value = ctypes.c_int()
            cuda.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            parts.append(value.value)
        sms.append(10 * parts[0] + parts[1])
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    (library,) = {line.split(maxsplit=5)[5] for line in maps if "/libcuda.so" in line}
    told = Path("/proc/driver/nvidia/version")
    release = re.search(r"\d+\.\d+[.\d]*", told.read_text(encoding="utf-8")) if told.is_file() else None
    return Machine(
        absence="" if names else "no GPU: the driver has found none",
        gpus=tuple(names),
        sms=tuple(sms),
        cuda=f"{version // 1000}.{version % 1000 // 10}",
        driver=release.group() if release else "of an unknown release",
        library=library,
    )


if __name__ == "__main__":
    import dataclasses

    print(json.dumps(dataclasses.asdict(look())))
