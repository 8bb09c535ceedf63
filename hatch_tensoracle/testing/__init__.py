"""Tests plugin libraries without TensorRT and without a GPU."""

from hatch_tensoracle._arrays import DevicePointer
from hatch_tensoracle.testing.built_plugin import BuiltPlugin
from hatch_tensoracle.testing.cuda import Context, Cuda, Device, Event, Graph, Stream
from hatch_tensoracle.testing.errors import (
    CudaError,
    FakeDriverError,
    FormatError,
    PluginContractError,
    PluginFailedError,
    PluginTestError,
)
from hatch_tensoracle.testing.execution import RunningPlugin
from hatch_tensoracle.testing.fake_driver import FakeDriver
from hatch_tensoracle.testing.fields import Field
from hatch_tensoracle.testing.harness import Creator, PluginHarness
from hatch_tensoracle.testing.plugin import Plugin
from hatch_tensoracle.testing.tensors import Tensor

__all__ = [
    "BuiltPlugin",
    "Context",
    "Creator",
    "Cuda",
    "CudaError",
    "Device",
    "DevicePointer",
    "Event",
    "FakeDriver",
    "FakeDriverError",
    "Field",
    "FormatError",
    "Graph",
    "Plugin",
    "PluginContractError",
    "PluginFailedError",
    "PluginHarness",
    "PluginTestError",
    "RunningPlugin",
    "Stream",
    "Tensor",
]
