"""What is tuned: a plugin with fields, and inputs whose extents are given, listed or ranged."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hatch_tensoracle._decode import DecodeError, decode_toml
from hatch_tensoracle.testing import Tensor

__all__ = ["Case", "Input", "Range", "Repeat", "Size", "Sizes", "read_cases"]

Sizes = Mapping[str, int]
"""A value for each variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """All extents from `min` to `max`."""

    min: int
    max: int

    def __post_init__(self) -> None:
        if not 1 <= self.min <= self.max:
            raise DecodeError(f"must be from 1 on and not above max, {self.max}; is {self.min}", "min")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """An array field of equal elements."""

    repeat: int | float
    times: int | str
    """A number or a variable."""


Size = int | tuple[int, ...] | Range
FieldValue = bool | int | float | str | tuple[int | float, ...] | Repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input."""

    type: str
    shape: tuple[int | str, ...]
    """Numbers and variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plugin whose tactics are the configurations of `kernel`, with what it is measured on."""

    plugin: str
    kernel: str
    inputs: tuple[Input, ...]
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """The extents of each variable: one, several, or a range."""
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    version: str | None = None
    namespace: str = ""

    def __post_init__(self) -> None:
        for where, problem in self._problems():
            raise DecodeError(problem, where)

    def _problems(self) -> Iterator[tuple[str, str]]:
        if not self.inputs:
            yield "inputs", "is empty: a plugin has inputs"
        for i, given in enumerate(self.inputs):
            for j, extent in enumerate(given.shape):
                where = f"inputs[{i}].shape[{j}]"
                if isinstance(extent, str) and extent not in self.sizes:
                    yield where, f"is {extent!r}, which `sizes` has not"
                if isinstance(extent, int) and extent < 1:
                    yield where, f"is {extent}; it must be a positive number or a variable of `sizes`"
        for name, value in self.fields.items():
            if isinstance(value, Repeat) and isinstance(value.times, str) and value.times not in self.sizes:
                yield f"fields.{name}.times", f"is {value.times!r}, which `sizes` has not"
        yield from self._problems_of_sizes()

    def _problems_of_sizes(self) -> Iterator[tuple[str, str]]:
        used = {extent for given in self.inputs for extent in given.shape}
        for name, size in self.sizes.items():
            values = (size,) if isinstance(size, int) else size if isinstance(size, tuple) else (size.min, size.max)
            if name not in used:
                yield f"sizes.{name}", "is in no shape"
            if not values or min(values) < 1:
                yield f"sizes.{name}", f"must be positive numbers, is {list(values)}"
            if isinstance(size, tuple) and len(set(size)) != len(size):
                yield f"sizes.{name}", f"has a number twice: {list(size)}"

    @property
    def label(self) -> str:
        """How messages call it."""
        inputs = " ".join(f"{given.type}({','.join(map(str, given.shape))})" for given in self.inputs)
        return f"{self.plugin} {self.kernel} {inputs}"

    @property
    def id(self) -> str:
        """The same for the same plugin, fields and inputs, whatever the sizes."""
        content = dataclasses.asdict(dataclasses.replace(self, sizes=dict.fromkeys(self.sizes, 1)))
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        """The inputs' shapes."""
        return [tuple(_value(extent, sizes) for extent in given.shape) for given in self.inputs]

    def tensors(self, sizes: Sizes) -> list[Tensor]:
        """The inputs as the harness takes them."""
        return [Tensor(given.type, shape) for given, shape in zip(self.inputs, self.shapes(sizes), strict=True)]

    def field_values(self, sizes: Sizes) -> dict[str, object]:
        """The fields as the harness takes them."""
        return {
            name: [value.repeat] * _value(value.times, sizes) if isinstance(value, Repeat) else value
            for name, value in self.fields.items()
        }


def _value(extent: int | str, sizes: Sizes) -> int:
    return sizes[extent] if isinstance(extent, str) else extent


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    cases: tuple[Case, ...]


def read_cases(path: Path) -> tuple[Case, ...]:
    """Read the array `cases` of a TOML file. Raises ConfigurationError naming the key that is wrong."""
    return decode_toml(_File, path, remedy="See docs/tuning.md for the form of cases.", check=_check).cases


def _check(file: _File) -> None:
    if not file.cases:
        raise DecodeError("is empty: nothing would be measured", "cases")
    for i, case in enumerate(file.cases):
        for j, given in enumerate(case.inputs):
            try:
                Tensor(given.type, (1,) * len(given.shape))
            except ValueError as error:
                raise DecodeError(str(error), f"cases[{i}].inputs[{j}]") from error
