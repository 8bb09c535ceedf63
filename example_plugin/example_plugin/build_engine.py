"""Builds a TensorRT-RTX engine with this package's plugin, on the CPU, saying what it does.

`python -m example_plugin.build_engine`. The network is an ONNX model with one node whose operator type is the plugin's
name: the way in which TensorRT-RTX takes plugins. Needs the extra `rtx` of this package; no GPU.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx

from example_plugin import LIBRARY

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
    options = parser.parse_args()
    with_unversioned_library()
    shape = [options.rows or "rows", options.columns]
    build(make_model(TYPES[options.type], shape, [options.columns], epsilon=options.epsilon))


def with_unversioned_library() -> None:
    """Start again with a directory on LD_LIBRARY_PATH that has libtensorrt_rtx.so.

    The ONNX parser of TensorRT-RTX loads the library under this name, which its wheel does not have.
    """
    import tensorrt_rtx_libs

    if "TENSORRT_RTX_LINKED" in os.environ:
        return
    (library,) = Path(tensorrt_rtx_libs.__file__).parent.glob("libtensorrt_rtx.so.1*")
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "libtensorrt_rtx.so").symlink_to(library)
        paths = [directory, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        environment = os.environ | {"LD_LIBRARY_PATH": ":".join(paths), "TENSORRT_RTX_LINKED": "1"}
        command = [sys.executable, "-m", "example_plugin.build_engine", *sys.argv[1:]]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)


def make_model(
    element_type: int, shape: list[int | str], weight_shape: list[int | str], **fields: Any
) -> onnx.ModelProto:
    """A model of one AddRmsNorm node: x and residual of `shape`, weight; y and r of `shape`."""
    shapes = {"x": shape, "residual": shape, "weight": weight_shape, "y": shape, "r": shape}
    tensors = [onnx.helper.make_tensor_value_info(name, element_type, shapes[name]) for name in shapes]
    node = onnx.helper.make_node("AddRmsNorm", ["x", "residual", "weight"], ["y", "r"], **fields)
    graph = onnx.helper.make_graph([node], "example", tensors[:3], tensors[3:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def build(model: onnx.ModelProto) -> None:
    """Register the library, parse the model and build an engine of it; end the program if one of these fails."""
    import tensorrt_rtx as trt

    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    print(f"TensorRT-RTX {trt.__version__}")
    registry = trt.get_plugin_registry()
    before = {creator.name for creator in registry.all_creators}
    if registry.load_library(str(LIBRARY)) is None:
        sys.exit(f"{LIBRARY} could not be loaded into the plugin registry")
    creators = {creator.name for creator in registry.all_creators} - before
    print(f"registered {LIBRARY.name}: creates {', '.join(sorted(creators))}")

    network = builder.create_network()
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model.SerializeToString()):
        sys.exit("\n".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)  # on by default in TensorRT-RTX
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        print(f"input {tensor.name}: {tensor.dtype} {tuple(tensor.shape)}")
        if -1 in tensor.shape:
            profile.set_shape(tensor.name, *[[rows if n == -1 else n for n in tensor.shape] for rows in (1, 16, 512)])
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        sys.exit("the engine could not be built; TensorRT's messages above say why")
    print(f"built an engine of {plan.nbytes} bytes")


if __name__ == "__main__":
    main()
