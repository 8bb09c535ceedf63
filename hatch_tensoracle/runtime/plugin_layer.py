"""Adds plugins to networks, for graph functions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from hatch_tensoracle.data_types import NUMPY_FIELD_TYPES
from hatch_tensoracle.runtime.distribution import Distribution, distribution_of
from hatch_tensoracle.runtime.errors import EngineBuildError

__all__ = ["add_plugin"]


def add_plugin(  # noqa: PLR0913, PLR0917 - what names a plugin, and what it gets
    network: Any,
    inputs: Sequence[Any],
    name: str,
    version: str = "1",
    fields: Mapping[str, Any] | None = None,
    namespace: str = "",
) -> Any:
    """Add a plugin to a network of TensorRT's, for a graph function; returns its layer.

    `inputs` are ITensors. `fields` are NumPy arrays and scalars, which keep their type, or Python's numbers, sequences
    of them and texts, which get the one that the plugin declares.

    Raises ValueError for TensorRT-RTX, which has no call for it (use `onnx_graph` there), if no registered library has
    the plugin, and for a field that it has not; EngineBuildError if it refuses the fields.
    """
    tensorrt = distribution_of(network)
    if not hasattr(network, "add_plugin_v3"):
        raise ValueError(
            f"{tensorrt.name} has no call that adds a plugin to a network: give the graph as an ONNX model, in which a "
            f"node has the operator type {name!r}, with onnx_graph of hatch_tensoracle.runtime"
        )
    plugin = _create_plugin(tensorrt, name, version, fields or {}, namespace)
    layer = network.add_plugin_v3(list(inputs), [], plugin)
    if layer is None:
        raise EngineBuildError(f"plugin {name} version {version} could not be added to the network")
    return layer


def _create_plugin(tensorrt: Distribution, name: str, version: str, fields: Mapping[str, Any], namespace: str) -> Any:
    trt = tensorrt.module
    creator = trt.get_plugin_registry().get_creator(name, version, namespace)
    if creator is None:
        raise ValueError(
            f"{tensorrt} has no plugin {name!r} version {version!r} of namespace {namespace!r}: where the engine is "
            "built or opened, name the library that has it in plugins="
        )
    declared = {field.name: field.type for field in creator.field_names or ()}
    for field in fields:
        if field not in declared:
            near = difflib.get_close_matches(field, declared, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(declared) or 'none'}"
            raise ValueError(f"plugin {name} has no field {field!r}; {hint}")
    arrays = {field: _array(field, value, declared[field].name) for field, value in fields.items()}
    collection = trt.PluginFieldCollection(
        [trt.PluginField(field, array, getattr(trt.PluginFieldType, type_)) for field, (array, type_) in arrays.items()]
    )
    with tensorrt.messages() as messages:
        plugin = creator.create_plugin(name, collection, trt.TensorRTPhase.BUILD)
    if plugin is None:
        cause = f"plugin {name} version {version} refuses the fields {dict(fields)}"
        raise EngineBuildError(cause, messages=tuple(messages))
    return plugin


def _array(field: str, value: Any, declared: str) -> tuple[Any, str]:
    """The value as a NumPy array, and TensorRT's name of its type."""
    import numpy as np

    if isinstance(value, str):
        return np.frombuffer(value.encode() + b"\0", np.int8), "CHAR"  # with its NUL, as TensorRT's parsers do
    if not isinstance(value, np.ndarray | np.generic):
        # Python's numbers: of the declared type, for which NumPy has no bf16 and no dimensions.
        dtypes = {theirs: name for name, theirs in NUMPY_FIELD_TYPES.items()} | {"BF16": "float32"}
        if declared not in dtypes:
            raise TypeError(f"field {field!r} is declared as {declared}, which {value!r} is not")
        value = _converted(field, value, dtypes[declared])
    if value.dtype.name not in NUMPY_FIELD_TYPES:
        raise TypeError(f"field {field!r} is of dtype {value.dtype.name}; TensorRT has {', '.join(NUMPY_FIELD_TYPES)}")
    array = np.ascontiguousarray(value).reshape(-1)
    # A buffer of ml_dtypes' bfloat16 has no format that pybind11 knows.
    return (array.view(np.uint16) if array.dtype.name == "bfloat16" else array), NUMPY_FIELD_TYPES[array.dtype.name]


def _converted(field: str, value: Any, dtype: str) -> Any:
    import numpy as np

    given = np.asarray(value)
    if given.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            array = given.astype(dtype)
        # Integers must be the same; floating-point numbers may be rounded, not overflow.
        compare = np.isfinite if array.dtype.kind == "f" else np.asarray
        if np.array_equal(compare(given), compare(array)):
            return array
    raise ValueError(f"field {field!r} is {value!r}, which cannot be written as the declared {dtype}")
