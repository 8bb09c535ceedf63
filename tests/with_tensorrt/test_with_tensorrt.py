"""Engines executed by TensorRT on a GPU; without either, each test is skipped and says what is missing.

Each scenario has a process of its own: a failed build, or a crash, would take the others along, and the fake driver of
other tests must not be mistaken for a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from with_tensorrt.scenarios import SCENARIOS

SCRIPT = Path(__file__).with_name("scenarios.py")
EXAMPLE = Path(__file__).parents[2] / "example_plugin"


def run(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a scenario and return what it said."""
    path = os.pathsep.join(filter(None, [str(EXAMPLE), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=os.environ | {"PYTHONPATH": path} | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@cache
def what_is_missing(name: str) -> str | None:
    """Why nothing can be executed here."""
    why: str | None = run(name, "survey")["skipped"]
    return why


@pytest.mark.parametrize("name", ["tensorrt", "tensorrt_rtx"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_a_gpu(name: str, scenario: str, request: pytest.FixtureRequest) -> None:
    if why := what_is_missing(name):
        pytest.skip(why)
    library = [str(request.getfixturevalue("example_library"))] if scenario == "the_example" else []
    answer = run(name, scenario, *library)
    if "skipped" in answer:
        pytest.skip(answer["skipped"])
    assert answer == {"done": True}


def test_engines_of_the_scenarios_can_be_built_without_a_gpu(example_library: Path) -> None:
    assert run("tensorrt_rtx", "build", str(example_library)) == {"done": True}


def test_what_is_missing_is_said() -> None:
    answer = run("tensorrt_rtx", "survey", environment={"CUDA_VISIBLE_DEVICES": ""})
    assert answer["skipped"].startswith(("there is no CUDA driver: ", "there is no GPU that the CUDA driver can use: "))
