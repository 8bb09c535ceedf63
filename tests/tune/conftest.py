"""The project `tuned`, built without tuning and with one written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.projects import copied, edit

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.cli import main
from hatch_tensoracle.inspection import manifest_name
from hatch_tensoracle.tuning import tuning_json
from tune.tunings import TUNINGS

LIBRARY = "tuned/libtuned.so"


def built(directory: Path, tuning: bytes | None) -> Path:
    project = copied("tuned", directory / "project")
    if tuning is not None:
        (project / "tuning.json").write_bytes(tuning)
        edit(project / "pyproject.toml", "\ntargets", '\ntuning = "tuning.json"\ntargets')
    assert main(["build", str(project), "--output", str(directory / "output")]) == 0
    return directory / "output" / LIBRARY


@pytest.fixture(scope="session")
def untuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its library without tuning."""
    return built(tmp_path_factory.mktemp("untuned"), None)


@pytest.fixture(scope="session")
def tuned(untuned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001 - whose kernels are cached
    """Its library with TUNINGS."""
    return built(tmp_path_factory.mktemp("tuned"), tuning_json(TUNINGS))


@pytest.fixture(scope="session")
def bundle(untuned: Path) -> Bundle:
    """The manifest of the library without tuning."""
    return Bundle.parse(Path(manifest_name(str(untuned))).read_bytes(), "manifest")
