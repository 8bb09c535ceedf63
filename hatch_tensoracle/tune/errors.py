"""What can go wrong while configurations are measured."""

from __future__ import annotations

from hatch_tensoracle.errors import TensoracleError

__all__ = ["TuningError"]


class TuningError(TensoracleError):
    """A plugin could not be measured; the cause says with which sizes."""
