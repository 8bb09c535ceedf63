"""TensorRT's data types of tensors and of plugin fields, by the names that they are given."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DATA_TYPES", "NUMPY_FIELD_TYPES", "NUMPY_NAMES", "DataType", "named"]


class DataType(NamedTuple):
    """A type of tensors, known by its name here."""

    tensorrt: str
    """Its name in TensorRT's DataType."""
    bits: int
    """Of an element."""
    numpy: str | None = None
    """NumPy's name, or that of ml_dtypes, which torch has too; None where arrays have no such type."""


DATA_TYPES = {
    "fp32": DataType("FLOAT", 32, "float32"),
    "fp16": DataType("HALF", 16, "float16"),
    "i8": DataType("INT8", 8, "int8"),
    "i32": DataType("INT32", 32, "int32"),
    "bool": DataType("BOOL", 8, "bool"),
    "u8": DataType("UINT8", 8, "uint8"),
    "fp8": DataType("FP8", 8, "float8_e4m3fn"),
    "bf16": DataType("BF16", 16, "bfloat16"),
    "i64": DataType("INT64", 64, "int64"),
    "i4": DataType("INT4", 4),
    "fp4": DataType("FP4", 4),
    "e8m0": DataType("E8M0", 8),
}
"""By the names that users write, in the order of the values of nvinfer1::DataType."""

NUMPY_NAMES = {name: type_.numpy for name, type_ in DATA_TYPES.items() if type_.numpy is not None}
"""Types that arrays have, and what they are called there."""

_NAMES = {type_.tensorrt: name for name, type_ in DATA_TYPES.items()}


def named(tensorrt: str) -> str | None:
    """Return the name here of a type of TensorRT's; None if there is none."""
    return _NAMES.get(tensorrt)


NUMPY_FIELD_TYPES = {
    "float16": "FLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "bfloat16": "BF16",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
}
"""NumPy's name (bfloat16 is of ml_dtypes) and nvinfer1::PluginFieldType's, without its k."""
