"""One library file in every TensorRT that can be had without a GPU; all but the oldest and the newest on request.

`pytest -m "every_runtime or not every_runtime" tests/test_every_runtime.py` runs all; docs/runtimes.md has the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from helpers import two_plugins

RTX = ("1.4.0.76", "1.5.0.114", "1.6.1.120", "1.7.1.116")
LEAN = ("10.15.1.29", "10.16.1.11", "11.0.0.114", "11.2.1.2", "11.4.0.106")
REGISTER = """
import json, sys
import tensorrt_lean_bindings as trt
registry = trt.get_plugin_registry()
loaded = [registry.load_library(path) is not None for path in sys.argv[1:]]
found = {creator.name: [field.name for field in creator.field_names] for creator in registry.all_creators}
print(json.dumps([trt.__version__, loaded, {name: found.get(name) for name in ("AddRmsNorm", "MatmulBiasGelu")}]))
"""


def versions(known: tuple[str, ...]) -> list[object]:
    """The versions as parameters; those between the oldest and the newest only on request."""
    between = [pytest.param(version, marks=pytest.mark.every_runtime) for version in known[1:-1]]
    return [known[0], *between, known[-1]]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the versions are installed, each in a directory of its own."""
    return tmp_path_factory.mktemp("runtimes")


@cache
def installed(sites: Path, family: str, version: str) -> Path:
    """Install one version without what it depends on, which is fetched from elsewhere."""
    site = sites / f"{family}-{version}"
    parts = ("", "-libs", "-bindings") if family == "rtx" else ("-libs", "-bindings")
    packages = [f"tensorrt-{family}-cu13{part}=={version}" for part in parts]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), *packages]
    subprocess.run(command, check=True, capture_output=True)
    if family == "rtx":  # the name that its ONNX parser loads it by
        (library,) = (site / "tensorrt_rtx_libs").glob("libtensorrt_rtx.so.1*")
        (site / "libtensorrt_rtx.so").symlink_to(library)
    return site


def run(site: Path, *command: str) -> str:
    """Run Python with the packages of one runtime before all others; return the last line that it prints."""
    environment = os.environ | {"PYTHONPATH": str(site), "LD_LIBRARY_PATH": str(site)}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def library(example_output: Path) -> str:
    """The example's library."""
    return str(example_output / "example_plugin" / "libexample_plugin.so")


@pytest.mark.parametrize("version", versions(RTX))
def test_tensorrt_rtx_builds_an_engine_with_both_plugins(sites: Path, library: str, version: str) -> None:
    built = json.loads(run(installed(sites, "rtx", version), two_plugins.__file__, library, "table"))
    assert built["version"] == version
    assert built["outputs"] == {"y": ["HALF", [-1, 64]], "r": ["HALF", [-1, 64]]}
    assert built["plan_bytes"] > 0


def test_the_onnx_parser_of_tensorrt_rtx_takes_both_plugins_in_one_model(sites: Path, library: str) -> None:
    """Those of 1.4 to 1.6 take no plugins at all."""
    built = json.loads(run(installed(sites, "rtx", "1.7.1.116"), two_plugins.__file__, library, "onnx"))
    assert built["outputs"] == {"y": ["HALF", [-1, 64]], "r": ["HALF", [-1, 64]]}
    assert built["plan_bytes"] > 0


@pytest.mark.parametrize("version", versions(LEAN))
def test_a_lean_runtime_registers_both_plugins(sites: Path, library: str, version: str) -> None:
    seen = json.loads(run(installed(sites, "lean", version), "-c", REGISTER, library))
    assert seen == [version, [True], {"AddRmsNorm": ["epsilon"], "MatmulBiasGelu": ["bias", "tf32"]}]
