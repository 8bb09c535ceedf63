"""docs/testing.md shows a test that passes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from helpers.tools import run

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def test_documented_test_passes(example_output: Path, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "test_documented.py").write_text(code)
    printed = run(sys.executable, "-m", "pytest", "-q", "--rootdir", tmp_path, tmp_path, cwd=example_output)
    assert "5 passed" in printed
