"""The project `tuned`: its library without tuning, and the one of the wheel with what was tuned on that."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.projects import contents, copied, edit, hatchling_build

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.cli import main
from hatch_tensoracle.inspection import manifest_name
from hatch_tensoracle.tuning import tuning_json
from tune.tuning_runs import CASE, tune
from tune.tunings import TUNINGS

LIBRARY = "tuned/libtuned.so"


@pytest.fixture(scope="session")
def untuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library without tuning."""
    directory = tmp_path_factory.mktemp("untuned")
    project = copied("tuned", directory / "project")
    assert main(["build", str(project), "--output", str(directory / "output")]) == 0
    return directory / "output" / LIBRARY


@pytest.fixture(scope="session")
def bundle(untuned: Path) -> Bundle:
    """Its manifest."""
    return Bundle.parse(Path(manifest_name(str(untuned))).read_bytes(), "manifest")


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of CASE."""
    file = tmp_path_factory.mktemp("cases") / "tune.toml"
    file.write_text(CASE, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def tuning_file(untuned: Path, cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuning.json that had TUNINGS before CASE was tuned on an SM 90."""
    file = tmp_path_factory.mktemp("tuning") / "tuning.json"
    file.write_bytes(tuning_json(TUNINGS))
    run = tune(90, untuned, cases, file)
    assert run.returncode == 0, run.stdout + run.stderr
    return file


@pytest.fixture(scope="session")
def wheel(tuning_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the project with that file."""
    directory = tmp_path_factory.mktemp("tuned")
    project = copied("tuned", directory / "project")
    (project / "tuning.json").write_bytes(tuning_file.read_bytes())
    edit(project / "pyproject.toml", "\ntargets", '\ntuning = "tuning.json"\ntargets')
    return hatchling_build(project, directory / "dist").artifact


@pytest.fixture(scope="session")
def tuned(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the wheel, with its manifest beside it."""
    directory = tmp_path_factory.mktemp("unpacked")
    for name in (LIBRARY, manifest_name(LIBRARY)):
        (directory / Path(name).name).write_bytes(contents(wheel)[name])
    return directory / Path(LIBRARY).name
