"""TensorRT's data types of tensors and of plugin fields, by the names that they are given."""

from __future__ import annotations

__all__ = ["DATA_TYPES", "NUMPY_FIELD_TYPES"]

DATA_TYPES = ("fp32", "fp16", "i8", "i32", "bool", "u8", "fp8", "bf16", "i64", "i4", "fp4", "e8m0")
"""In the order of the values of nvinfer1::DataType."""

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
