"""The library that arrays are of, for more of them on the same device and its notion of a current stream."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any, Protocol

__all__ = ["ArrayLibrary", "library_of"]

Shape = tuple[int, ...]

_NAMES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "FP8": "float8_e4m3fn",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "BOOL": "bool",
}
"""What TensorRT's types are called in torch and CuPy."""


class ArrayLibrary(Protocol):
    """What is needed of it, on the device of the array that it was found by."""

    def current_stream(self) -> int:
        """Return the handle of the stream that the caller's own work goes to."""

    def on_stream(self, handle: int) -> contextlib.AbstractContextManager[Any]:
        """Allocate for that stream meanwhile."""

    def empty(self, shape: Shape, dtype: str) -> Any:
        """Return a new array; `dtype` is the name of a DataType of TensorRT."""

    def address(self, array: Any) -> int:
        """Return where it lies."""

    def reinterpret(self, memory: Any, shape: Shape, dtype: Any) -> Any:
        """Return the beginning of an array of bytes as an array of a DataType of TensorRT."""


def library_of(array: Any) -> ArrayLibrary | None:
    """Return the library of an array; None if it is none that can allocate here."""
    root = type(array).__module__.partition(".")[0]
    if root == "torch":
        return _Torch(sys.modules[root], array)
    if root == "cupy":
        return _Cupy(sys.modules[root], array)
    return None


class _Torch:
    def __init__(self, torch: Any, array: Any) -> None:
        self._torch, self._device = torch, array.device

    def current_stream(self) -> int:
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)

    def on_stream(self, handle: int) -> contextlib.AbstractContextManager[Any]:
        if handle == self.current_stream():
            return contextlib.nullcontext()
        cuda = self._torch.cuda
        return cuda.stream(cuda.ExternalStream(handle, device=self._device))  # type: ignore[no-any-return]

    def empty(self, shape: Shape, dtype: str) -> Any:
        return self._torch.empty(shape, dtype=getattr(self._torch, _NAMES[dtype]), device=self._device)

    def address(self, array: Any) -> int:
        return int(array.data_ptr())

    def reinterpret(self, memory: Any, shape: Shape, dtype: Any) -> Any:
        size = math.prod(shape) * dtype.itemsize
        return memory[:size].view(getattr(self._torch, _NAMES[dtype.name])).reshape(shape)


class _Cupy:
    def __init__(self, cupy: Any, array: Any) -> None:
        self._cupy, self._device = cupy, array.device

    def current_stream(self) -> int:
        with self._device:
            return int(self._cupy.cuda.get_current_stream().ptr)

    @contextlib.contextmanager
    def on_stream(self, handle: int) -> Any:
        with self._device, self._cupy.cuda.ExternalStream(handle, self._device.id):
            yield

    def empty(self, shape: Shape, dtype: str) -> Any:
        if dtype in {"BF16", "FP8"}:
            raise TypeError(f"CuPy has no type for {dtype}: give an array of another library in `out`")
        with self._device:
            return self._cupy.empty(shape, dtype=_NAMES[dtype])

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def reinterpret(self, memory: Any, shape: Shape, dtype: Any) -> Any:
        return memory[: math.prod(shape) * dtype.itemsize].view(_NAMES[dtype.name]).reshape(shape)
