"""What CUDA graphs of an engine are known by: a profile and shapes, and which larger ones may stand for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hatch_tensoracle.runtime.engine_tensors import EngineTensor
from hatch_tensoracle.runtime.values import checked_integers, not_by_name

__all__ = ["GraphKey", "least_larger", "padded_axes"]

Shape = tuple[int, ...]
Axes = Mapping[str, frozenset[int]]
"""By input, those along which an engine may be executed on more than there is."""


class GraphKey(NamedTuple):
    """One graph's."""

    profile: int
    shapes: tuple[tuple[str, Shape], ...]
    """Of every input, or the contents of a shape tensor, in the engine's order."""

    @property
    def elements(self) -> int:
        """Of all inputs."""
        return sum(math.prod(shape) for _, shape in self.shapes)


def padded_axes(pad_to: Mapping[str, Sequence[int]], tensors: Mapping[str, EngineTensor]) -> Axes:
    """Return the axes by input. Raises TypeError, and ValueError for one that does not vary."""
    if not isinstance(pad_to, Mapping):
        raise not_by_name("enable_cudagraphs: pad_to", pad_to)
    padded = {
        name: checked_integers(f"enable_cudagraphs: pad_to: axes of {name!r}", axes) for name, axes in pad_to.items()
    }
    for name, axes in padded.items():
        tensor = tensors.get(name)
        is_input = tensor is not None and tensor.is_input
        varying = [axis for axis, extent in enumerate(tensor.shape) if extent == -1] if tensor and is_input else []
        if not set(axes) <= set(varying) or not is_input:
            raise ValueError(f"enable_cudagraphs: pad_to: axes {list(axes)} of {name!r} do not vary: {varying} do")
    return {name: frozenset(axes) for name, axes in padded.items()}


def least_larger(key: GraphKey, others: Iterable[GraphKey], axes: Axes) -> GraphKey:
    """Return the key itself if it is among the others, else the least that is as large or larger along these axes.

    If there is none, it is the key.
    """
    larger = [other for other in others if _is_as_large(key, other, axes)]
    return key if key in larger else min(larger, key=lambda other: other.elements, default=key)


def _is_as_large(key: GraphKey, other: GraphKey, axes: Axes) -> bool:
    return all(
        extent == more or (extent < more and axis in axes.get(name, ()))
        for (name, shape), (_, larger) in zip(key.shapes, other.shapes, strict=True)
        for axis, (extent, more) in enumerate(zip(shape, larger, strict=True))
    )
