"""The registry of a real TensorRT 11 lean runtime takes the same library, alone and beside TensorRT-RTX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.tensorrt import LEAN, RTX, Result, run_tensorrt

REFUSAL = "AddRmsNorm: createPlugin: field epsilon is -1; it must be in [0, 3.4028235e+38]"


def refused(runtime: str) -> dict[str, Any]:
    return {"runtime": runtime, "plugin": "AddRmsNorm", "fields": [("epsilon", "float32", [-1.0], "FLOAT32")]}


def accepted(runtime: str) -> dict[str, Any]:
    return {"runtime": runtime, "plugin": "AddRmsNorm", "fields": [("epsilon", "float32", [1e-5], "FLOAT32")]}


def creator(result: Result, runtime: str) -> dict[str, Any]:
    (found,) = (creator for creator in result.creators[runtime] if creator["name"] == "AddRmsNorm")
    return dict(found)


@pytest.fixture(scope="module")
def alone(example_library: Path) -> Result:
    """The lean runtime loads the library twice, is refused a plugin and makes one."""
    return run_tensorrt(LEAN, libraries=[example_library, example_library], create=[refused(LEAN), accepted(LEAN)])


@pytest.fixture(scope="module", params=[(RTX, LEAN), (LEAN, RTX)], ids=["rtx-first", "lean-first"])
def both(example_library: Path, request: pytest.FixtureRequest) -> Result:
    """Both load the library in one process; each is refused a plugin and makes one."""
    create = [item(runtime) for item in (refused, accepted) for runtime in (RTX, LEAN)]
    return run_tensorrt(*request.param, libraries=[example_library], create=create)


def test_the_library_registers_its_plugin_with_its_fields(alone: Result) -> None:
    expected = {"name": "AddRmsNorm", "version": "1", "namespace": "", "fields": [["epsilon", "FLOAT32"]]}
    assert creator(alone, LEAN) == expected


def test_the_same_file_is_registered_once(alone: Result) -> None:
    assert alone.loaded[LEAN] == [True, False]


def test_a_plugin_is_made_unless_its_fields_are_refused(alone: Result) -> None:
    assert [made for made, _ in alone.created] == [False, True]


def test_a_refusal_goes_to_stderr_while_the_runtime_has_no_logger(alone: Result) -> None:
    if keeps_its_logger(alone):
        pytest.skip("this machine has a GPU: the lean runtime has a logger")
    assert alone.stderr.splitlines().count(f"tensoracle: {REFUSAL}") == 1


def test_a_refusal_reaches_the_logger_of_the_runtime(alone: Result) -> None:
    if not keeps_its_logger(alone):
        pytest.skip("no GPU: the lean runtime takes a logger only together with one")
    assert alone.log.count((LEAN, "ERROR", REFUSAL)) == 1
    assert REFUSAL not in alone.stderr


def keeps_its_logger(result: Result) -> bool:
    return not any("CUDA initialization failure" in text for text in result.messages("ERROR"))


def test_both_registries_of_one_process_have_the_plugin(both: Result) -> None:
    assert both.loaded == {RTX: [True], LEAN: [True]}
    assert creator(both, RTX) == creator(both, LEAN)


def test_both_registries_of_one_process_make_plugins(both: Result) -> None:
    assert [made for made, _ in both.created] == [False, False, True, True]


def test_a_refusal_is_logged_once_whichever_registry_it_came_through(both: Result) -> None:
    """The library cannot tell which runtime called: it tells every logger that there is."""
    loggers = [RTX, LEAN] if keeps_its_logger(both) else [RTX]
    for _, log in both.created[:2]:
        assert sorted(whose for whose, severity, text in log if (severity, text) == ("ERROR", REFUSAL)) == sorted(
            loggers
        )
    assert REFUSAL not in both.stderr
