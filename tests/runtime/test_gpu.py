"""What a driver says of its GPU, read from a stub of libcuda.so.1: each in a process, which has one driver for life."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.tools import run, tool

from hatch_tensoracle.runtime.gpu import GpuIdentity

RTX_4090 = GpuIdentity(
    name="GPU A",
    compute_capability="8.9",
    total_memory=25_757_220_864,
    multiprocessors=128,
    l2_bytes=75_497_472,
    memory_bus_width=384,
)

CHILD = """
import ctypes, dataclasses, json, sys
if len(sys.argv) > 1:
    ctypes.CDLL(sys.argv[1])
from hatch_tensoracle.runtime.errors import GpuError
from hatch_tensoracle.runtime.gpu import current_gpu
try:
    print(json.dumps(dataclasses.asdict(current_gpu())))
except GpuError as error:
    sys.exit(str(error))
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("stub") / "libcuda.so.1"
    source = Path(__file__).with_name("gpu_stub.cpp")
    flags = ("-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libcuda.so.1")
    run(tool("g++"), *flags, source, "-o", library)
    return library


def reading(stub: Path | None, **environment: object) -> subprocess.CompletedProcess[str]:
    variables = {f"STUB_{name.upper()}": str(value) for name, value in environment.items()}
    command = [sys.executable, "-c", CHILD, *([str(stub)] if stub else [])]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)


def read(stub: Path, **environment: object) -> GpuIdentity:
    done = reading(stub, **environment)
    assert done.returncode == 0, done.stderr
    return GpuIdentity(**json.loads(done.stdout))


def test_a_gpu_is_known_by_six_properties(stub: Path) -> None:
    assert read(stub) == RTX_4090


def test_the_device_of_the_current_context_is_read(stub: Path) -> None:
    assert read(stub, context=1).name == "GPU B"


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        pytest.param({"name": "Größe\x07"}, "name", "Größe\x07", id="name"),
        pytest.param({"memory": 1 << 34}, "total_memory", 1 << 34, id="memory"),
        pytest.param({"attribute_16": 114}, "multiprocessors", 114, id="multiprocessors"),
        pytest.param({"attribute_37": 256}, "memory_bus_width", 256, id="bus"),
        pytest.param({"attribute_38": 1 << 20}, "l2_bytes", 1 << 20, id="L2"),
        pytest.param({"attribute_75": 12}, "compute_capability", "12.9", id="major"),
        pytest.param({"attribute_76": 0}, "compute_capability", "8.0", id="minor"),
    ],
)
def test_each_property_is_told_apart(stub: Path, said: dict[str, object], field: str, value: Any) -> None:
    assert read(stub, **said) == dataclasses.replace(RTX_4090, **{field: value})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        pytest.param({"fails": "cuInit"}, "cuInit fails with CUDA_ERROR_UNKNOWN", id="no device"),
        pytest.param({"fails": "cuDeviceGetName"}, "the GPU's name cannot be read", id="name"),
        pytest.param({"name": ""}, "the GPU's name cannot be read", id="empty name"),
        pytest.param({"fails": "cuDeviceTotalMem_v2"}, "total memory cannot be read", id="memory"),
        pytest.param({"memory": 0}, "total memory cannot be read", id="no memory"),
        pytest.param({"attribute_16": 0}, "number of multiprocessors cannot be read", id="multiprocessors"),
        pytest.param({"attribute_37": -1}, "width of the memory bus cannot be read", id="bus"),
        pytest.param({"attribute_38": 0}, "size of the L2 cache cannot be read", id="L2"),
        pytest.param({"fails": "cuDeviceGetAttribute"}, "cuDeviceGetAttribute fails", id="attribute"),
        pytest.param({"fails": "cuCtxGetDevice", "context": 1}, "device of the current context", id="context"),
    ],
)
def test_a_property_that_cannot_be_read_is_an_error(stub: Path, said: dict[str, object], message: str) -> None:
    done = reading(stub, **said)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_driver_without_a_function_is_an_error(stub: Path, tmp_path: Path) -> None:
    source = Path(__file__).with_name("gpu_stub.cpp").read_text().replace("cuDeviceTotalMem_v2(", "somethingElse(")
    (tmp_path / "old.cpp").write_text(source)
    library = tmp_path / stub.name
    run(tool("g++"), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", tmp_path / "old.cpp", "-o", library)
    assert "the driver has no cuDeviceTotalMem_v2" in reading(library).stderr


def test_no_driver_is_an_error(stub: Path, tmp_path: Path) -> None:
    """A file that is found under the driver's name and cannot be loaded, so that a real driver is not."""
    (tmp_path / stub.name).write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the CUDA driver cannot be loaded" in done.stderr
