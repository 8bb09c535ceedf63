"""Reports are what they say to terminals, logs and programs, whatever an artifact is called inside."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from hatch_tensoracle import Bundle, report
from hatch_tensoracle.advice import Advice
from hatch_tensoracle.errors import CorruptCubinError
from hatch_tensoracle.html_report import to_html
from hatch_tensoracle.report import REPORT_VERSION, Finding, to_github, to_json, to_text

HOSTILE = "pkg:x:[red]/\x1b[2Jx\n::error::<script>alert(1)</script>%0A,:\u202e"
DEFECT = CorruptCubinError("3 bytes, 100% wrong", where=HOSTILE, remedy="Build it\nagain.")
ADVICE = Advice(id="spills", where="lib.so", cause="8 bytes", remedy="Use less.")


def finding(bundle: Bundle | None = None) -> Finding:
    bundles = {HOSTILE: bundle} if bundle is not None else {}
    return Finding(path="dist/a,b.whl", bundles=bundles, defects=[DEFECT], advice=[ADVICE])


@pytest.fixture
def bundle(ptx_bundle: Path) -> Bundle:
    return Bundle.parse((ptx_bundle / "bundle.json").read_bytes(), "")


@pytest.mark.parametrize("show", [to_text, to_json, to_github, to_html])
@pytest.mark.parametrize("strict", [False, True])
def test_control_characters_of_an_artifact_reach_no_terminal(bundle: Bundle, show: object, *, strict: bool) -> None:
    assert callable(show)
    shown = show([finding(bundle)], strict=strict)
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "\n::error::" not in shown


def test_text_shows_what_would_have_been_obeyed() -> None:
    lines = to_text([finding()]).splitlines()
    assert lines[0].startswith(r"corrupt-cubin: pkg:x:[red]/\x1b[2Jx\n::error::<script>")
    assert lines[1:] == [r"  Build it\nagain.", "dist/a,b.whl: 1 defect"]


def test_a_table_on_a_terminal_ends(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = bundle.entries
    many = dataclasses.replace(bundle, entries=(entry,) * 4)
    monkeypatch.setattr(report, "_MOST_ROWS", 5)
    lines = to_text([Finding(path="x", bundles={"x": many}, defects=[])]).splitlines()
    assert sum("copy#0" in line for line in lines) == 5
    assert lines[-2:] == ["and 3 more, which the other formats have", "x: no defects"]


def test_github_shows_defects_as_errors_and_advice_as_warnings() -> None:
    lines = to_github([finding()]).splitlines()
    assert lines[0].startswith("::error file=dist/a%2Cb.whl,title=hatch-tensoracle%3A corrupt-cubin::pkg:x:[red]/")
    assert "100%25 wrong. Build it%0Aagain." in lines[0]
    assert lines[1:] == [
        "::warning file=dist/a%2Cb.whl,title=hatch-tensoracle%3A spills::lib.so: 8 bytes. Use less.",
        "dist/a,b.whl: 1 defect",
    ]


def test_strict_advice_is_an_error_on_github_too() -> None:
    lines = to_github([finding()], strict=True).splitlines()
    assert [line[:8] for line in lines] == ["::error ", "::error ", "dist/a,b"]
    assert lines[2] == "dist/a,b.whl: 2 defects"


def test_json_keeps_everything_as_it_is(bundle: Bundle) -> None:
    content = json.loads(to_json([finding(bundle)], strict=True))
    (artifact,) = content["artifacts"]
    assert (content["version"], content["strict"]) == (REPORT_VERSION, True)
    assert set(artifact) == {"path", "libraries", "defects", "advice"}
    assert artifact["defects"] == [
        {"id": "corrupt-cubin", "where": HOSTILE, "cause": "3 bytes, 100% wrong", "remedy": "Build it\nagain."}
    ]
    assert artifact["libraries"][HOSTILE]["digest"] == bundle.digest


def test_the_documentation_names_every_id() -> None:
    from hatch_tensoracle import errors

    text = (Path(__file__).parents[1] / "docs" / "inspection.md").read_text(encoding="utf-8")
    defects = {getattr(errors, name) for name in errors.__all__}
    ids = {defect.id for defect in defects if issubclass(defect, errors.BundleError)} - {"bundle"}
    ids |= {"spills", "size", "no-unspecialised-variant", "no-ptx", "no-manylinux-tag"}
    text = text[text.index("## Defects") : text.index("## For programs")]
    assert ids == set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
