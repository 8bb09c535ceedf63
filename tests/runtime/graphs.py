"""Graph functions and models that are built with real TensorRT-RTX; they run in processes of the tests' own."""

from __future__ import annotations

from typing import Any

from hatch_tensoracle.runtime import InputShape

__all__ = ["EXAMPLE_INPUTS", "RESHAPE_INPUTS", "example_model", "reshape", "type_of"]

_ROWS = InputShape.ranged((1, 64), (2, 64), (4, 64))
EXAMPLE_INPUTS = {"x": _ROWS, "residual": _ROWS, "weight": InputShape.fixed((64,))}
RESHAPE_INPUTS = {
    "x": InputShape.ranged((1, 8), (2, 8), (4, 8)),
    "shape": InputShape.values((1, 8), (2, 8), (4, 8)),
}


def type_of(network: Any, name: str) -> Any:
    """A data type of the network's TensorRT, such as `FLOAT`."""
    from hatch_tensoracle.runtime.distribution import distribution_of

    return getattr(distribution_of(network).module.DataType, name)


def reshape(network: Any, dtype: str = "INT64") -> None:
    """The output y is x in the shape that the input `shape` says; s, for the host, is the shape of y."""
    x = network.add_input("x", type_of(network, "FLOAT"), (-1, 8))
    layer = network.add_shuffle(x)
    layer.set_input(1, network.add_input("shape", type_of(network, dtype), (2,)))
    y = layer.get_output(0)
    y.name = "y"
    network.mark_output(y)
    s = network.add_shape(y).get_output(0)
    s.name = "s"
    network.mark_output_for_shapes(s)


def example_model(**attributes: Any) -> bytes:
    """An ONNX model of one AddRmsNorm node."""
    from onnx import TensorProto, helper

    rows = ["rows", 64]
    shapes: dict[str, list[Any]] = {"x": rows, "residual": rows, "weight": [64], "y": rows, "r": rows}
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in shapes.items()]
    node = helper.make_node("AddRmsNorm", ["x", "residual", "weight"], ["y", "r"], **attributes)
    graph = helper.make_graph([node], "model", tensors[:3], tensors[3:])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
