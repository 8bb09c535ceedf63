"""Arrays of other libraries in device memory: where they lie, what they hold, and the streams they are used on."""

from __future__ import annotations

import ctypes
import operator
from dataclasses import dataclass
from typing import Any

from hatch_tensoracle.data_types import NUMPY_NAMES

__all__ = ["DevicePointer", "device_pointer", "stream_handle"]

Shape = tuple[int, ...]

_TYPES = {name: type_ for type_, name in NUMPY_NAMES.items()}
_DLPACK_CUDA = 2
# Code and bits of DLDataType.
_DLPACK_TYPES = {
    (0, 8): "i8",
    (0, 32): "i32",
    (0, 64): "i64",
    (1, 8): "u8",
    (2, 16): "fp16",
    (2, 32): "fp32",
    (4, 16): "bf16",
    (6, 8): "bool",
    (10, 8): "fp8",
}
_NO_SYNCHRONISATION = -1  # the order of streams is the caller's business, and so is capture


class _DlTensor(ctypes.Structure):
    """The beginning of a DLManagedTensor, https://dmlc.github.io/dlpack/latest/c_api.html."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """A tensor in device memory that somebody else owns."""

    address: int
    shape: Shape
    type: str
    device: int | None = None
    """The GPU's CUDA index, where it is known."""


def device_pointer(array: Any, *, is_written: bool = False) -> DevicePointer:
    """Where an array lies in device memory; the caller keeps it alive. Raises TypeError or ValueError.

    What `is_written` must not say that it is for reading only.
    """
    if isinstance(array, DevicePointer):
        return array
    try:
        if hasattr(array, "__dlpack_device__") and int(array.__dlpack_device__()[0]) == _DLPACK_CUDA:
            return _from_dlpack(array)
        if hasattr(array, "__cuda_array_interface__"):
            return _from_interface(array.__cuda_array_interface__, is_written=is_written)
    except (BufferError, RuntimeError) as error:  # torch's for what needs a gradient, or is conjugated lazily
        message = f"a {type(array).__name__} cannot be handed over: {error}"
        raise ValueError(message) from error
    message = (
        f"a {type(array).__name__} is not in device memory: what is taken there is DevicePointer, DLPack or "
        "__cuda_array_interface__"
    )
    raise TypeError(message)


def stream_handle(stream: Any) -> int:
    """The handle of a stream: None for the default one, a number, or an object of torch, cupy, cuda-python or ours.

    Raises TypeError or ValueError.
    """
    handle = 0 if stream is None else _handle(stream)
    if handle < 0:
        message = f"the stream's handle is {handle}, must not be negative"
        raise ValueError(message)
    return handle


def _handle(stream: Any) -> int:
    if type(stream) is int:
        return stream
    for name in ("handle", "cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    if hasattr(stream, "getPtr"):  # cuda.bindings, where this is the address of the handle
        return int(stream)
    if not isinstance(stream, bool) and hasattr(stream, "__index__"):
        return operator.index(stream)
    message = f"a {type(stream).__name__} is no CUDA stream"
    raise TypeError(message)


def _from_dlpack(array: Any) -> DevicePointer:
    capsule = array.__dlpack__(stream=_NO_SYNCHRONISATION)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DlTensor.from_address(get(capsule, b"dltensor"))
    type_ = _DLPACK_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if type_ is None:
        message = f"DLPack type {tensor.code} of {tensor.bits} bits and {tensor.lanes} lanes is none that is known"
        raise TypeError(message)
    shape = tuple(tensor.shape[: tensor.ndim])
    _check_contiguous(shape, tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None)
    # The capsule's owner still holds the memory.
    return DevicePointer(tensor.data + tensor.byte_offset, shape, type_, tensor.device_id)


def _from_interface(interface: dict[str, Any], *, is_written: bool) -> DevicePointer:
    import numpy as np

    address, is_read_only = interface["data"]
    if is_written and is_read_only:
        message = "the array is for reading only, and would be written to"
        raise ValueError(message)
    dtype = np.dtype(interface["typestr"])
    if dtype.name not in _TYPES:
        message = f"an array of {dtype.name} is none that TensorRT knows"
        raise TypeError(message)
    if not dtype.isnative:
        message = f"an array of {dtype.str} is in another byte order than the device's"
        raise TypeError(message)
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    _check_contiguous(shape, tuple(strides) if strides else None, item=dtype.itemsize)
    return DevicePointer(address, shape, _TYPES[dtype.name])


def _check_contiguous(shape: Shape, strides: Shape | None, *, item: int = 1) -> None:
    """Raise ValueError if it is not; `item` is the size of an element in the unit of the strides."""
    expected = item
    for extent, stride in zip(reversed(shape), reversed(strides or ()), strict=False):
        if extent != 1 and stride != expected and 0 not in shape:
            message = f"an array of shape {shape} has strides {strides}; TensorRT's tensors are contiguous"
            raise ValueError(message)
        expected *= extent
