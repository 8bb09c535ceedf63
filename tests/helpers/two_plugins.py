"""Builds one engine with both plugins of the example, in TensorRT-RTX on the CPU: `two_plugins.py LIBRARY WAY`.

`onnx` goes through the ONNX parser. `table` adds the plugins to a network by the C symbol `getPrivateApi_INTERNAL` of
TensorRT-RTX 1.4 to 1.7: a table whose first entry is addPluginV3(network, inputs, count, shape inputs, count, plugin).
A pybind11 object has its C++ pointer 16 bytes in. Prints the version, the outputs and the size of the plan as JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

ROWS, COLUMNS = (1, 64, 512), 64
KEPT: list[Any] = []


def main() -> None:
    """Register the library, make the network, build."""
    import tensorrt_rtx as trt

    library, way = sys.argv[1:]
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    registry = trt.get_plugin_registry()
    assert registry.load_library(library) is not None
    network = builder.create_network(0)
    KEPT.extend((logger, builder, registry, network))
    (through_parser if way == "onnx" else through_table)(trt, network, logger)
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    profile = builder.create_optimization_profile()
    for name in ("x", "residual"):
        profile.set_shape(name, *[(rows, COLUMNS) for rows in ROWS])
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    outputs = [network.get_output(i) for i in range(network.num_outputs)]
    shapes = {tensor.name: [tensor.dtype.name, list(tensor.shape)] for tensor in outputs}
    plan_bytes = plan.nbytes if plan is not None else None
    print(json.dumps({"version": trt.__version__, "outputs": shapes, "plan_bytes": plan_bytes}))  # noqa: T201 - the answer


def through_parser(trt: Any, network: Any, logger: Any) -> None:
    """Two nodes, one after the other."""
    from onnx import TensorProto, helper

    bias = [0.5] * COLUMNS
    nodes = [
        helper.make_node("MatmulBiasGelu", ["x", "w"], ["h"], bias=bias),
        helper.make_node("AddRmsNorm", ["h", "residual", "weight"], ["y", "r"], epsilon=1e-5),
    ]
    shapes: dict[str, list[Any]] = {
        "x": ["rows", COLUMNS],
        "w": [COLUMNS, COLUMNS],
        "residual": ["rows", COLUMNS],
        "weight": [COLUMNS],
        "y": ["rows", COLUMNS],
        "r": ["rows", COLUMNS],
    }
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "two", tensors[:4], tensors[4:])
    parser = trt.OnnxParser(network, logger)
    KEPT.append(parser)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert parser.parse(model.SerializeToString()), [str(parser.get_error(i)) for i in range(parser.num_errors)]


def through_table(trt: Any, network: Any, _logger: Any) -> None:
    """The same network by TensorRT-RTX's own table."""
    import numpy as np

    rows = (-1, COLUMNS)
    x, residual = (network.add_input(name, trt.float16, rows) for name in ("x", "residual"))
    w = network.add_input("w", trt.float16, (COLUMNS, COLUMNS))
    weight = network.add_input("weight", trt.float16, (COLUMNS,))
    bias = np.full(COLUMNS, 0.5, np.float32)
    product = add_plugin(trt, network, "MatmulBiasGelu", {"bias": bias}, [x, w])
    h = product.get_output(0)
    normalised = add_plugin(
        trt, network, "AddRmsNorm", {"epsilon": np.array([1e-5], np.float32)}, [h, residual, weight]
    )
    for i, name in enumerate(("y", "r")):
        output = normalised.get_output(i)
        output.name = name
        network.mark_output(output)


def add_plugin(trt: Any, network: Any, name: str, fields: dict[str, Any], inputs: list[Any]) -> Any:
    """Add one plugin to the network and return its layer."""
    collection = [trt.PluginField(key, value, trt.PluginFieldType.FLOAT32) for key, value in fields.items()]
    creator = trt.get_plugin_registry().get_creator(name, "1", "")
    plugin = creator.create_plugin(name, trt.PluginFieldCollection(collection), trt.TensorRTPhase.BUILD)
    KEPT.extend((fields, plugin))
    library = ctypes.CDLL(str(next(Path(p) for p in open_files() if "libtensorrt_rtx.so" in p)))
    library.getPrivateApi_INTERNAL.restype = ctypes.c_void_p
    table = library.getPrivateApi_INTERNAL(ctypes.c_uint64(0xB38F642A771BA941), ctypes.c_int32(1))
    assert table, "this TensorRT-RTX has no such table"
    address = ctypes.c_void_p.from_address(table).value
    assert address is not None
    signature = ctypes.CFUNCTYPE(
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_int32,
        ctypes.c_void_p,
    )
    pointers = (ctypes.c_void_p * len(inputs))(*[pointer_in(tensor) for tensor in inputs])
    layer = signature(address)(pointer_in(network), pointers, len(inputs), None, 0, pointer_in(plugin))
    assert layer, f"{name} was refused"
    return network.get_layer(network.num_layers - 1)


def pointer_in(wrapped: object) -> int:
    """The C++ pointer of a pybind11 object."""
    value = ctypes.c_void_p.from_address(id(wrapped) + 16).value
    assert value is not None
    return value


def open_files() -> list[str]:
    """Files that this process has mapped."""
    return [
        line.split(maxsplit=5)[5].strip() for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line
    ]


if __name__ == "__main__":
    main()
