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


REGISTER_ONCE = """
import json, sys
from hatch_tensoracle.runtime import PluginLibraryError, register_plugins
runtime, library, other = sys.argv[1:]
first, again = register_plugins([library, library], runtime)
try:
    register_plugins([other], runtime)
except PluginLibraryError as error:
    print(json.dumps([first is again, [creator.name for creator in first.creators], str(error)]))
"""


@pytest.mark.parametrize("version", versions(LEAN))
def test_a_lean_runtime_registers_both_plugins(sites: Path, library: str, version: str) -> None:
    seen = json.loads(run(installed(sites, "lean", version), "-c", REGISTER, library))
    assert seen == [version, [True], {"AddRmsNorm": ["epsilon"], "MatmulBiasGelu": ["bias", "tf32"]}]


def assert_registered_once(site: Path, runtime: str, library: str, tmp_path: Path) -> None:
    other = tmp_path / "libother.so"
    other.write_bytes(Path(library).read_bytes() + b"another")
    is_one, creators, refusal = json.loads(run(site, "-c", REGISTER_ONCE, runtime, library, str(other)))
    assert is_one
    assert creators == ["AddRmsNorm", "MatmulBiasGelu"]
    assert f"has plugin AddRmsNorm version 1 already, of {library}" in refusal


@pytest.mark.parametrize("version", versions(LEAN))
def test_the_runtime_package_registers_once_in_a_lean_runtime(
    sites: Path, library: str, tmp_path: Path, version: str
) -> None:
    assert_registered_once(installed(sites, "lean", version), "tensorrt_lean", library, tmp_path)


@pytest.mark.parametrize("version", versions(RTX))
def test_the_runtime_package_registers_once_in_tensorrt_rtx(
    sites: Path, library: str, tmp_path: Path, version: str
) -> None:
    assert_registered_once(installed(sites, "rtx", version), "tensorrt_rtx", library, tmp_path)


BUILD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from runtime.graphs import RESHAPE_INPUTS, reshape
from hatch_tensoracle.runtime import BuilderSettings, EngineBuild, build_serialized_engine
settings = BuilderSettings(compute_capabilities=("sm86", "sm89"), optimization_level=2, aliased_plugin_io=True)
declaration = EngineBuild(precision="fp32", inputs=RESHAPE_INPUTS, settings=settings, runtime="tensorrt_rtx")
print(len(build_serialized_engine(reshape, declaration)))
"""


@pytest.mark.parametrize("version", versions(RTX))
def test_the_runtime_package_builds_an_engine_in_tensorrt_rtx(sites: Path, version: str) -> None:
    assert int(run(installed(sites, "rtx", version), "-c", BUILD)) > 1000
