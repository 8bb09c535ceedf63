"""What an engine's tensors are expected to be, compared with what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatch_tensoracle.data_types import DATA_TYPES, named
from hatch_tensoracle.runtime.declaration import EngineBuild, InputShape
from hatch_tensoracle.runtime.errors import EngineIOError
from hatch_tensoracle.runtime.values import checked_integers

__all__ = ["EngineIO", "TensorSpec", "check_io"]

Difference = tuple[str, str, object, object]
"""Tensor, field, what the engine has, what is declared."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is expected of one input or output of an engine."""

    dtype: str
    """A name such as `fp16`; TensorRT's own (`trt.float16`) is taken too."""
    shape: tuple[int, ...]
    """As the engine declares it: -1 on an axis that varies."""
    location: str | None = None
    """`device` or `host`, or TensorRT's TensorLocation; None is not compared."""
    format: str | None = None
    """Such as `LINEAR`, or TensorRT's TensorFormat; None is not compared."""

    def __post_init__(self) -> None:
        dtype = _name(self.dtype)
        dtype = named(dtype) or dtype
        if dtype not in DATA_TYPES:
            raise ValueError(f"TensorSpec: dtype must be one of {', '.join(DATA_TYPES)}, not {self.dtype!r}")
        object.__setattr__(self, "dtype", dtype)
        shape = checked_integers("TensorSpec: shape", self.shape)
        if any(extent < -1 for extent in shape):
            raise ValueError(f"TensorSpec: shape {shape} must have extents, or -1 where they vary")
        object.__setattr__(self, "shape", shape)
        if self.location is not None:
            object.__setattr__(self, "location", _name(self.location).lower())
            if self.location not in {"device", "host"}:
                raise ValueError(f"TensorSpec: location must be device or host, not {self.location!r}")
        if self.format is not None:
            object.__setattr__(self, "format", _name(self.format).upper())


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIO:
    """The inputs and outputs that an engine is expected to have, all of them."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    def __post_init__(self) -> None:
        for kind in ("inputs", "outputs"):
            for name, spec in getattr(self, kind).items():
                if not isinstance(name, str) or not isinstance(spec, TensorSpec):
                    raise TypeError(f"EngineIO: {kind}: {name!r} must be a name and have a TensorSpec, not {spec!r}")
            object.__setattr__(self, kind, dict(getattr(self, kind)))
        if twice := self.inputs.keys() & self.outputs.keys():
            raise ValueError(f"EngineIO: {min(twice)!r} is declared as input and as output")


def check_io(engine: Any, io: EngineIO, declaration: EngineBuild, path: Path) -> None:
    """Raise EngineIOError for the first tensor that is not as declared: in `mode`, `none` stands for no such tensor."""
    for tensor, field, seen, expected in _differences(engine, io, declaration):
        raise EngineIOError(tensor, field, seen=seen, expected=expected, file=str(path))


def _differences(engine: Any, io: EngineIO, declaration: EngineBuild) -> Iterator[Difference]:
    declared = dict.fromkeys(io.inputs, "input") | dict.fromkeys(io.outputs, "output")
    there = {
        name: engine.get_tensor_mode(name).name.lower()
        for name in (engine.get_tensor_name(index) for index in range(engine.num_io_tensors))
    }
    for name in declared | there:
        if there.get(name) != declared.get(name):
            yield name, "mode", there.get(name, "none"), declared.get(name, "none")
    for name, spec in {**io.inputs, **io.outputs}.items():
        for field, seen, expected in _fields(engine, name, spec):
            if seen != expected:
                yield name, field, seen, expected
    if engine.num_optimization_profiles != declaration.profile_count:
        yield next(iter(there)), "profiles", engine.num_optimization_profiles, declaration.profile_count
    for index in range(declaration.profile_count):
        for name, shape in declaration.profile(index).items():
            expected = [shape.min, shape.opt, shape.max]
            if (seen := _profile(engine, name, shape, index)) != expected:
                yield name, f"profile {index}", seen, expected


def _fields(engine: Any, name: str, spec: TensorSpec) -> Iterator[tuple[str, object, object]]:
    dtype = engine.get_tensor_dtype(name).name
    yield "dtype", named(dtype) or dtype, spec.dtype
    yield "shape", tuple(engine.get_tensor_shape(name)), spec.shape
    if spec.location is not None:
        yield "location", engine.get_tensor_location(name).name.lower(), spec.location
    if spec.format is not None:
        yield "format", engine.get_tensor_format(name).name, spec.format


def _profile(engine: Any, name: str, shape: InputShape, index: int) -> list[tuple[int, ...]]:
    if shape.kind == "values":  # the binding has these two parameters in the other order
        return [tuple(values) for values in engine.get_tensor_profile_values(index, name)]
    return [tuple(extents) for extents in engine.get_tensor_profile_shape(name, index)]


def _name(value: object) -> str:
    return str(getattr(value, "name", value))
