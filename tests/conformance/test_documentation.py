"""docs/testing.md names every check, and shows a file of cases that can be read."""

from __future__ import annotations

import re
from pathlib import Path

from hatch_tensoracle.conformance import read_cases
from hatch_tensoracle.conformance.checks import CHECKS
from hatch_tensoracle.conformance.walk import LIBRARY_CHECKS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
SECTION = DOCUMENT.read_text(encoding="utf-8").partition("## Checking the contract")[2].partition("\n## ")[0]


def test_every_check_is_in_the_table_in_its_order() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", SECTION, re.MULTILINE)
    assert rows == [*LIBRARY_CHECKS, *CHECKS]


def test_documented_cases_can_be_read(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "check.toml").write_text(shown, encoding="utf-8")
    assert [case.plugin for case in read_cases(tmp_path / "check.toml")] == ["AddRmsNorm"]
