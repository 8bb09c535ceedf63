"""What docs/runtime.md shows about registering and building works as it stands, with real TensorRT-RTX."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hatch_tensoracle.runtime import BuilderSettings
from runtime.processes import run_code

PAGE = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text(encoding="utf-8")
MODEL = """
from pathlib import Path
from example_plugin.build_engine import TYPES, make_model
Path("model.onnx").write_bytes(make_model(TYPES["fp16"], ["rows", 4096], 1e-5))
"""


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def examples(heading: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", section(heading), re.DOTALL))


@pytest.fixture(scope="module")
def site(example_output: Path, example_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the example's package as it is installed."""
    directory = tmp_path_factory.mktemp("site")
    package = directory / "example_plugin"
    package.mkdir()
    for file in [*(example_output / "example_plugin").iterdir(), *(example_project / "example_plugin").glob("*.py")]:
        (package / file.name).write_bytes(file.read_bytes())
    return directory


def test_the_examples_run_one_after_the_other(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = examples("Register plugin libraries") + examples("Build")
    code = f"{first}\nsizes = [len(plan)]\n{MODEL}{examples('Plugins in a graph')}\nanswer([*sizes, len(plan)])"
    outcome = run_code(code, site=site)
    built, with_plugin = outcome.answer()
    assert "['AddRmsNorm', 'MatmulBiasGelu']" in outcome.stdout
    assert built > 1000
    assert with_plugin > 1000


def test_the_table_of_settings_has_them_all() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", section("Build"), re.MULTILINE)
    assert rows == [item.name for item in dataclasses.fields(BuilderSettings)]
