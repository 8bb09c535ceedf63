"""What an engine says of its inputs and outputs, and the ranges of its optimization profiles."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hatch_tensoracle.data_types import DATA_TYPES, named
from hatch_tensoracle.runtime.errors import ExecutionError

__all__ = ["EngineTensor", "Profile", "Range", "fits", "read_profiles", "read_tensors"]

Shape = tuple[int, ...]

_ELEMENTS = {"INT32": ctypes.c_int32, "INT64": ctypes.c_int64}
"""TensorRT's types of shape tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTensor:
    """One input or output."""

    name: str
    is_input: bool
    dtype: Any
    """TensorRT's DataType."""
    shape: Shape
    """-1 where an extent varies."""
    is_shape_tensor: bool
    """Whether its contents are numbers on the host that shapes depend on, or that are computed with them."""
    aliased_input: str | None
    """For an output that TensorRT writes over an input, that input."""
    is_written: bool
    """Whether TensorRT writes to it: outputs, and inputs that one of them is written over."""

    def host_memory(self) -> ctypes.Array[Any]:
        """Memory for a shape tensor's contents."""
        return (_ELEMENTS[self.dtype.name] * math.prod(self.shape))()

    def least_size(self, shape: Shape) -> int:
        """Bytes that it has in device memory in that shape, at least: formats other than LINEAR pad."""
        type_ = named(self.dtype.name)
        bits = math.prod(shape) * (DATA_TYPES[type_].bits if type_ is not None else 1)
        return (bits + 7) // 8


@dataclass(frozen=True, slots=True)
class Range:
    """The shapes of an input, or the contents of a shape tensor, that a profile covers, axis by axis."""

    min: Shape
    opt: Shape
    max: Shape

    def __contains__(self, shape: Shape) -> bool:
        pairs = zip(self.min, shape, self.max, strict=False)
        return len(shape) == len(self.min) and all(low <= extent <= high for low, extent, high in pairs)

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min} to {self.max}"


Profile = Mapping[str, Range]
"""The range of every input, by name."""


def read_tensors(engine: Any) -> dict[str, EngineTensor]:
    """Return the engine's tensors in its order. Raises ExecutionError for one that cannot be executed with here."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    outputs = [name for name in names if engine.get_tensor_mode(name).name != "INPUT"]
    written = {*outputs, *map(engine.get_aliased_input_tensor, outputs)}
    tensors = {name: _tensor(engine, name, is_written=name in written) for name in names}
    for tensor in tensors.values():
        for problem in _problems(engine, tensor):
            raise ExecutionError(f"tensor {tensor.name!r} {problem}")
    return tensors


def read_profiles(engine: Any, tensors: Mapping[str, EngineTensor]) -> list[Profile]:
    """Return the ranges of each optimization profile."""
    inputs = [tensor for tensor in tensors.values() if tensor.is_input]
    return [
        {tensor.name: _range(engine, tensor, profile) for tensor in inputs}
        for profile in range(engine.num_optimization_profiles)
    ]


def fits(profile: Profile, shapes: Mapping[str, Shape]) -> bool:
    """Whether the profile covers all the shapes."""
    return all(shapes[name] in profile[name] for name in shapes)


def _tensor(engine: Any, name: str, *, is_written: bool) -> EngineTensor:
    is_input = engine.get_tensor_mode(name).name == "INPUT"
    return EngineTensor(
        name=name,
        is_input=is_input,
        dtype=engine.get_tensor_dtype(name),
        shape=tuple(engine.get_tensor_shape(name)),
        is_shape_tensor=engine.is_shape_inference_io(name),
        aliased_input=None if is_input else engine.get_aliased_input_tensor(name),
        is_written=is_written,
    )


def _problems(engine: Any, tensor: EngineTensor) -> Iterator[str]:
    is_on_host = engine.get_tensor_location(tensor.name).name == "HOST"
    if is_on_host != tensor.is_shape_tensor:
        # TensorRT reads or writes the memory of either on the other side, and crashes.
        yield "is on the host and no shape tensor" if is_on_host else "is a shape tensor in device memory"
    elif tensor.is_shape_tensor and tensor.dtype.name not in _ELEMENTS:
        yield f"is a shape tensor of {tensor.dtype.name}; {' and '.join(_ELEMENTS)} are supported"
    elif tensor.is_shape_tensor and -1 in tensor.shape:
        yield f"is a shape tensor of shape {tensor.shape}: its length must be known when the engine is built"


def _range(engine: Any, tensor: EngineTensor, profile: int) -> Range:
    if tensor.is_shape_tensor:
        # The binding's names for the two parameters are exchanged: the first is the profile.
        ranges = engine.get_tensor_profile_values(profile, tensor.name)
    else:
        ranges = engine.get_tensor_profile_shape(tensor.name, profile)
    return Range(*map(tuple, ranges))
