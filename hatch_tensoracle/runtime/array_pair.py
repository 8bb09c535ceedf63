"""Two arrays of equal shape, of whichever library, read block by block on the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from hatch_tensoracle._blocks import blocks

__all__ = ["BLOCK", "ArrayPair", "Kind", "Offset"]

Kind = Literal["floating point", "integer", "boolean"]
Offset = tuple[int, ...]

BLOCK = 1 << 13
"""Elements: as float64, a few blocks fit a core's cache, and sums of one are not divided among threads by OpenBLAS."""
_BROUGHT = 1 << 20
"""Elements that are copied from a GPU at once."""
_NUMPY_KINDS: dict[str, Kind] = {"f": "floating point", "i": "integer", "u": "integer", "b": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One of the two."""

    shape: tuple[int, ...]
    type: str
    kind: Kind | None
    read: Callable[[tuple[slice, ...]], Any]
    """Returns a piece as a NumPy array, its numbers unchanged."""


class ArrayPair:
    """A candidate and its reference. Raises ValueError for another shape or kind, and for what is not compared."""

    shape: tuple[int, ...]
    kind: Kind
    types: tuple[str, str]

    def __init__(self, candidate: Any, reference: Any) -> None:
        self._sides = sides = (_side(candidate), _side(reference))
        for name, side in zip(("candidate", "reference"), sides, strict=True):
            if side.kind is None:
                raise ValueError(f"the {name} is of {side.type}: floating point, integers and booleans are compared")
        if sides[0].kind != sides[1].kind:
            raise ValueError(
                f"the candidate is of {sides[0].type}, {sides[0].kind}; the reference of {sides[1].type}, "
                f"{sides[1].kind}: arrays of one kind are compared"
            )
        if sides[0].shape != sides[1].shape:
            raise ValueError(f"the candidate has shape {sides[0].shape}, the reference {sides[1].shape}")
        if 0 in sides[0].shape:
            raise ValueError(f"arrays of shape {sides[0].shape} have no element to compare")
        self.shape, self.kind = sides[0].shape, cast("Kind", sides[0].kind)
        self.types = (sides[0].type, sides[1].type)

    def __iter__(self) -> Iterator[tuple[Offset, Any, Any]]:
        """Yield where a block begins and the NumPy arrays of it, in C order. They may be views of the arrays."""
        for outer in blocks(self.shape, _BROUGHT):
            candidate, reference = (side.read(outer) for side in self._sides)
            for inner in blocks(candidate.shape, BLOCK):
                offset = tuple(whole.start + part.start for whole, part in zip(outer, inner, strict=True))
                yield offset, candidate[inner], reference[inner]


def _side(array: Any) -> _Side:
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(array, torch.Tensor):
        return _of_torch(torch, array)
    if cupy is not None and isinstance(array, cupy.ndarray):
        read = lambda index: array[index].get()  # noqa: E731 - no more than that
        return _Side(shape=array.shape, type=str(array.dtype), kind=_numpy_kind(array.dtype), read=read)
    return _of_numpy(array)


def _of_numpy(array: Any) -> _Side:
    import numpy as np

    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("a masked array is not compared: fill it first")
    has_dlpack_alone = hasattr(array, "__dlpack__") and not hasattr(array, "__array__")
    plain = np.from_dlpack(array) if has_dlpack_alone else np.asarray(array)
    kind = _numpy_kind(plain.dtype)
    # Narrow integers of ml_dtypes compare with those of their own type alone.
    is_widened = kind == "integer" and plain.dtype.kind == "V"

    def read(index: tuple[slice, ...]) -> Any:
        piece = np.asarray(plain[index])  # without axes it is a scalar
        return piece.astype(np.int8) if is_widened else piece

    return _Side(shape=plain.shape, type=str(plain.dtype), kind=kind, read=read)


def _numpy_kind(dtype: Any) -> Kind | None:
    if dtype.type.__module__ != "ml_dtypes":
        return _NUMPY_KINDS.get(dtype.kind)
    if dtype.name.startswith(("float", "bfloat")):
        return "floating point"
    return "integer" if dtype.name.startswith(("int", "uint")) else None


def _of_torch(torch: Any, tensor: Any) -> _Side:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError(f"a tensor of layout {tensor.layout}, {tensor.dtype}, is not compared: make it a dense one")
    kind: Kind | None = "integer"
    if tensor.dtype == torch.bool:
        kind = "boolean"
    elif tensor.is_floating_point():
        kind = "floating point"
    elif tensor.is_complex():
        kind = None
    # NumPy has no others; to float64 every one of them is exact.
    is_widened = tensor.is_floating_point() and tensor.dtype not in {torch.float16, torch.float32, torch.float64}

    def read(index: tuple[slice, ...]) -> Any:
        piece = tensor.detach()[index].cpu().resolve_neg()
        return (piece.double() if is_widened else piece).numpy()

    return _Side(shape=tuple(tensor.shape), type=str(tensor.dtype).removeprefix("torch."), kind=kind, read=read)
