"""Arrays piece by piece, so that what is done with one needs no memory of its size."""

from __future__ import annotations

import math
from collections.abc import Iterator

__all__ = ["blocks"]


def blocks(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Indices of the pieces of an array, in C order, of at most `most` elements each and about equally large.

    Their elements, one piece after the other, are the array's in C order. An array without elements is one piece.
    """
    axis = next((axis for axis, extent in enumerate(shape) if extent > 1), len(shape))
    if math.prod(shape) <= most or axis == len(shape):
        yield tuple(slice(0, extent) for extent in shape)
        return
    extent, rest = shape[axis], shape[axis + 1 :]
    pieces = math.ceil(extent / max(1, most // math.prod(rest)))
    step = math.ceil(extent / pieces)
    for start in range(0, extent, step):
        here = (*(slice(0, 1) for _ in range(axis)), slice(start, min(start + step, extent)))
        yield from ((*here, *inner) for inner in blocks(rest, most // step))
