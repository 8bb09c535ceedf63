"""A breach of the contract between TensorRT and plugins."""

from __future__ import annotations

from hatch_tensoracle.errors import TensoracleError

__all__ = ["ContractError"]


class ContractError(TensoracleError):
    """A plugin does something else than TensorRT documents or users need; the cause says what was seen and expected."""
