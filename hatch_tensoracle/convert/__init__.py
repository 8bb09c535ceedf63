"""Converts PyTorch checkpoints: `python -m hatch_tensoracle.convert model.pth model.safetensors`."""

from hatch_tensoracle.convert.conversion import pth_to_safetensors
from hatch_tensoracle.convert.errors import CheckpointError

__all__ = ["CheckpointError", "pth_to_safetensors"]
