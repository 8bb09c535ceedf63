"""Native parts are compiled with every warning an error; the plugin that the harness is tested with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.tools import run, tool

from hatch_tensoracle import inspect_bundle
from hatch_tensoracle.testing import native

INCLUDE = Path(__file__).resolve().parents[2] / "cpp" / "include"


@pytest.fixture(autouse=True, scope="session")
def _strict_compiler() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.FLAGS_VARIABLE, f"-Wall -Wextra -Werror {os.environ.get(native.FLAGS_VARIABLE, '')}")
        yield


@pytest.fixture(scope="session")
def cubins(example_output: Path) -> dict[int, bytes]:
    """The first fp16 kernel of the example, by SM."""
    bundle = inspect_bundle(example_output / "bundle")
    return {
        int(cubin.target.removeprefix("sm")): (example_output / "bundle" / cubin.file).read_bytes()
        for entry, cubin in bundle.cubins()
        if (entry.kernel, entry.configuration, entry.variant) == ("add_rms_norm_fp16", 0, 0)
    }


@pytest.fixture(scope="session")
def probe_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library written by hand, without the launcher, whose plugins do what its fields say."""
    library = tmp_path_factory.mktemp("probe") / "libprobe.so"
    source = Path(__file__).with_name("probe.cpp")
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", INCLUDE / "tensoracle")
    run(tool("g++"), *flags, "-o", library, source)
    return library
