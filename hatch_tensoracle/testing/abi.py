"""TensorRT's records and numbers, as ctypes; the same facts as cpp/include/tensoracle/plugin_abi.hpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from hatch_tensoracle import data_types

__all__ = [
    "DATA_TYPES",
    "FIELD_TYPES",
    "FORMATS",
    "MAX_DIMS",
    "SEVERITIES",
    "Dims",
    "DynamicTensorDesc",
    "FieldCollection",
    "FieldRecord",
    "Identity",
    "InterfaceInfo",
    "TensorDesc",
]

MAX_DIMS = 8

# In the order of their values.
DATA_TYPES = tuple(data_types.DATA_TYPES)
FORMATS = (
    *("LINEAR", "CHW2", "HWC8", "CHW4", "CHW16", "CHW32", "DHWC8", "CDHW32", "HWC"),
    *("DLA_LINEAR", "DLA_HWC4", "HWC16", "DHWC"),
)
FIELD_TYPES = (
    *("FLOAT16", "FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "CHAR", "DIMS", "UNKNOWN"),
    *("BF16", "INT64", "FP8", "INT4", "FP4"),
)
SEVERITIES = ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE")


class Dims(ctypes.Structure):
    """nvinfer1::Dims64."""

    _fields_ = (("nbDims", ctypes.c_int32), ("d", ctypes.c_int64 * MAX_DIMS))

    @classmethod
    def of(cls, shape: Sequence[int]) -> Dims:
        """Make one; an extent of -1 is dynamic."""
        return cls(len(shape), (ctypes.c_int64 * MAX_DIMS)(*shape))


class TensorDesc(ctypes.Structure):
    """nvinfer1::PluginTensorDesc."""

    _fields_ = (
        ("dims", Dims),
        ("type", ctypes.c_int32),
        ("format", ctypes.c_int32),
        ("scale", ctypes.c_float),
    )


class DynamicTensorDesc(ctypes.Structure):
    """nvinfer1::DynamicPluginTensorDesc."""

    _fields_ = (("desc", TensorDesc), ("min", Dims), ("max", Dims), ("opt", Dims))


class FieldRecord(ctypes.Structure):
    """nvinfer1::PluginField."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("length", ctypes.c_int32),
    )


class FieldCollection(ctypes.Structure):
    """nvinfer1::PluginFieldCollection."""

    _fields_ = (("nbFields", ctypes.c_int32), ("fields", ctypes.POINTER(FieldRecord)))


class InterfaceInfo(ctypes.Structure):
    """nvinfer1::InterfaceInfo."""

    _fields_ = (("kind", ctypes.c_char_p), ("major", ctypes.c_int32), ("minor", ctypes.c_int32))


class Identity(ctypes.Structure):
    """What a creator and a plugin's core call themselves; a record of the harness's own."""

    _fields_ = (("name", ctypes.c_char_p), ("version", ctypes.c_char_p), ("namespace", ctypes.c_char_p))
