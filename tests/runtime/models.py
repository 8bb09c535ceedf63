"""ONNX models for real builders."""

from __future__ import annotations

from onnx import TensorProto, helper

__all__ = ["add_rms_norm"]


def add_rms_norm(columns: int = 64) -> bytes:
    """One node of the example's plugin AddRmsNorm: x, residual, weight to y, r, in fp16."""
    rows: list[str | int | None] = ["rows", columns]
    shapes: dict[str, list[str | int | None]] = {"x": rows, "residual": rows, "weight": [columns], "y": rows, "r": rows}
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in shapes.items()]
    node = helper.make_node("AddRmsNorm", [*shapes][:3], [*shapes][3:], epsilon=1e-5)
    graph = helper.make_graph([node], "model", tensors[:3], tensors[3:])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
