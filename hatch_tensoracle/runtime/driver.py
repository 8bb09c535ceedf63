"""The CUDA driver API, by ctypes: what is asked of it when engines are opened and executed."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from hatch_tensoracle.runtime.errors import GpuError

__all__ = ["Driver", "current_context_reader", "driver"]


class Driver:
    """The process's driver, initialised."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GpuError(
                f"the CUDA driver cannot be loaded: {error}", remedy="Install NVIDIA's driver for this machine's GPU."
            ) from error
        self.call("the driver cannot be used", "cuInit", 0)

    def function(self, name: str, *types: Any) -> Callable[..., int]:
        """Return a function by its symbol, for calls without a check. Raises GpuError."""
        try:
            found = getattr(self._library, name)
        except AttributeError as error:
            raise GpuError(f"the driver has no {name}", remedy="Install a newer driver.") from error
        if types:
            found.argtypes = types
        return found  # type: ignore[no-any-return]

    def call(self, failure: str, name: str, *arguments: object) -> None:
        """Call a function by its symbol; `failure` says what an error means. Raises GpuError."""
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise GpuError(f"{failure}: the driver has no {name}") from error
        if code := function(*arguments):
            raise GpuError(
                f"{failure}: {name} fails with {self.error_name(code)}",
                remedy="See whether nvidia-smi lists the GPU, and what CUDA_VISIBLE_DEVICES says.",
            )

    def error_name(self, code: int) -> str:
        """Return the name of a CUresult, such as `CUDA_ERROR_OUT_OF_MEMORY`."""
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {code}"

    def current_device(self) -> int:
        """Return the CUDA index of the current context's device, or else of the first one. Raises GpuError."""
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("the current context cannot be read", "cuCtxGetCurrent", ctypes.byref(context))
        if context:
            self.call("the device of the current context cannot be read", "cuCtxGetDevice", ctypes.byref(device))
        else:
            self.call("the first device cannot be read", "cuDeviceGet", ctypes.byref(device), 0)
        return device.value


@functools.cache  # asked with each execution on arrays
def driver() -> Driver:
    """Return the driver. Raises GpuError."""
    return Driver()


def current_context_reader() -> Callable[[], int | None]:
    """Return a function that returns the handle of the calling thread's CUDA context, for one caller at a time.

    It is asked on the way to every enqueue. It returns None if there is no context, and where there is no driver: what
    executes there is no TensorRT.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return lambda: None
    context = ctypes.c_void_p()
    function, pointer = library.cuCtxGetCurrent, ctypes.byref(context)

    def read() -> int | None:
        function(pointer)
        return context.value

    return read
