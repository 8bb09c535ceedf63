"""What other repositories point at, the pre-commit hook and the GitHub action, is run as they would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.libraries import link_library
from helpers.tools import run, tool
from helpers.wheels import write_wheel

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheels(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a good wheel, and one below it without the manifest of its library."""
    directory = tmp_path_factory.mktemp("wheels")
    library = link_library(tiny_bundle, tmp_path_factory.mktemp("library") / "libpkg.so").read_bytes()
    files = {"pkg/libpkg.so": library, "pkg/libpkg.bundle.json": (tiny_bundle / "bundle.json").read_bytes()}
    write_wheel(directory / "good", files)
    write_wheel(directory / "bad", {"pkg/libpkg.so": library})
    return directory


def environment(step: dict[str, Any], temporary: Path, **inputs: str) -> dict[str, str]:
    """Variables of a step, with the inputs and their defaults as GitHub would fill them in."""
    values = {f"inputs.{name}": inputs.get(name, each.get("default", "")) for name, each in ACTION["inputs"].items()}
    values["github.action_path"] = str(ROOT)
    env = {name: values[value.removeprefix("${{ ").removesuffix(" }}")] for name, value in step["env"].items()}
    return {**os.environ, **env, "RUNNER_TEMP": str(temporary)}


def inspected(directory: Path, temporary: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step, with this environment's hatch-tensoracle in the place of the one that is installed."""
    program = temporary / "hatch-tensoracle" / "bin" / "hatch-tensoracle"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).with_name("hatch-tensoracle"))
    step = ACTION["runs"]["steps"][-1]
    return subprocess.run(
        [tool("bash"), "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],  # as GitHub runs `shell: bash`
        cwd=directory,
        env=environment(step, temporary, **inputs),
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_step_of_the_action_has_inputs_in_its_script() -> None:
    """They would be run as part of it, whatever they are; in variables they are text."""
    steps = ACTION["runs"]["steps"]
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in steps)


def test_the_action_accepts_good_wheels(wheels: Path, tmp_path: Path) -> None:
    done = inspected(wheels, tmp_path, paths="good/*.whl", plugin="pkg/libpkg.so")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.partition(" ")[0] for line in lines[:-1]} == {"::warning"}
    assert lines[-1] == "good/pkg-1.0-py3-none-linux_x86_64.whl: no defects"


def test_the_action_annotates_defects_and_writes_the_page(wheels: Path, tmp_path: Path) -> None:
    done = inspected(wheels, tmp_path, paths="good/*.whl\nbad/*.whl", html=str(tmp_path / "page.html"))
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert len(errors) == 1
    assert "title=hatch-tensoracle%3A manifest::bad/pkg-1.0" in errors[0]
    assert "2 defects" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 defect" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_action_is_strict_on_demand(wheels: Path, tmp_path: Path) -> None:
    done = inspected(wheels, tmp_path, paths="good/*.whl", strict="true")
    assert done.returncode == 1
    assert "::error file=good/pkg-1.0-py3-none-linux_x86_64.whl,title=hatch-tensoracle%3A no-ptx::" in done.stdout


@pytest.mark.parametrize("paths", ["missing/*.whl", "", "$(touch injected)"])
def test_the_action_fails_where_nothing_is_to_be_inspected(wheels: Path, tmp_path: Path, paths: str) -> None:
    done = inspected(wheels, tmp_path, paths=paths)
    assert done.returncode == 2
    assert "::error" in done.stdout + done.stderr or "does not exist" in done.stderr
    assert not (wheels / "injected").exists()


def test_the_action_installs_this_repository(tmp_path: Path) -> None:
    step = ACTION["runs"]["steps"][0]
    env = environment(step, tmp_path, python=sys.executable)
    subprocess.run([tool("bash"), "-eo", "pipefail", "-c", step["run"]], env=env, check=True, capture_output=True)
    assert run(tmp_path / "hatch-tensoracle/bin/hatch-tensoracle", "inspect", "--help")


def test_the_hook_inspects_the_wheels_of_a_repository(wheels: Path, tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git repository, which pre-commit clones")
    git, pre_commit = tool("git"), Path(sys.executable).with_name("pre-commit")
    repository = shutil.copytree(wheels, tmp_path / "repository")
    (repository / "note.txt").touch()
    run(git, "init", "--quiet", cwd=repository)
    run(git, "add", ".", cwd=repository)
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    command = [str(pre_commit), "try-repo", str(ROOT), "tensoracle-inspect", "--verbose", "--color", "never"]
    every = subprocess.run(
        [*command, "--all-files"], cwd=repository, env=env, capture_output=True, text=True, check=False
    )
    assert every.returncode == 1, every.stdout + every.stderr
    assert "bad/pkg-1.0-py3-none-linux_x86_64.whl: 1 defect\n" in every.stdout
    assert "good/pkg-1.0-py3-none-linux_x86_64.whl: no defects\n" in every.stdout
    assert "note.txt" not in every.stdout
