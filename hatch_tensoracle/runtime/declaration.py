"""What an engine is to be built for, checked as it is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from hatch_tensoracle.runtime.builder_settings import BuilderSettings, refuse_moved_options
from hatch_tensoracle.runtime.values import check_choice, checked_integers

__all__ = ["MOST_VALUES", "EngineBuild", "InputShape"]

Precision = Literal["fp32", "fp16", "bf16"]

MOST_VALUES = 64
"""Elements of a shape tensor: TensorRT's limit, documented at Dims and IOptimizationProfile::setShapeValues."""
_INT64 = range(-(2**63), 2**63)
_EXTENTS = range(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """The shapes, or the values, of one input that one optimization profile covers."""

    kind: Literal["shape", "values"] = "shape"
    """`values` for an input whose contents are shapes: i32 or i64, at most 64 elements, known to the host."""
    min: Sequence[int]
    """It becomes a tuple, as do the others."""
    opt: Sequence[int]
    """What TensorRT tunes for."""
    max: Sequence[int]

    @classmethod
    def fixed(cls, shape: Sequence[int]) -> Self:
        """One shape only."""
        return cls(min=shape, opt=shape, max=shape)

    @classmethod
    def ranged(cls, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> Self:  # noqa: A002 - their names
        """From `min` to `max` on each axis."""
        return cls(min=min, opt=opt, max=max)

    @classmethod
    def values(cls, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> Self:  # noqa: A002 - their names
        """The contents of a shape tensor, element by element; of a scalar, one."""
        return cls(kind="values", min=min, opt=opt, max=max)

    def __post_init__(self) -> None:
        check_choice("InputShape: kind", self.kind, Literal["shape", "values"])
        noun = "axes" if self.kind == "shape" else "elements"
        for name in ("min", "opt", "max"):
            numbers = checked_integers(f"InputShape: {name}", getattr(self, name))
            allowed = _EXTENTS if self.kind == "shape" else _INT64
            if wrong := [number for number in numbers if number not in allowed]:
                raise ValueError(f"InputShape: {name} {numbers} has {wrong[0]}, must be {_bounds(allowed)}")
            object.__setattr__(self, name, numbers)
        if not len(self.min) == len(self.opt) == len(self.max):
            raise ValueError(f"InputShape: min {self.min}, opt {self.opt} and max {self.max} differ in {noun}")
        if self.kind == "values" and len(self.min) > MOST_VALUES:
            raise ValueError(f"InputShape: {len(self.min)} values; TensorRT takes shape tensors of {MOST_VALUES}")
        for low, middle, high in zip(self.min, self.opt, self.max, strict=True):
            if not low <= middle <= high:
                raise ValueError(f"InputShape: min {self.min} <= opt {self.opt} <= max {self.max} does not hold")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBuild:
    """One engine to be built: for which shapes, and how. The types of its tensors are the graph's."""

    precision: Precision
    """What the author calls the engine: networks are strongly typed, so the graph function has the say."""
    inputs: Mapping[str, InputShape | Sequence[InputShape]] = field(hash=False)
    """For every input of the graph its InputShape, or one for each optimization profile. Given alone it is for all.
    It becomes a tuple; `profile` says which is for which."""
    settings: BuilderSettings = field(default_factory=BuilderSettings)
    runtime: str | None = None
    """`tensorrt` or `tensorrt_rtx`; needed where both are installed."""

    def __new__(cls, **options: object) -> Self:
        """Say of options that moved where they are."""
        refuse_moved_options(cls.__name__, options)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check_choice("EngineBuild: precision", self.precision, Precision)
        if not isinstance(self.inputs, Mapping):
            raise TypeError(f"EngineBuild: inputs must be a mapping of names, not {self.inputs!r}")
        inputs = {name: _shapes(name, shapes) for name, shapes in self.inputs.items()}
        counts = {name: len(shapes) for name, shapes in inputs.items() if len(shapes) > 1}
        if len(set(counts.values())) > 1:
            raise ValueError(f"EngineBuild: inputs have different numbers of profiles: {counts}")
        object.__setattr__(self, "inputs", inputs)
        if not isinstance(self.settings, BuilderSettings):
            raise TypeError(f"EngineBuild: settings must be BuilderSettings, not {self.settings!r}")
        if not isinstance(self.runtime, str | None):
            raise TypeError(f"EngineBuild: runtime must be the name of a TensorRT, not {self.runtime!r}")

    @property
    def profile_count(self) -> int:
        """Number of optimization profiles, at least 1."""
        return max(map(len, self._shapes().values()), default=1)

    def profile(self, index: int) -> dict[str, InputShape]:
        """What the optimization profile covers, by input."""
        return {name: shapes[index if len(shapes) > 1 else 0] for name, shapes in self._shapes().items()}

    def _shapes(self) -> Mapping[str, tuple[InputShape, ...]]:
        return cast("Mapping[str, tuple[InputShape, ...]]", self.inputs)

    def identity(self) -> dict[str, Any]:
        """What of it makes another engine, for JSON. `runtime` is left to who knows its version."""
        profiles = [self.profile(index) for index in range(self.profile_count)]
        return {
            "precision": self.precision,
            "profiles": [
                {
                    name: [shape.kind, *map(list, (shape.min, shape.opt, shape.max))]
                    for name, shape in sorted(of.items())
                }
                for of in profiles
            ],
            "settings": self.settings.identity(),
        }


def _shapes(name: object, shapes: object) -> tuple[InputShape, ...]:
    if not isinstance(name, str):
        raise TypeError(f"input {name!r} must be named by text")
    found = (shapes,) if isinstance(shapes, InputShape) else tuple(shapes) if isinstance(shapes, Sequence) else None
    if not found or not all(isinstance(shape, InputShape) for shape in found):
        raise TypeError(f"input {name!r} must have an InputShape, or one for each profile, not {shapes!r}")
    kinds = {(shape.kind, len(shape.min)) for shape in found}
    if len(kinds) > 1:
        raise ValueError(f"input {name!r} has another kind or number of axes from profile to profile: {sorted(kinds)}")
    return found


def _bounds(allowed: range) -> str:
    return "at least 0" if allowed.start == 0 else "a 64-bit integer"
