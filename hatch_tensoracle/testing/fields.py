"""Plugin fields: Python values as TensorRT hands them over, and back."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hatch_tensoracle.data_types import NUMPY_FIELD_TYPES
from hatch_tensoracle.testing import abi

__all__ = ["Field", "FieldDeclaration", "FieldSet", "fields_of", "read_fields"]

# struct's letter and bytes of each element.
_CODES = {
    "FLOAT16": "e",
    "FLOAT32": "f",
    "FLOAT64": "d",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
}
_SIZES = {
    **{name: struct.calcsize(code) for name, code in _CODES.items()},
    "BF16": 2,
    "CHAR": 1,
    "DIMS": ctypes.sizeof(abi.Dims),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDeclaration:
    """A field as a creator lists it."""

    name: str
    type: str
    """TensorRT's name, such as `FLOAT32`."""
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field as it is handed over."""

    name: str
    type: str
    """TensorRT's name, such as `FLOAT32`."""
    data: bytes | None
    """None is handed over as a null pointer."""
    length: int
    """Elements."""

    def value(self) -> Any:
        """The elements: a number if there is one, a tuple if there are more or none, or a str for CHAR."""
        data = self.data or b""
        if self.type == "CHAR":
            return data.removesuffix(b"\0").decode()
        if self.type == "DIMS":
            shapes = (abi.Dims * self.length).from_buffer_copy(data)
            elements = tuple(tuple(shape.d[: shape.nbDims]) for shape in shapes)
        elif self.type == "BF16":
            elements = struct.unpack(
                f"<{self.length}f", b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
            )
        else:
            elements = struct.unpack(f"<{self.length}{_CODES[self.type]}", data)
        return elements[0] if self.length == 1 else elements


class FieldSet:
    """A PluginFieldCollection and the memory that it points into."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._buffers = [None if field.data is None else ctypes.create_string_buffer(field.data) for field in fields]
        self._records = (abi.FieldRecord * len(fields))()
        for record, field, buffer in zip(self._records, fields, self._buffers, strict=True):
            if field.type not in abi.FIELD_TYPES:
                message = f"field {field.name} is of type {field.type!r}; TensorRT has {', '.join(abi.FIELD_TYPES)}"
                raise ValueError(message)
            record.name = field.name.encode()
            record.data = None if buffer is None else ctypes.addressof(buffer)
            record.type = abi.FIELD_TYPES.index(field.type)
            record.length = field.length
        self.collection = abi.FieldCollection(len(fields), self._records)


def fields_of(values: Mapping[str, Any] | Sequence[Field], declared: Sequence[FieldDeclaration]) -> tuple[Field, ...]:
    """Turn values into fields.

    NumPy scalars and arrays keep their type; a Python int, float, bool or sequence of them takes the declared type,
    a str is CHAR with its NUL, as TensorRT's parsers write it. A name that is not declared keeps the type that the
    value suggests: it is the plugin's to refuse. Raises TypeError or ValueError.
    """
    if not isinstance(values, Mapping):
        return tuple(values)
    types = {declaration.name: declaration.type for declaration in declared}
    return tuple(_field(name, value, types.get(name)) for name, value in values.items())


def read_fields(collection: abi.FieldCollection) -> tuple[Field, ...]:
    """Copy fields out of a collection, as an engine does."""
    fields = []
    for record in collection.fields[: collection.nbFields]:
        type_ = abi.FIELD_TYPES[record.type]
        data = ctypes.string_at(record.data, record.length * _SIZES[type_]) if record.data else None
        fields.append(Field(name=record.name.decode(), type=type_, data=data, length=record.length))
    return tuple(fields)


def _field(name: str, value: Any, declared: str | None) -> Field:
    if isinstance(value, str):
        data = value.encode() + b"\0"
        return Field(name=name, type="CHAR", data=data, length=len(data))
    if hasattr(value, "dtype"):
        if value.dtype.name not in NUMPY_FIELD_TYPES:
            message = f"field {name} is of dtype {value.dtype.name}; TensorRT has {', '.join(NUMPY_FIELD_TYPES)}"
            raise TypeError(message)
        return Field(name=name, type=NUMPY_FIELD_TYPES[value.dtype.name], data=value.tobytes(), length=value.size)
    elements = list(value) if isinstance(value, (list, tuple)) else [value]
    if declared == "DIMS":
        shapes = elements if elements and isinstance(elements[0], (list, tuple)) else [elements]
        return Field(name=name, type="DIMS", data=_packed(name, shapes, "DIMS"), length=len(shapes))
    type_ = declared or ("INT64" if all(isinstance(element, int) for element in elements) else "FLOAT64")
    return Field(name=name, type=type_, data=_packed(name, elements, type_), length=len(elements))


def _packed(name: str, elements: Sequence[Any], type_: str) -> bytes:
    try:
        if type_ == "BF16":
            return b"".join(_bfloat16(element) for element in elements)
        if type_ == "DIMS":
            return b"".join(bytes(abi.Dims.of(shape)) for shape in elements)
        return struct.pack(f"<{len(elements)}{_CODES[type_]}", *elements)
    except (IndexError, KeyError, OverflowError, TypeError, struct.error) as error:
        message = f"field {name} is {elements!r}, which cannot be written as the declared {type_}: {error}"
        raise ValueError(message) from error


def _bfloat16(value: float) -> bytes:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    rounded = bits if value != value else bits + 0x7FFF + (bits >> 16 & 1)  # noqa: PLR0124 - NaN; else to nearest even
    return struct.pack("<H", rounded >> 16)
