"""What can go wrong when a checkpoint is converted."""

from __future__ import annotations

from hatch_tensoracle.errors import TensoracleError

__all__ = ["CheckpointError"]

_SHOWN = 20
"""Entries that a message lists."""


class CheckpointError(TensoracleError, ValueError):
    """A checkpoint cannot be read, or holds what a safetensors file cannot. Nothing has been written."""

    file: str
    """The checkpoint's path."""
    entries: tuple[str, ...]
    """Each entry that cannot be converted, and why."""

    def __init__(self, cause: str, *, file: str = "", entries: tuple[str, ...] = (), remedy: str = "") -> None:
        super().__init__(cause, remedy=remedy)
        self.file = file
        self.entries = entries

    def __str__(self) -> str:
        """Say which, what, and which entries."""
        more = len(self.entries) - _SHOWN
        lines = [*self.entries[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        text = f"{self.file}: {self.cause}" if self.file else self.cause
        return "\n  ".join((f"{text}:" if lines else text, *lines))
