"""What the GPU is that an engine is built for, as its driver describes it."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

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
    driver = _driver()
    device = driver.current_device()
    major, minor = (driver.attribute(device, "compute capability", number, least=0) for number in _COMPUTE_CAPABILITY)
    return GpuIdentity(
        name=driver.name(device),
        compute_capability=f"{major}.{minor}",
        total_memory=driver.total_memory(device),
        multiprocessors=driver.attribute(device, "number of multiprocessors", _MULTIPROCESSORS),
        l2_bytes=driver.attribute(device, "size of the L2 cache", _L2_BYTES),
        memory_bus_width=driver.attribute(device, "width of the memory bus", _MEMORY_BUS_WIDTH),
    )


def current_device() -> int:
    """Return the CUDA index of that GPU. Raises GpuError."""
    return _driver().current_device()


class _Driver:
    """The driver API, initialised."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GpuError(
                f"the CUDA driver cannot be loaded: {error}", remedy="Install NVIDIA's driver for this machine's GPU."
            ) from error
        self._call("the driver", "cuInit", 0)

    def current_device(self) -> int:
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self._call("the current context", "cuCtxGetCurrent", ctypes.byref(context))
        if context:
            self._call("the device of the current context", "cuCtxGetDevice", ctypes.byref(device))
        else:
            self._call("the first device", "cuDeviceGet", ctypes.byref(device), 0)
        return device.value

    def name(self, device: int) -> str:
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("the GPU's name", "cuDeviceGetName", name, _NAME_BYTES, device)
        if not name.value:
            raise GpuError("the GPU's name cannot be read: cuDeviceGetName gives none")
        return name.value.decode(errors="backslashreplace")

    def total_memory(self, device: int) -> int:
        size = ctypes.c_size_t()
        self._call("the GPU's total memory", "cuDeviceTotalMem_v2", ctypes.byref(size), device)
        if not size.value:
            raise GpuError("the GPU's total memory cannot be read: cuDeviceTotalMem gives 0")
        return size.value

    def attribute(self, device: int, what: str, number: int, *, least: int = 1) -> int:
        value = ctypes.c_int()
        self._call(f"the GPU's {what}", "cuDeviceGetAttribute", ctypes.byref(value), number, device)
        if value.value < least:
            raise GpuError(f"the GPU's {what} cannot be read: attribute {number} is {value.value}")
        return value.value

    def _call(self, what: str, function: str, *arguments: object) -> None:
        try:
            code = getattr(self._library, function)(*arguments)
        except AttributeError as error:
            raise GpuError(f"{what} cannot be read: the driver has no {function}") from error
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            name = text.value.decode() if text.value else f"error {code}"
            raise GpuError(
                f"{what} cannot be read: {function} fails with {name}",
                remedy="See whether nvidia-smi lists the GPU, and what CUDA_VISIBLE_DEVICES says.",
            )


_driver = functools.cache(_Driver)  # asked with each execution on arrays
