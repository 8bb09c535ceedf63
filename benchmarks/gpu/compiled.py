"""torch.compile, where it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["compile_now"]


def compile_now(function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> tuple[Callable[..., Any] | None, str]:
    """The function compiled for inputs of these shapes, and a remark: a baseline that fails is no reason to stop."""
    torch.compiler.reset()  # else the limit of recompilations makes later shapes eager
    try:
        compiled = torch.compile(function, dynamic=False)
        compiled(*inputs)
    except Exception as error:  # noqa: BLE001 - torch documents no base class
        line = (str(error).strip().splitlines() or [""])[0]
        return None, f"torch.compile failed: {type(error).__name__}: {line[:150]}"
    return compiled, ""
