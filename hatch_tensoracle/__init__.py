"""Ships Triton kernels as TensorRT plugins inside Python wheels, and verifies them."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it as true; importing it from typing takes longer than all the rest
if TYPE_CHECKING:
    from hatch_tensoracle.bundle import Bundle
    from hatch_tensoracle.errors import BundleError, TensoracleError
    from hatch_tensoracle.inspection import inspect_bundle, inspect_wheel

__all__ = ["Bundle", "BundleError", "TensoracleError", "__version__", "inspect_bundle", "inspect_wheel"]

__version__ = "0.1.0"

_HOMES = {
    "Bundle": "bundle",
    "BundleError": "errors",
    "TensoracleError": "errors",
    "inspect_bundle": "inspection",
    "inspect_wheel": "inspection",
}


def __getattr__(name: str) -> object:
    # Modules are loaded with the first use of what they define: every process of a model package imports this one.
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
