"""The library that arrays are of, for more of them on the same device and its notion of a current stream."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Protocol

from hatch_tensoracle.data_types import NUMPY_NAMES

__all__ = ["ArrayLibrary", "library_of"]

Shape = tuple[int, ...]


class ArrayLibrary(Protocol):
    """What is needed of it, on the device of the array that it was found by."""

    name: str
    """For messages."""

    def current_stream(self) -> int:
        """Return the handle of the stream that the caller's own work goes to."""

    def on_stream(self, handle: int) -> contextlib.AbstractContextManager[Any]:
        """Allocate for that stream meanwhile."""

    def has(self, type_: str) -> bool:
        """Whether it has arrays of that type, one of `fp32`, `bf16`, `i64`, ..."""

    def empty(self, shape: Shape, type_: str) -> Any:
        """Return a new array."""

    def address(self, array: Any) -> int:
        """Return where it lies."""

    def reinterpret(self, memory: Any, shape: Shape, type_: str) -> Any:
        """Return an array of bytes as one of that type."""


def library_of(array: Any) -> ArrayLibrary | None:
    """Return the library of an array; None if it is none that can allocate here."""
    root = type(array).__module__.partition(".")[0]
    if root == "torch":
        return _Torch(sys.modules[root], array)
    if root == "cupy":
        return _Cupy(sys.modules[root], array)
    return None


class _Torch:
    name = "torch"

    def __init__(self, torch: Any, array: Any) -> None:
        self._torch, self._device = torch, array.device

    def current_stream(self) -> int:
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)

    def on_stream(self, handle: int) -> contextlib.AbstractContextManager[Any]:
        if handle == self.current_stream():
            return contextlib.nullcontext()
        cuda = self._torch.cuda
        return cuda.stream(cuda.ExternalStream(handle, device=self._device))  # type: ignore[no-any-return]

    def has(self, type_: str) -> bool:
        return hasattr(self._torch, NUMPY_NAMES[type_])  # fp8 since 2.1

    def empty(self, shape: Shape, type_: str) -> Any:
        return self._torch.empty(shape, dtype=getattr(self._torch, NUMPY_NAMES[type_]), device=self._device)

    def address(self, array: Any) -> int:
        return int(array.data_ptr())

    def reinterpret(self, memory: Any, shape: Shape, type_: str) -> Any:
        return memory.view(getattr(self._torch, NUMPY_NAMES[type_])).reshape(shape)


class _Cupy:
    name = "CuPy"

    def __init__(self, cupy: Any, array: Any) -> None:
        self._cupy, self._device = cupy, array.device

    def current_stream(self) -> int:
        with self._device:
            return int(self._cupy.cuda.get_current_stream().ptr)

    @contextlib.contextmanager
    def on_stream(self, handle: int) -> Any:
        with self._device, self._cupy.cuda.ExternalStream(handle, self._device.id):
            yield

    def has(self, type_: str) -> bool:
        return type_ not in {"bf16", "fp8"}

    def empty(self, shape: Shape, type_: str) -> Any:
        with self._device:
            return self._cupy.empty(shape, dtype=NUMPY_NAMES[type_])

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def reinterpret(self, memory: Any, shape: Shape, type_: str) -> Any:
        return memory.view(NUMPY_NAMES[type_]).reshape(shape)
