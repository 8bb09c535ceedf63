"""Registers plugin libraries, builds, keeps and executes TensorRT engines."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it as true; importing it from typing takes longer than all the rest
if TYPE_CHECKING:
    from hatch_tensoracle.runtime.declaration import BuilderSettings, EngineBuild, EngineIO, InputShape, TensorSpec
    from hatch_tensoracle.runtime.errors import (
        CorruptEngineError,
        EngineBuildError,
        EngineCacheError,
        EngineConditionError,
        EngineIOError,
        ExecutionError,
        PluginLibraryError,
    )

__all__ = [
    "BuilderSettings",
    "CorruptEngineError",
    "EngineBuild",
    "EngineBuildError",
    "EngineCacheError",
    "EngineConditionError",
    "EngineIO",
    "EngineIOError",
    "ExecutionError",
    "InputShape",
    "PluginLibraryError",
    "TensorSpec",
]

_MODULES = {
    "declaration": ("BuilderSettings", "EngineBuild", "EngineIO", "InputShape", "TensorSpec"),
    "errors": (
        "CorruptEngineError",
        "EngineBuildError",
        "EngineCacheError",
        "EngineConditionError",
        "EngineIOError",
        "ExecutionError",
        "PluginLibraryError",
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    # Modules are loaded with the first use of what they define: every process of a model package imports this one.
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
