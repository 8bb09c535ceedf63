"""Checks a network, as the graph function left it, against its declaration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hatch_tensoracle.runtime.declaration import MOST_VALUES, EngineBuild, InputShape

__all__ = ["check_network"]

_SHAPE_TYPES = {"INT32", "INT64"}
_INT32 = range(-(2**31), 2**31)


def check_network(network: Any, declaration: EngineBuild) -> None:
    """Raise ValueError, with all that is wrong, if inputs are not those declared or a shape cannot be an output."""
    problems = dict.fromkeys([*_input_problems(network, declaration), *_output_problems(network)])
    if problems:
        raise ValueError("\n".join(problems))


def _input_problems(network: Any, declaration: EngineBuild) -> Iterator[str]:
    tensors = {tensor.name: tensor for tensor in map(network.get_input, range(network.num_inputs))}
    for name in tensors:
        if name not in declaration.inputs:
            yield f"input {name!r} of the graph is not declared in EngineBuild.inputs"
    for index in range(declaration.profile_count):
        for name, shape in declaration.profile(index).items():
            if name in tensors:
                yield from _shape_problems(name, tensors[name], shape)
            else:
                yield f"input {name!r} is declared, and the graph has only {', '.join(map(repr, tensors)) or 'none'}"


def _shape_problems(name: str, tensor: Any, declared: InputShape) -> Iterator[str]:
    shape = tuple(tensor.shape)
    if declared.kind == "values":
        yield from _shape_tensor_problems("input", tensor)
        if not tensor.is_shape_tensor:
            yield f"input {name!r} is declared by its values, and the graph uses it as no shape"
        elif -1 not in shape and len(declared.min) != (shape[0] if shape else 1):
            yield f"input {name!r} has shape {shape} and {len(declared.min)} values declared"
        elif tensor.dtype.name == "INT32" and not all(n in _INT32 for n in (*declared.min, *declared.max)):
            yield f"input {name!r} is INT32, which {declared.min} to {declared.max} does not fit"
    elif tensor.is_shape_tensor:
        yield f"input {name!r} is used as a shape by the graph: declare its values, InputShape.values(min, opt, max)"
    elif len(declared.min) != len(shape):
        yield f"input {name!r} has shape {shape} in the graph; {declared.min} to {declared.max} is declared"
    else:
        for extent, low, high in zip(shape, declared.min, declared.max, strict=True):
            if extent != -1 and not low == high == extent:
                yield f"input {name!r} has shape {shape} in the graph; {declared.min} to {declared.max} is declared"
                return


def _output_problems(network: Any) -> Iterator[str]:
    for tensor in map(network.get_output, range(network.num_outputs)):
        if tensor.is_shape_tensor:
            yield from _shape_tensor_problems("output", tensor)


def _shape_tensor_problems(kind: str, tensor: Any) -> Iterator[str]:
    """TensorRT fails on these in assertions of its own, or crashes."""
    shape = tuple(tensor.shape)
    if tensor.dtype.name not in _SHAPE_TYPES:
        yield f"{kind} {tensor.name!r} is a shape tensor of type {tensor.dtype.name}; it must be INT32 or INT64"
    if len(shape) > 1 or -1 in shape or shape > (MOST_VALUES,):
        yield f"{kind} {tensor.name!r} is a shape tensor of shape {shape}; it must be () or (n,), n <= {MOST_VALUES}"
