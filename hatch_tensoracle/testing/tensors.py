"""Tensors: what is known of them at build time, and where they are at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hatch_tensoracle.data_types import DATA_TYPES
from hatch_tensoracle.testing import abi

__all__ = ["Shape", "Tensor", "byte_size", "describe_shape"]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input of a network, or an output of the plugin in it."""

    type: str
    """`fp32`, `fp16`, `bf16`, `i8`, `i32`, `i64`, `u8`, `bool`, `fp8`, `i4`, `fp4` or `e8m0`."""
    shape: Shape
    """-1 where an extent is dynamic."""
    min: Shape | None = None
    """Least, most common and greatest shape; left out, they are the shape itself, which then has no -1."""
    opt: Shape | None = None
    max: Shape | None = None
    format: str = "LINEAR"
    """TensorRT's name, such as `LINEAR` or `HWC8`."""

    def __post_init__(self) -> None:
        _check_names(self.type, self.format)
        if len(self.shape) > abi.MAX_DIMS:
            message = f"shape {self.shape} has {len(self.shape)} axes; TensorRT has at most {abi.MAX_DIMS}"
            raise ValueError(message)
        for name in ("min", "opt", "max"):
            bound = getattr(self, name)
            if bound is None and -1 in self.shape:
                message = f"shape {describe_shape(self.shape)} has a dynamic extent: give min, opt and max"
                raise ValueError(message)
            if bound is not None and not _fits(bound, self.shape):
                message = f"{name} is {tuple(bound)}, which is no {describe_shape(self.shape)}"
                raise ValueError(message)

    def bound(self, name: str) -> Shape:
        """The shape that is called `min`, `opt` or `max`."""
        bound = getattr(self, name)
        return self.shape if bound is None else tuple(bound)

    def with_format(self, format_: str) -> Tensor:
        """The same in another format."""
        return replace(self, format=format_)

    def dynamic_desc(self) -> abi.DynamicTensorDesc:
        """As TensorRT describes it at build time."""
        bounds = {name: abi.Dims.of(self.bound(name)) for name in ("min", "max", "opt")}
        return abi.DynamicTensorDesc(desc=self.desc(self.shape), **bounds)

    def desc(self, shape: Sequence[int]) -> abi.TensorDesc:
        """As TensorRT describes it once it has that shape."""
        return abi.TensorDesc(
            dims=abi.Dims.of(shape),
            type=abi.DATA_TYPES.index(self.type),
            format=abi.FORMATS.index(self.format),
            scale=1.0,
        )


def byte_size(type_: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor."""
    return (math.prod(shape) * DATA_TYPES[type_].bits + 7) // 8


def describe_shape(shape: Sequence[int]) -> str:
    """`(?, 64)`."""
    return f"({', '.join('?' if extent < 0 else str(extent) for extent in shape)})"


def _check_names(type_: str, format_: str) -> None:
    for what, name, known in (("type", type_, abi.DATA_TYPES), ("format", format_, abi.FORMATS)):
        if name not in known:
            message = f"tensor {what} {name!r} is none of {', '.join(known)}"
            raise ValueError(message)


def _fits(bound: Sequence[int], shape: Sequence[int]) -> bool:
    pairs = zip(bound, shape, strict=False)
    return len(bound) == len(shape) and all(extent >= 0 and whole in {-1, extent} for extent, whole in pairs)
