"""`hatch-tensoracle check`: what it takes, what it prints, and how it exits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.libraries import link_library
from helpers.wheels import write_wheel

from conformance.conftest import case_of
from conformance.defects import DEFECTS
from hatch_tensoracle.cli import main
from hatch_tensoracle.conformance import Outcome, walk
from hatch_tensoracle.conformance.checks import CHECKS, FAKE_DRIVER_CHECKS

GOOD = """
[[cases]]
plugin = "Good"
name = "rows"
fields = { scale = 0.5, label = "a" }
inputs = [{ type = "fp32", shape = [-1, 64], min = [1, 64], opt = [4, 64], max = [8, 64] }]
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A case of the plugin that breaks nothing."""
    return written(tmp_path, GOOD)


def written(directory: Path, text: str) -> Path:
    file = directory / "check.toml"
    file.write_text(text, encoding="utf-8")
    return file


def check(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], list[str]]:
    """Exit status, lines of stdout, lines of stderr."""
    status = main(["check", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out.splitlines(), printed.err.splitlines()


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """Exit status, and the outcomes of the JSON form."""
    status, lines, _ = check(capsys, *arguments, "--format", "json")
    found = json.loads("\n".join(lines))
    assert found["version"] == 1
    (artifact,) = found["artifacts"]
    assert artifact["path"] == str(arguments[0])
    outcomes: list[dict[str, Any]] = artifact["outcomes"]
    return status, outcomes


def test_a_good_plugin_is_ok_and_plugins_without_a_case_are_said_to_be_unchecked(
    capsys: pytest.CaptureFixture[str], contract_library: Path, cases: Path
) -> None:
    status, lines, errors = check(capsys, contract_library, "--cases", cases)
    assert (status, errors) == (0, [])
    unchecked = [[f"none {plugin}: cases", "     no case names it: nothing of it is checked"] for plugin in DEFECTS]
    assert lines == [
        "ok   libcontract.so: load",
        *(line for pair in unchecked for line in pair),
        *(f"ok   Good rows: {check}" for check in CHECKS),
        f"{contract_library}: {len(CHECKS) + 1} checks, 0 failed, {len(DEFECTS)} not made",
    ]


def test_a_defect_is_printed_with_cause_and_remedy(
    capsys: pytest.CaptureFixture[str], contract_library: Path, tmp_path: Path
) -> None:
    cases = written(tmp_path, GOOD.replace('"Good"', '"RefusesSilently"'))
    status, lines, _ = check(capsys, contract_library, "--cases", cases)
    assert status == 1
    start = lines.index("FAIL RefusesSilently rows: wrong-types")
    assert lines[start + 1 : start + 4] == [
        "     input 0 of i64 is refused by getOutputDataTypes without a message in the log",
        "     Throw an Error that says what was found and expected.",
        "ok   RefusesSilently rows: capture",
    ]
    assert lines[-1] == f"{contract_library}: {len(CHECKS) + 1} checks, 1 failed, {len(DEFECTS)} not made"


def test_github_is_shown_what_failed(
    capsys: pytest.CaptureFixture[str], contract_library: Path, tmp_path: Path
) -> None:
    cases = written(tmp_path, GOOD.replace('"Good"', '"RefusesSilently"'))
    status, lines, _ = check(capsys, contract_library, "--cases", cases, "--format", "github")
    assert status == 1
    annotation, verdict = lines
    place = f"::error file={contract_library},title=hatch-tensoracle%3A wrong-types::RefusesSilently rows: "
    assert annotation.removeprefix(place) == (
        "input 0 of i64 is refused by getOutputDataTypes without a message in the log. "
        "Throw an Error that says what was found and expected."
    )
    assert verdict == f"{contract_library}: {len(CHECKS) + 1} checks, 1 failed, {len(DEFECTS)} not made"


def test_the_json_form_says_the_same(
    capsys: pytest.CaptureFixture[str], contract_library: Path, tmp_path: Path
) -> None:
    cases = written(tmp_path, GOOD + GOOD.replace('"Good"', '"HasAnotherName"'))
    status, outcomes = report(capsys, contract_library, "--cases", cases)
    assert status == 1
    assert outcomes[0] == {"case": "libcontract.so", "check": "load", "cause": None, "remedy": "", "skipped": ""}
    skipped = [outcome for outcome in outcomes if outcome["skipped"]]
    assert [outcome["case"] for outcome in skipped] == [plugin for plugin in DEFECTS if plugin != "HasAnotherName"]
    assert {(outcome["check"], outcome["cause"]) for outcome in skipped} == {("cases", None)}
    (failed,) = [outcome for outcome in outcomes if outcome["cause"] is not None]
    assert failed == {
        "case": "HasAnotherName rows",
        "check": "identity",
        "cause": "the plugin is 'Another' '1' of '', its creator 'HasAnotherName' '1' of '': "
        "engines do not find it again",
        "remedy": "",
        "skipped": "",
    }


@pytest.mark.parametrize("plugin", [pytest.param(None, id="the-only-one"), "example_plugin/libexample_plugin.so"])
def test_the_example_passes_entirely_in_its_wheel(
    capsys: pytest.CaptureFixture[str], example_output: Path, tmp_path: Path, plugin: str | None
) -> None:
    names = ("example_plugin/libexample_plugin.so", "example_plugin/libexample_plugin.bundle.json")
    wheel = write_wheel(tmp_path, {name: (example_output / name).read_bytes() for name in names})
    options = ["--plugin", plugin] if plugin else []
    cases = ROOT / "example_plugin" / "check.toml"
    status, outcomes = report(capsys, wheel, "--cases", cases, *options)
    assert status == 0
    assert [outcome for outcome in outcomes if outcome["cause"] or outcome["skipped"]] == []
    assert len(outcomes) == 1 + 3 * len(CHECKS)


def test_one_of_several_libraries_is_chosen(
    capsys: pytest.CaptureFixture[str], tiny_bundle: Path, cases: Path, tmp_path: Path
) -> None:
    library = link_library(tiny_bundle, tmp_path / "liba.so").read_bytes()
    manifest = (tiny_bundle / "bundle.json").read_bytes()
    files = {f"p/lib{name}.{end}": data for name in "ab" for end, data in (("so", library), ("bundle.json", manifest))}
    wheel = write_wheel(tmp_path, files)
    status, lines, errors = check(capsys, wheel, "--cases", cases)
    assert (status, lines) == (2, [])
    assert errors == [f"hatch-tensoracle: {wheel} holds p/liba.so, p/libb.so", "Choose one with --plugin."]
    status, lines, errors = check(capsys, wheel, "--cases", cases, "--plugin", "p/libb.so")
    assert (status, errors) == (1, [])
    assert lines[0] == "FAIL libb.so: load"
    assert lines[1].startswith(f"     {wheel}: p/libb.so")
    status, _, errors = check(capsys, wheel, "--cases", cases, "--plugin", "p/libc.so")
    assert (status, errors) == (1, [f"hatch-tensoracle: {wheel}: does not hold `p/libc.so`"])


@pytest.mark.parametrize(
    ("exports", "options", "cause"),
    [
        pytest.param(
            ["setLoggerFinder"], [], "does not export getCreators, without which TensorRT refuses it", id="export"
        ),
        pytest.param(["getCreators", "setLoggerFinder"], [], "getCreators found no creator", id="no-creator"),
        pytest.param(["getCreators"], ["crash.c"], "the process was killed by SIGABRT", id="crash"),
    ],
)
def test_a_library_that_cannot_be_used_is_one_outcome(  # noqa: PLR0913, PLR0917 - fixtures and parameters
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    cases: Path,
    exports: list[str],
    options: list[str],
    cause: str,
) -> None:
    (tmp_path / "crash.c").write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void fail(void) { abort(); }\n"
    )
    paths = [tmp_path / option for option in options]
    library = link_library(None, tmp_path / "libx.so", exports=exports, options=paths)
    status, (outcome,) = report(capsys, library, "--cases", cases)
    assert (status, outcome["case"], outcome["check"]) == (1, "libx.so", "load")
    assert cause in outcome["cause"]


def test_a_file_that_is_no_library_is_one_outcome(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, cases: Path
) -> None:
    (tmp_path / "libx.so").write_text("no library")
    status, lines, _ = check(capsys, tmp_path / "libx.so", "--cases", cases)
    assert status == 1
    assert lines == [
        "FAIL libx.so: load",
        f"     {tmp_path / 'libx.so'} cannot be loaded: file too short",
        f"{tmp_path / 'libx.so'}: 1 checks, 1 failed, 0 not made",
    ]


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        pytest.param('"Good"', '"Bad"', "cases[0]: {library} has no creator 'Bad' of version any", id="unknown-plugin"),
        pytest.param(
            'name = "rows"', 'version = "2"', "cases[0]: {library} has no creator 'Good' of version 2", id="version"
        ),
        pytest.param(
            'name = "rows"',
            'namespace = "n"',
            "cases[0]: {library} has no creator 'Good' of version any",
            id="namespace",
        ),
        pytest.param(
            '"a"', "3", "cases[0]: field label is [3], which cannot be written as the declared CHAR", id="field-value"
        ),
        pytest.param(
            "scale",
            "scales",
            "cases[0]: Good: createPlugin returned null\n  unknown field scales",
            id="field-that-is-refused",
        ),
        pytest.param(
            '"fp32"',
            '"fp16"',
            "cases[0]: Good: getOutputDataTypes returned 1\n  the input must be fp32",
            id="type-that-is-refused",
        ),
        pytest.param(
            "max = [8, 64]",
            'max = [8, 64], format = "HWC8"',
            "cases[0]: Good: supports no output formats for inputs of fp32 HWC8 and outputs of fp32; "
            "it supports fp32 LINEAR, fp32 LINEAR",
            id="format-that-is-refused",
        ),
    ],
)
def test_cases_that_do_not_fit_the_library_are_usage_errors(  # noqa: PLR0913, PLR0917 - fixtures and parameters
    capsys: pytest.CaptureFixture[str], contract_library: Path, tmp_path: Path, old: str, new: str, cause: str
) -> None:
    cases = written(tmp_path, GOOD.replace(old, new))
    status, lines, errors = check(capsys, contract_library, "--cases", cases)
    assert (status, lines) == (2, [])
    assert "\n".join(errors[:-1]).startswith(f"hatch-tensoracle: {cause.format(library=contract_library)}")
    assert errors[-1] == "Mend the cases, or the plugin that must accept them; docs/testing.md shows their form."


def test_every_case_that_is_refused_is_named_by_its_place(
    capsys: pytest.CaptureFixture[str], contract_library: Path, tmp_path: Path
) -> None:
    silent = '[[cases]]\nplugin = "RefusesRanksSilently"\ninputs = [{ type = "fp32", shape = [64] }]'
    cases = written(tmp_path, GOOD + GOOD.replace("scale", "scales") + silent)
    status, lines, errors = check(capsys, contract_library, "--cases", cases)
    assert (status, lines) == (2, [])
    assert errors[:-1] == [
        "hatch-tensoracle: cases[1]: Good: createPlugin returned null",
        "  unknown field scales",
        "cases[2]: RefusesRanksSilently: getOutputShapes returned 1",
        "  (it logged nothing)",
    ]


@pytest.mark.parametrize("label", ["crashing", "unserialisable"])
def test_plugin_that_fails_otherwise_is_for_the_checks_to_find(contract_library: Path, label: str) -> None:
    case = dataclasses.replace(case_of("Good"), fields={"scale": 0.5, "label": label})
    outcome = next(walk(contract_library, [case], "89"))
    assert outcome == Outcome(case=contract_library.name, check="load")


def test_wrong_usage_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], contract_library: Path, tmp_path: Path, cases: Path
) -> None:
    missing = tmp_path / "libmissing.so"
    status, _, errors = check(capsys, missing, "--cases", cases)
    assert (status, errors[0]) == (2, f"hatch-tensoracle: {missing} is no file")
    status, _, errors = check(capsys, contract_library, "--cases", written(tmp_path, "cases = 3"))
    assert (status, errors[0]) == (2, f"hatch-tensoracle: {cases}: cases: must be an array, not 3")
    with pytest.raises(SystemExit) as caught:
        main(["check", str(contract_library)])
    assert caught.value.code == 2
    assert "--cases" in capsys.readouterr().err


def test_a_device_without_code_is_told_what_is_shipped(
    capsys: pytest.CaptureFixture[str], example_library: Path, tmp_path: Path
) -> None:
    (first, *_) = (ROOT / "example_plugin" / "check.toml").read_text(encoding="utf-8").split("[[cases]]")[1:]
    cases = written(tmp_path, f"[[cases]]{first}")
    status, outcomes = report(capsys, example_library, "--cases", cases, "--sm", "sm70")
    assert status == 1
    (cause,) = [outcome["cause"] for outcome in outcomes if outcome["check"] == "execution"]
    assert "no code runs on this device of sm_70; the library has sm_86, sm_89, sm_90a" in cause


@pytest.mark.parametrize("sm", ["sm0", "sm-1", "sm_89", "sm8.9", "smreal"])
def test_a_device_that_is_no_sm_is_refused(
    capsys: pytest.CaptureFixture[str], contract_library: Path, cases: Path, sm: str
) -> None:
    status, lines, errors = check(capsys, contract_library, "--cases", cases, f"--sm={sm.removeprefix('sm')}")
    assert (status, lines) == (2, [])
    cause = f"'{sm}' is no SM: compute capability 8.9 is 89 or 'sm89'"
    assert errors == [f"hatch-tensoracle: the fake driver cannot be `{sm}`: {cause}"]


def test_a_gpu_that_is_not_there_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, contract_library: Path, cases: Path
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # of a machine that has one
    status, lines, errors = check(capsys, contract_library, "--cases", cases, "--gpu")
    assert (status, lines, len(errors)) == (2, [], 1)
    assert errors[0].startswith("hatch-tensoracle: no GPU can be used: ")


def test_checks_that_need_the_fake_driver_are_named() -> None:
    assert set(CHECKS) >= FAKE_DRIVER_CHECKS
