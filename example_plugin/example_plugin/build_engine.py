"""Builds an engine with this package's plugin AddRmsNorm: `python -m example_plugin.build_engine`.

The graph is an ONNX model of one node whose operator type is the plugin's name: the way in which both TensorRT and
TensorRT-RTX take plugins. With the extra `rtx` of this package it needs no GPU.
"""

import argparse

import onnx

from example_plugin import LIBRARY
from hatch_tensoracle.runtime import EngineBuild, InputShape, build_serialized_engine, onnx_graph, register_plugins

TYPES = {
    "fp16": onnx.TensorProto.FLOAT16,
    "bf16": onnx.TensorProto.BFLOAT16,
    "fp32": onnx.TensorProto.FLOAT,
}


def main() -> None:
    """Read the options, make the model, build the engine."""
    parser = argparse.ArgumentParser(prog="python -m example_plugin.build_engine", description="Build an engine.")
    parser.add_argument("--type", choices=TYPES, default="fp16", help="element type of all tensors (default: fp16)")
    parser.add_argument("--rows", type=int, help="number of rows (default: 1 to 512, chosen at run time)")
    parser.add_argument("--columns", type=int, default=4096, help="length of the normalised axis (default: 4096)")
    parser.add_argument("--epsilon", type=float, default=1e-5, help="the plugin's field (default: 1e-5)")
    parser.add_argument("--runtime", help="tensorrt or tensorrt_rtx, where both are installed")
    options = parser.parse_args()

    rows = (options.rows,) * 3 if options.rows else (1, 16, 512)
    shape = InputShape.ranged(*[(n, options.columns) for n in rows])
    inputs = {"x": shape, "residual": shape, "weight": InputShape.fixed((options.columns,))}
    declaration = EngineBuild(precision=options.type, inputs=inputs, runtime=options.runtime)
    (library,) = register_plugins([LIBRARY], options.runtime)
    print(f"registered {LIBRARY.name}: creates {', '.join(creator.name for creator in library.creators)}")
    model = make_model(TYPES[options.type], [options.rows or "rows", options.columns], options.epsilon)
    plan = build_serialized_engine(onnx_graph(model), declaration, [LIBRARY])
    print(f"built an engine of {len(plan)} bytes")


def make_model(element_type: int, shape: list[int | str], epsilon: float) -> bytes:
    """A model of one AddRmsNorm node: x and residual of `shape`, weight of its last axis; y and r of `shape`."""
    shapes = {"x": shape, "residual": shape, "weight": shape[-1:], "y": shape, "r": shape}
    tensors = [onnx.helper.make_tensor_value_info(name, element_type, shapes[name]) for name in shapes]
    node = onnx.helper.make_node("AddRmsNorm", ["x", "residual", "weight"], ["y", "r"], epsilon=epsilon)
    graph = onnx.helper.make_graph([node], "example", tensors[:3], tensors[3:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
