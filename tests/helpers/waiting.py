"""Waiting for what another process or thread does: as long as it takes, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["is_running", "wait_until"]

_SECONDS = 120
"""Before a test that would hang fails. No test passes because of it: what it is to outlast takes longer."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Return once the condition holds. `what` is what has not come about otherwise."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {_SECONDS} s: {what}"
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether it has not ended; one that ended and that nobody has asked about yet is not running."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ends before, or while, its file is read
        return False
