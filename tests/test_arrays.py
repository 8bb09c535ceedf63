"""Arrays are taken where they lie, if they lie as TensorRT's tensors do."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np  # noqa: TID253 - for an array that is none of them
import pytest

from hatch_tensoracle._arrays import DevicePointer, device_pointer, stream_handle

CUDA, GPU = 2, 3


class Exported:
    """An array of another library, which exports a DLManagedTensor."""

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...] | None, kind: tuple[int, int], lanes: int = 1
    ) -> None:
        self.given: dict[str, Any] = {}
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self._tensor = ctypes.create_string_buffer(64)
        fields = [
            (0, ctypes.c_uint64, 0x1000),
            (8, ctypes.c_int32, CUDA),
            (12, ctypes.c_int32, GPU),
            (16, ctypes.c_int32, len(shape)),
            (20, ctypes.c_uint8, kind[0]),
            (21, ctypes.c_uint8, kind[1]),
            (22, ctypes.c_uint16, lanes),
            (24, ctypes.c_uint64, ctypes.addressof(self._shape)),
            (32, ctypes.c_uint64, ctypes.addressof(self._strides) if self._strides else 0),
            (40, ctypes.c_uint64, 0x20),
        ]
        for offset, type_, value in fields:
            type_.from_buffer(self._tensor, offset).value = value

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, GPU

    def __dlpack__(self, **given: Any) -> object:
        self.given = given
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


def interface(shape: tuple[int, ...], type_: str, strides: tuple[int, ...] | None = None) -> SimpleNamespace:
    fields = {"shape": shape, "typestr": type_, "data": (0x1000, False), "strides": strides}
    return SimpleNamespace(__cuda_array_interface__=fields)


@pytest.mark.parametrize(
    ("kind", "type_"),
    [((2, 32), "fp32"), ((2, 16), "fp16"), ((4, 16), "bf16"), ((0, 32), "i32"), ((0, 8), "i8"), ((6, 8), "bool")],
)
@pytest.mark.parametrize("strides", [None, (3, 1)])
def test_dlpack_array_is_taken_by_address(kind: tuple[int, int], type_: str, strides: tuple[int, ...] | None) -> None:
    array = Exported((2, 3), strides, kind)
    assert device_pointer(array) == DevicePointer(0x1020, (2, 3), type_, GPU)
    assert array.given == {"stream": -1}  # no synchronisation, which a capture would not survive


@pytest.mark.parametrize(("type_", "name"), [("<f4", "fp32"), ("<f2", "fp16"), ("<i8", "i64"), ("|b1", "bool")])
def test_cuda_array_interface_is_taken_by_address(type_: str, name: str) -> None:
    assert device_pointer(interface((2, 3), type_)) == DevicePointer(0x1000, (2, 3), name)  # which names no device


def test_strides_that_make_no_difference_are_taken() -> None:
    assert device_pointer(interface((1, 3), "<f4", (99, 4))).shape == (1, 3)
    assert device_pointer(interface((0, 3), "<f4", (99, 99))).shape == (0, 3)
    assert device_pointer(interface((), "<f4", ())).shape == ()


@pytest.mark.parametrize(
    "array",
    [
        Exported((2, 3), (1, 2), (2, 32)),
        interface((2, 3), "<f4", (24, 4)),
        interface((2, 3), "<f4", (18, 6)),  # no multiple of the item's size
    ],
)
def test_array_that_is_not_contiguous_is_refused(array: object) -> None:
    with pytest.raises(
        ValueError, match=r"an array of shape \(2, 3\) has strides .* TensorRT's tensors are contiguous"
    ):
        device_pointer(array)


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (Exported((2,), None, (2, 32), lanes=4), "DLPack type 2 of 32 bits and 4 lanes"),
        (interface((2,), "<c8"), "an array of complex64"),
        (interface((2,), ">f4"), "an array of >f4 is in another byte order than the device's"),
        (np.zeros(2), "a ndarray is not in device memory"),
        ("text", "a str is not in device memory"),
    ],
)
def test_array_that_is_none_of_tensorrts_is_refused(array: object, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        device_pointer(array)


def test_streams_of_other_libraries_are_understood() -> None:
    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 8

    class Handle:
        def __int__(self) -> int:
            return 10

        def getPtr(self) -> int:  # noqa: N802 - cuda.bindings' name
            return 1

    streams = [None, 5, SimpleNamespace(handle=6), SimpleNamespace(cuda_stream=7), Protocol(), SimpleNamespace(ptr=9)]
    assert [stream_handle(stream) for stream in (*streams, Handle())] == [0, 5, 6, 7, 8, 9, 10]
    assert stream_handle(np.int64(11)) == 11


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        ("text", TypeError, "a str is no CUDA stream"),
        (True, TypeError, "a bool is no CUDA stream"),
        (5.0, TypeError, "a float is no CUDA stream"),
        (-1, ValueError, "the stream's handle is -1, must not be negative"),
    ],
)
def test_what_is_no_stream_is_refused(stream: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        stream_handle(stream)


@pytest.mark.parametrize("error", [BufferError, RuntimeError])
def test_array_that_its_library_does_not_hand_over_is_refused(error: type[Exception]) -> None:
    def export(**_: Any) -> object:
        raise error("it needs a gradient")

    array = SimpleNamespace(__dlpack_device__=lambda: (CUDA, GPU), __dlpack__=export)
    with pytest.raises(ValueError, match="a SimpleNamespace cannot be handed over: it needs a gradient"):
        device_pointer(array)


def test_array_for_reading_only_is_not_written_to() -> None:
    array = interface((2, 3), "<f4")
    assert device_pointer(array, is_written=True).address == 0x1000
    array.__cuda_array_interface__["data"] = (0x1000, True)
    assert device_pointer(array).address == 0x1000
    with pytest.raises(ValueError, match="the array is for reading only, and would be written to"):
        device_pointer(array, is_written=True)
