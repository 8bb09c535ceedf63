"""ONNX models become networks, by real TensorRT-RTX."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_tensoracle.runtime import onnx_graph
from runtime.processes import run_code
from runtime.test_build import PRELUDE

PLAIN = """
from pathlib import Path
import onnx
from onnx import TensorProto, helper, numpy_helper
import numpy as np
weight = numpy_helper.from_array(np.arange(8, dtype=np.float32), "weight")
tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 8]) for name in ("x", "y")]
node = helper.make_node("Add", ["x", "weight"], ["y"])
graph = helper.make_graph([node], "model", tensors[:1], tensors[1:], [weight])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
inputs = {"x": InputShape.ranged((1, 8), (2, 8), (4, 8))}
"""


def test_a_model_is_taken_from_memory_or_from_a_file(tmp_path: Path) -> None:
    code = """
path = Path(sys.argv[1])
path.write_bytes(model.SerializeToString())
graphs = [model.SerializeToString(), path, str(path)]
answer([build(onnx_graph(graph), inputs) for graph in graphs])
"""
    sizes = run_code(PRELUDE + PLAIN + code, tmp_path / "model.onnx").answer()
    assert len(set(sizes)) == 1
    assert sizes[0] > 1000


def test_weights_in_a_file_beside_the_model_are_found(tmp_path: Path) -> None:
    code = """
onnx.save_model(model, sys.argv[1], save_as_external_data=True, location="weights", size_threshold=0)
answer(build(onnx_graph(sys.argv[1]), inputs))
"""
    assert run_code(PRELUDE + PLAIN + code, tmp_path / "model.onnx").answer() > 1000
    assert (tmp_path / "weights").exists()


def test_a_model_that_cannot_be_parsed_says_why(tmp_path: Path) -> None:
    code = """
unknown = helper.make_graph([helper.make_node("NoSuchPlugin", ["x"], ["y"])], "model", tensors[:1], tensors[1:])
models = [helper.make_model(unknown, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString(), b"nonsense"]
answer([build(onnx_graph(model), inputs) for model in models])
"""
    unknown, nonsense = run_code(PRELUDE + PLAIN + code, tmp_path).answer()
    assert unknown.startswith("EngineBuildError: tensorrt_rtx ")
    assert "could not parse the ONNX model" in unknown
    assert "NoSuchPlugin" in unknown
    assert "could not parse the ONNX model" in nonsense
    assert "plugins=" in unknown
    assert "plugins=" not in nonsense


def test_a_model_that_is_not_there_is_named() -> None:
    refusal = run_code(f"{PRELUDE}answer(build(onnx_graph('/absent/model.onnx'), {{}}))").answer()
    assert refusal == "FileNotFoundError: the ONNX model /absent/model.onnx does not exist"


def test_anything_else_is_no_model() -> None:
    with pytest.raises(TypeError, match="must be a path or bytes, not int"):
        onnx_graph(3)  # type: ignore[arg-type]
