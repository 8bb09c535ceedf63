"""The tensors of a plugin in an engine."""

from __future__ import annotations

from dataclasses import dataclass

from hatch_tensoracle.testing.output_shapes import OutputShapes
from hatch_tensoracle.testing.tensors import Tensor

__all__ = ["Signature"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What executing a plugin takes."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    shapes: OutputShapes
    """The outputs' shapes as expressions."""
    aliases: tuple[int | None, ...]
    """For each output the input that it shares memory with."""
    workspace: int
    """Bytes of device memory."""
