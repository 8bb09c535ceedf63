"""Compares an engine's tensors with what its caller declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatch_tensoracle.runtime.declaration import DATA_TYPES, EngineBuild, EngineIO, InputShape, TensorSpec
from hatch_tensoracle.runtime.errors import EngineIOError

__all__ = ["check_io"]

_NAMES = {theirs: name for name, theirs in DATA_TYPES.items()}

Difference = tuple[str, str, object, object]
"""Tensor, field, what the engine has, what is declared."""


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
    yield "dtype", _NAMES.get(dtype, dtype), spec.dtype
    yield "shape", tuple(engine.get_tensor_shape(name)), spec.shape
    if spec.location is not None:
        yield "location", engine.get_tensor_location(name).name.lower(), spec.location
    if spec.format is not None:
        yield "format", engine.get_tensor_format(name).name, spec.format


def _profile(engine: Any, name: str, shape: InputShape, index: int) -> list[tuple[int, ...]]:
    if shape.kind == "values":  # the binding has these two parameters in the other order
        return [tuple(values) for values in engine.get_tensor_profile_values(index, name)]
    return [tuple(extents) for extents in engine.get_tensor_profile_shape(name, index)]
