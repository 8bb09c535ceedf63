"""What the GPU is that an engine is built for, as its driver describes it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from hatch_tensoracle.runtime.driver import driver
from hatch_tensoracle.runtime.errors import GpuError

__all__ = ["GpuIdentity", "current_device", "current_gpu"]

# CUdevice_attribute
_MULTIPROCESSORS = 16
_MEMORY_BUS_WIDTH = 37
_L2_BYTES = 38
_COMPUTE_CAPABILITY = (75, 76)

_NAME_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdentity:
    """What GPUs have in common that share engines: tactics are timed on it. Index, UUID and PCI address are no part."""

    name: str
    """The product's."""
    compute_capability: str
    """Such as `8.9`."""
    total_memory: int
    """Bytes."""
    multiprocessors: int
    l2_bytes: int
    memory_bus_width: int
    """Bits."""


def current_gpu() -> GpuIdentity:
    """Describe the GPU that TensorRT would work on now.

    That is the device of the calling thread's current context, or else the first of those that CUDA_VISIBLE_DEVICES
    leaves. Raises GpuError if any of its properties cannot be read.
    """
    device = current_device()
    major, minor = (_attribute(device, "compute capability", number, least=0) for number in _COMPUTE_CAPABILITY)
    return GpuIdentity(
        name=_name(device),
        compute_capability=f"{major}.{minor}",
        total_memory=_total_memory(device),
        multiprocessors=_attribute(device, "number of multiprocessors", _MULTIPROCESSORS),
        l2_bytes=_attribute(device, "size of the L2 cache", _L2_BYTES),
        memory_bus_width=_attribute(device, "width of the memory bus", _MEMORY_BUS_WIDTH),
    )


def current_device() -> int:
    """Return the CUDA index of that GPU. Raises GpuError."""
    return driver().current_device()


def _name(device: int) -> str:
    name = ctypes.create_string_buffer(_NAME_BYTES)
    driver().call("the GPU's name cannot be read", "cuDeviceGetName", name, _NAME_BYTES, device)
    if not name.value:
        raise GpuError("the GPU's name cannot be read: cuDeviceGetName gives none")
    return name.value.decode(errors="backslashreplace")


def _total_memory(device: int) -> int:
    size = ctypes.c_size_t()
    driver().call("the GPU's total memory cannot be read", "cuDeviceTotalMem_v2", ctypes.byref(size), device)
    if not size.value:
        raise GpuError("the GPU's total memory cannot be read: cuDeviceTotalMem gives 0")
    return size.value


def _attribute(device: int, what: str, number: int, *, least: int = 1) -> int:
    value = ctypes.c_int()
    driver().call(f"the GPU's {what} cannot be read", "cuDeviceGetAttribute", ctypes.byref(value), number, device)
    if value.value < least:
        raise GpuError(f"the GPU's {what} cannot be read: attribute {number} is {value.value}")
    return value.value
