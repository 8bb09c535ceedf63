"""Takes the graph from an ONNX model."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hatch_tensoracle.runtime.distribution import Distribution, distribution_of
from hatch_tensoracle.runtime.errors import EngineBuildError
from hatch_tensoracle.runtime.plugin_creators import registered_creators
from hatch_tensoracle.runtime.soname import add_soname

__all__ = ["onnx_graph"]


def onnx_graph(model: str | os.PathLike[str] | bytes) -> Callable[[Any], object]:
    """Return a graph function that fills the network from an ONNX model: a file, or one in memory.

    A node whose operator type is the name of a registered plugin becomes that plugin, with the node's attributes as its
    fields; `plugin_version` and `plugin_namespace` among them say which. TensorRT-RTX does it from 1.7 on, and cuts
    integers to 32 bits. The function raises EngineBuildError with what the parser found.
    """
    if not isinstance(model, str | os.PathLike | bytes):
        raise TypeError(f"onnx_graph: the model must be a path or bytes, not {type(model).__name__}")
    return functools.partial(_parse, model)


def _parse(model: str | os.PathLike[str] | bytes, network: Any) -> object:
    tensorrt = distribution_of(network)
    parser = _parser(network, tensorrt)
    if isinstance(model, bytes):
        parsed = parser.parse(model)
    elif Path(os.fsdecode(model)).exists():
        parsed = parser.parse_from_file(os.fsdecode(model))
    else:
        raise FileNotFoundError(f"the ONNX model {os.fsdecode(model)} does not exist")
    if not parsed:
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        raise EngineBuildError(
            f"{tensorrt} could not parse the ONNX model",
            messages=tuple(map(str, errors)),
            remedy=_remedy(errors, tensorrt.module.get_plugin_registry()),
        )
    return parser  # which owns the weights


def _remedy(errors: Iterable[Any], registry: Any) -> str:
    """What to do if the parser has taken operators for plugins, as it does with all that it does not know."""
    unknown = dict.fromkeys(error.node_operator() for error in errors if "Plugin not found" in error.desc())
    if not unknown:
        return ""
    if others := [str(creator) for creator in registered_creators(registry) if creator.name in unknown]:
        return f"Registered is {', '.join(others)}: set the node's plugin_version and plugin_namespace to it."
    return (
        f"No registered plugin has the name {' or '.join(unknown)}. Where the engine is built or opened, name the "
        "library that has it: plugins=[plugin_library(PACKAGE)]."
    )


def _parser(network: Any, tensorrt: Distribution) -> Any:
    if tensorrt.name == "tensorrt_rtx":
        _name_library(tensorrt.version.partition(".")[0])
    return tensorrt.module.OnnxParser(network, tensorrt.logger)


@functools.cache
def _name_library(major: str) -> None:
    # The parser of TensorRT-RTX loads the library by a name that its wheels do not have, and else ends the process.
    add_soname("libtensorrt_rtx.so", f"libtensorrt_rtx.so.{major}")
