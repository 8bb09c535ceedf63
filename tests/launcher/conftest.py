"""Libraries that many of the launcher's tests load, each in processes of its own."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hatch_tensoracle.testing import native
from launcher.libraries import child_environment, flags, make_library
from tensoracle_producer import compile_bundle


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels of kernels.py for sm86, sm90 and sm120. A run inside a run is handed the outer one's."""
    if "TENSORACLE_TEST_BUNDLE" in os.environ:
        return Path(os.environ["TENSORACLE_TEST_BUNDLE"])
    spec = importlib.util.spec_from_file_location("launcher_kernels", Path(__file__).with_name("kernels.py"))
    assert spec is not None
    assert spec.loader is not None
    kernels = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    directory = tmp_path_factory.mktemp("launcher") / "bundle"
    compile_bundle(kernels.KERNELS, ["sm86", "sm90", "sm120"], directory)
    return directory


@pytest.fixture(scope="session")
def library(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """plugins.cpp around those kernels."""
    kept = os.environ.get("TENSORACLE_TEST_COVERAGE")  # a directory, in which counters are to be found afterwards
    directory = Path(kept) if kept else tmp_path_factory.mktemp("launcher-library")
    return make_library(bundle, directory)


@pytest.fixture(autouse=True, scope="session")
def _strict_compiler() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        instrumentation = flags().replace("--coverage", "")
        given = os.environ.get(native.FLAGS_VARIABLE, "")
        patch.setenv(native.FLAGS_VARIABLE, f"-Wall -Wextra -Werror {instrumentation} {given}".strip())
        yield


@pytest.fixture(scope="session")
def sanitizer_environment() -> Mapping[str, str]:
    """What processes need in order to load instrumented libraries."""
    return child_environment()


@pytest.fixture(autouse=True)
def _instrumented_children(sanitizer_environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The compilers, which fixtures of the session run, are done by now."""
    for name, value in sanitizer_environment.items():
        monkeypatch.setenv(name, value)
