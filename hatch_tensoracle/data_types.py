"""TensorRT's data types, by the names that tests and cases give them."""

from __future__ import annotations

__all__ = ["DATA_TYPES"]

DATA_TYPES = ("fp32", "fp16", "i8", "i32", "bool", "u8", "fp8", "bf16", "i64", "i4", "fp4", "e8m0")
"""In the order of the values of nvinfer1::DataType."""
