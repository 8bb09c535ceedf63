"""Artifacts that many tests read. They are built once; a test that damages one copies it first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TERMINAL = ("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables by which rich takes what is no terminal for one, or for another."""


@pytest.fixture(scope="session", autouse=True)
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What earlier runs and the user have cached has no part in the tests, nor has what the terminal is like."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")  # once a week it would ask the index
        for name in TERMINAL:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def example_project() -> Path:
    """The example's source tree, to be copied before anything is written below it."""
    return ROOT / "example_plugin"


@pytest.fixture(scope="session")
def example_output(tmp_path_factory: pytest.TempPathFactory, example_project: Path) -> Path:
    """What `hatch-tensoracle build` makes of the example: `bundle/` and `example_plugin/libexample_plugin.so`."""
    return _build(example_project, tmp_path_factory.mktemp("example-output"))


@pytest.fixture(scope="session")
def example_library(example_output: Path) -> Path:
    """Its plugin library, with AddRmsNorm and MatmulBiasGelu."""
    return example_output / "example_plugin" / "libexample_plugin.so"


@pytest.fixture(scope="session")
def all_fields(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the package `all_fields`, whose plugin AllFields tells the log what it was given."""
    output = _build(ROOT / "tests" / "packages" / "all_fields", tmp_path_factory.mktemp("all-fields"))
    return output / "all_fields" / "liball_fields.so"


def _build(project: Path, output: Path) -> Path:
    command = [sys.executable, "-m", "hatch_tensoracle", "build", str(project), "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True)
    return output


@pytest.fixture(scope="session")
def example_wheel(tmp_path_factory: pytest.TempPathFactory, example_project: Path) -> Path:
    """The example's wheel, built by pip in this environment."""
    directory = tmp_path_factory.mktemp("example-wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(directory)]
    subprocess.run([*command, str(example_project)], check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle directory of one small kernel for sm86, sm89 and sm120."""
    return _compile_copy(tmp_path_factory.mktemp("tiny") / "bundle", ["sm86", "sm89", "sm120"])


@pytest.fixture(scope="session")
def cubin(tiny_bundle: Path) -> bytes:
    """Its cubin for sm86, of 128 threads."""
    (file,) = tiny_bundle.glob("cubins/*.sm86.cubin")
    return file.read_bytes()


@pytest.fixture(scope="session")
def ptx_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same kernel for sm120, and as PTX for sm89."""
    return _compile_copy(tmp_path_factory.mktemp("ptx") / "bundle", ["sm120"], ptx="sm89")


def _compile_copy(directory: Path, targets: list[str], ptx: str | None = None) -> Path:
    from helpers.kernels import copy

    from tensoracle_producer import KernelSpec, Pointer, Scalar, compile_bundle

    arguments: list[Pointer | Scalar] = [Pointer("fp32"), Pointer("fp32", divisible_by=16), Scalar("i32")]
    spec = KernelSpec(copy, name="copy", arguments=arguments, constants={"BLOCK": 64})
    compile_bundle([spec], targets, directory, ptx=ptx)
    return directory
