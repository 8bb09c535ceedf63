"""What a plugin is checked with: its author names fields and inputs that it must accept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hatch_tensoracle._decode import DecodeError, decode_toml

if TYPE_CHECKING:
    from hatch_tensoracle.testing import Tensor

__all__ = ["Case", "Input", "read_cases"]

FieldValue = bool | int | float | str | tuple[int | float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input."""

    type: str
    """`fp32`, `fp16`, `bf16`, `i8`, `i32`, `i64`, `u8`, `bool`, `fp8`, `i4`, `fp4` or `e8m0`."""
    shape: tuple[int, ...]
    """-1 where an extent is dynamic."""
    min: tuple[int, ...] | None = None
    """Least, most common and greatest shape of a dynamic input."""
    opt: tuple[int, ...] | None = None
    max: tuple[int, ...] | None = None
    format: str = "LINEAR"

    def tensor(self) -> Tensor:
        """The input as the harness takes it."""
        from hatch_tensoracle.testing import Tensor

        return Tensor(self.type, self.shape, self.min, self.opt, self.max, self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plugin with fields and inputs that it must accept."""

    plugin: str
    """Its name; with version and namespace where these do not go without saying."""
    inputs: tuple[Input, ...]
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    name: str = ""
    """How reports call it; left out, it is the types and shapes of the inputs."""
    version: str | None = None
    namespace: str = ""

    @property
    def label(self) -> str:
        """How reports call it."""
        shapes = " ".join(f"{given.type}({','.join(map(str, given.shape))})" for given in self.inputs)
        return f"{self.plugin} {self.name or shapes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    cases: tuple[Case, ...]


def read_cases(path: Path) -> tuple[Case, ...]:
    """Read the array `cases` of a TOML file. Raises ConfigurationError naming the key that is wrong."""
    return decode_toml(_File, path, remedy="See docs/testing.md for the form of cases.", check=_check).cases


def _check(file: _File) -> None:
    if not file.cases:
        raise DecodeError("is empty: nothing would be checked", "cases")
    for i, case in enumerate(file.cases):
        if not case.inputs:
            raise DecodeError("is empty: a plugin has inputs", f"cases[{i}].inputs")
        for j, given in enumerate(case.inputs):
            try:
                _check_bounds(given.tensor())
            except ValueError as error:
                raise DecodeError(str(error), f"cases[{i}].inputs[{j}]") from error


def _check_bounds(tensor: Tensor) -> None:
    """What the harness takes, and TensorRT does not."""
    if any(extent < -1 for extent in tensor.shape):
        message = f"shape has extent {min(tensor.shape)}; it is -1 where it is dynamic"
        raise ValueError(message)
    bounds = [tensor.bound(name) for name in ("min", "opt", "max")]
    if not all(low <= common <= high for low, common, high in zip(*bounds, strict=True)):
        shown = [f"({', '.join(map(str, bound))})" for bound in bounds]
        message = f"min {shown[0]}, opt {shown[1]} and max {shown[2]} are not in order"
        raise ValueError(message)
