"""Native parts are compiled with every warning an error; the plugin that the harness is tested with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_tensoracle.testing import native

INCLUDE = Path(__file__).resolve().parents[2] / "cpp" / "include"


@pytest.fixture(autouse=True, scope="session")
def _strict_compiler() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.FLAGS_VARIABLE, "-Wall -Wextra -Werror")
        yield


@pytest.fixture(scope="session")
def example_library(example_output: Path) -> Path:
    """The example's plugin library, with the launcher and cubins inside."""
    return example_output / "example_plugin" / "libexample_plugin.so"


@pytest.fixture(scope="session")
def cubins(example_output: Path) -> Path:
    """The directory of the example's cubins."""
    return example_output / "bundle" / "cubins"


@pytest.fixture(scope="session")
def probe_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library written by hand, without the launcher, whose plugins do what its fields say."""
    library = tmp_path_factory.mktemp("probe") / "libprobe.so"
    source = Path(__file__).with_name("probe.cpp")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", str(INCLUDE / "tensoracle")]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    return library
