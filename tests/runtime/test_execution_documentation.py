"""What the pages on execution, settings, graphs and quality show is right as far as it can be seen without a GPU."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np  # noqa: TID253 - what the page computes with
import pytest

from hatch_tensoracle.runtime import CudaGraphs, OutputComparison, RuntimeSettings, compare_outputs, enable_cudagraphs
from hatch_tensoracle.runtime.execution import EngineExecution
from hatch_tensoracle.runtime.graph_pool import GraphStatistics

DOCS = Path(__file__).parents[2] / "docs"
EXECUTION, QUALITY, SETTINGS, GRAPHS = (
    (DOCS / f"{name}.md").read_text(encoding="utf-8")
    for name in ("execution", "quality", "runtime-settings", "cuda-graphs")
)


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def quality(*defining: str) -> str:
    """The blocks that define these names."""
    return "\n".join(block for block in blocks(QUALITY) if any(f"def {name}(" in block for name in defining))


@pytest.mark.parametrize("block", [block for page in (EXECUTION, QUALITY, SETTINGS, GRAPHS) for block in blocks(page)])
def test_examples_are_python(block: str) -> None:
    compile(block, "example", "exec")


def test_the_table_names_what_an_execution_has() -> None:
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", EXECUTION, re.MULTILINE) for name in re.findall(r"`(\w+)", row)
    }
    made = {name for name in vars(EngineExecution) if not name.startswith("_")}
    assert named - {"execution", "buffers"} <= made
    assert made - {"distribution", "profile"} <= named


def test_the_tables_of_settings_and_options_have_them_all() -> None:
    settings, options = (re.findall(r"^\| `(\w+)` \| [`|]*", page, re.MULTILINE) for page in (SETTINGS, GRAPHS))
    assert settings == [item.name for item in dataclasses.fields(RuntimeSettings)]
    assert options == list(inspect.signature(enable_cudagraphs).parameters)[1:]


def test_the_page_names_what_graphs_have() -> None:
    named = set(re.findall(r"`(\w+)[`(]", GRAPHS)) | set(re.findall(r"graphs\.(\w+)", GRAPHS))
    assert {name for name in vars(CudaGraphs) if not name.startswith("_")} - {"set_output_allocator"} <= named
    assert {item.name for item in dataclasses.fields(GraphStatistics)} <= named


@pytest.mark.parametrize(("element", "dtype", "limit"), [(1, np.float32, 1e-6), (10, np.float16, 1e-3)])
def test_the_page_s_standard_layers_are_right(element: int, dtype: Any, limit: float) -> None:
    """By the reference implementation of ONNX, in either precision."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    page: dict[str, Any] = {}
    exec(quality("correct", "layers", "is_good"), page)  # noqa: S102 - our own page
    model = onnx.load_model_from_string(page["layers"](element))
    given = {name: array.astype(dtype) for name, array in page["INPUTS"].items()}
    found = dict(zip(("y", "r"), ReferenceEvaluator(model).run(None, given), strict=True))
    for name, expected in page["correct"]().items():
        assert found[name].dtype == dtype
        assert page["is_good"](compare_outputs(found[name], expected), limit)
        assert not page["is_good"](compare_outputs(found[name] * dtype(1.1), expected), limit)


def test_what_is_not_a_number_is_never_good() -> None:
    page: dict[str, Any] = {}
    exec(quality("is_good"), page)  # noqa: S102
    for wrong in (np.nan, np.inf):
        assert not page["is_good"](compare_outputs(np.array([1, wrong]), np.array([1.0, 2.0])), 1e9)


def test_the_table_names_the_measurements_of_a_comparison() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", QUALITY, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"\w+", row)]
    assert named == [item.name for item in dataclasses.fields(OutputComparison)][: len(named)]
    assert len(named) == 9


@pytest.mark.parametrize(("made", "precision"), [("layers(1)", "fp32"), ("layers(10)", "fp16"), ("plugin(10)", "fp16")])
def test_the_page_s_engines_can_be_built(example_library: Path, made: str, precision: str) -> None:
    code = f"""
from hatch_tensoracle.runtime import build_serialized_engine
plan = build_serialized_engine(onnx_graph({made}), declaration({precision!r}), [{str(example_library)!r}])
assert len(plan) > 1000
"""
    done = subprocess.run(
        [sys.executable, "-c", quality("correct", "layers", "declaration") + code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
