"""Registers plugin libraries, builds, keeps and executes TensorRT engines, and compares what they put out."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it as true; importing it from typing takes longer than all the rest
if TYPE_CHECKING:
    from hatch_tensoracle.runtime.arrays import DevicePointer
    from hatch_tensoracle.runtime.build import build_serialized_engine
    from hatch_tensoracle.runtime.builder_settings import BuilderSettings
    from hatch_tensoracle.runtime.comparison import ComparedElement, OutputComparison, compare_outputs
    from hatch_tensoracle.runtime.cuda_graphs import CudaGraphs, enable_cudagraphs
    from hatch_tensoracle.runtime.declaration import EngineBuild, InputShape
    from hatch_tensoracle.runtime.engine import EngineHandle, open_engine
    from hatch_tensoracle.runtime.engine_io import EngineIO, TensorSpec
    from hatch_tensoracle.runtime.error_plot import plot_errors
    from hatch_tensoracle.runtime.errors import (
        CorruptEngineError,
        EngineBuildError,
        EngineCacheError,
        EngineConditionError,
        EngineIOError,
        ExecutionError,
        GpuError,
        PluginLibraryError,
    )
    from hatch_tensoracle.runtime.execution import EngineExecution
    from hatch_tensoracle.runtime.kernel_cache import RuntimeCache
    from hatch_tensoracle.runtime.onnx_model import onnx_graph
    from hatch_tensoracle.runtime.plugin_layer import add_plugin
    from hatch_tensoracle.runtime.plugins import PluginLibrary, plugin_library, register_plugins
    from hatch_tensoracle.runtime.scopes import runtime_cache, runtime_config
    from hatch_tensoracle.runtime.settings import RuntimeSettings

__all__ = [
    "BuilderSettings",
    "ComparedElement",
    "CorruptEngineError",
    "CudaGraphs",
    "DevicePointer",
    "EngineBuild",
    "EngineBuildError",
    "EngineCacheError",
    "EngineConditionError",
    "EngineExecution",
    "EngineHandle",
    "EngineIO",
    "EngineIOError",
    "ExecutionError",
    "GpuError",
    "InputShape",
    "OutputComparison",
    "PluginLibrary",
    "PluginLibraryError",
    "RuntimeCache",
    "RuntimeSettings",
    "TensorSpec",
    "add_plugin",
    "build_serialized_engine",
    "compare_outputs",
    "enable_cudagraphs",
    "onnx_graph",
    "open_engine",
    "plot_errors",
    "plugin_library",
    "register_plugins",
    "runtime_cache",
    "runtime_config",
]

_MODULES = {
    "arrays": ("DevicePointer",),
    "build": ("build_serialized_engine",),
    "builder_settings": ("BuilderSettings",),
    "comparison": ("ComparedElement", "OutputComparison", "compare_outputs"),
    "cuda_graphs": ("CudaGraphs", "enable_cudagraphs"),
    "declaration": ("EngineBuild", "InputShape"),
    "engine": ("EngineHandle", "open_engine"),
    "engine_io": ("EngineIO", "TensorSpec"),
    "error_plot": ("plot_errors",),
    "errors": (
        "CorruptEngineError",
        "EngineBuildError",
        "EngineCacheError",
        "EngineConditionError",
        "EngineIOError",
        "ExecutionError",
        "GpuError",
        "PluginLibraryError",
    ),
    "execution": ("EngineExecution",),
    "kernel_cache": ("RuntimeCache",),
    "onnx_model": ("onnx_graph",),
    "plugin_layer": ("add_plugin",),
    "plugins": ("PluginLibrary", "plugin_library", "register_plugins"),
    "scopes": ("runtime_cache", "runtime_config"),
    "settings": ("RuntimeSettings",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    # Modules are loaded with the first use of what they define: every process of a model package imports this one.
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
