"""What an engine is to be built with and what it is expected to look like, checked as it is written down."""

from __future__ import annotations

import dataclasses
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, SupportsIndex, cast, get_args

__all__ = [
    "DATA_TYPES",
    "MOST_VALUES",
    "BuilderSettings",
    "EngineBuild",
    "EngineIO",
    "InputShape",
    "TensorSpec",
    "refuse_options",
]

Precision = Literal["fp32", "fp16", "bf16"]
HardwareCompatibility = Literal["none", "ampere_plus", "same_compute_capability"]

DATA_TYPES = {
    "fp32": "FLOAT",
    "fp16": "HALF",
    "bf16": "BF16",
    "fp8": "FP8",
    "fp4": "FP4",
    "e8m0": "E8M0",
    "int64": "INT64",
    "int32": "INT32",
    "int8": "INT8",
    "int4": "INT4",
    "uint8": "UINT8",
    "bool": "BOOL",
}
"""Names of types here, and of the same in TensorRT's DataType."""

MOST_VALUES = 64
"""Elements of a shape tensor: TensorRT's limit, documented at Dims and IOptimizationProfile::setShapeValues."""
_INT64 = range(-(2**63), 2**63)
_EXTENTS = range(2**63)
_LEVELS = range(6)
"""Of optimisation, as TensorRT documents them."""

_MOVED = ("cuda_graph_strategy", "dynamic_shapes_kernel_specialization_strategy", "runtime_cache", "runtime_cache_path")


def refuse_options(place: str, options: Mapping[str, object]) -> None:
    """Raise TypeError if there are any options: none is known, but of some it is known where they went."""
    for name in options:
        if name in _MOVED:
            raise TypeError(
                f"{place} has no option {name!r}: it is a choice of each execution, not of the build. Its place is "
                "RuntimeSettings in hatch_tensoracle.runtime, which this release does not have yet"
            )
        raise TypeError(f"{place} has no option {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """The shapes, or the values, of one input that one optimization profile covers."""

    kind: Literal["shape", "values"] = "shape"
    """`values` for an input whose contents are shapes: int32 or int64, at most 64 elements, known to the host."""
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
        _one_of("InputShape: kind", self.kind, Literal["shape", "values"])
        noun = "axes" if self.kind == "shape" else "elements"
        for name in ("min", "opt", "max"):
            numbers = _integers(getattr(self, name), f"InputShape: {name}")
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
class BuilderSettings:
    """How TensorRT is to build. What a distribution lacks is refused at the build, by name."""

    workspace_limit: int | None = None
    """Bytes of device memory that layers may use; None is TensorRT's default, all there is."""
    optimization_level: int | None = None
    """0 to 5; None is TensorRT's default, 3."""
    tf32: bool = False
    """TF32 is always off: True raises ValueError."""
    timing_cache: str | os.PathLike[str] | None = None
    """File of timings from earlier builds, read and updated; no part of the identity. TensorRT-RTX has none."""
    version_compatible: bool = False
    """The plan is also for later versions of TensorRT, and runs code of its own, which the reader must allow."""
    hardware_compatibility: HardwareCompatibility = "none"
    """GPUs beside this one that the plan is for."""
    embed_plugins: bool = False
    """The plan carries the plugin libraries, and reading it loads them: whoever opens it must trust it."""
    aliased_plugin_io: bool = False
    """Plugins may write outputs over inputs."""
    compute_capabilities: Sequence[str] = ()
    """GPU generations that TensorRT-RTX builds for, such as `sm89`, or `current`; none is its default."""

    def __new__(cls, **options: object) -> Self:
        """Say of options that moved where they are."""
        refuse_options(cls.__name__, {name: None for name in options if name in _MOVED})
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for name in ("tf32", "version_compatible", "embed_plugins", "aliased_plugin_io"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"BuilderSettings: {name} must be true or false, not {getattr(self, name)!r}")
        if self.tf32:
            raise ValueError("BuilderSettings: tf32 must be false: it would cut fp32 products to 10 bits of mantissa")
        if self.workspace_limit is not None:
            self._set("workspace_limit", _integer(self.workspace_limit, "BuilderSettings: workspace_limit"))
            if self.workspace_limit < 0:
                raise ValueError(f"BuilderSettings: workspace_limit is {self.workspace_limit} bytes")
        if self.optimization_level is not None:
            self._set("optimization_level", _integer(self.optimization_level, "BuilderSettings: optimization_level"))
            if self.optimization_level not in _LEVELS:
                raise ValueError(f"BuilderSettings: optimization_level is {self.optimization_level}, must be 0 to 5")
        if self.timing_cache is not None:
            self._set("timing_cache", os.fsdecode(self.timing_cache))
        _one_of("BuilderSettings: hardware_compatibility", self.hardware_compatibility, HardwareCompatibility)
        self._set("compute_capabilities", _compute_capabilities(self.compute_capabilities))

    def identity(self) -> dict[str, Any]:
        """What of it makes another engine, for JSON."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        del values["timing_cache"]
        return values | {"compute_capabilities": list(self.compute_capabilities)}

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


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
        refuse_options(cls.__name__, {name: None for name in options if name in _MOVED})
        return object.__new__(cls)

    def __post_init__(self) -> None:
        _one_of("EngineBuild: precision", self.precision, Precision)
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
        names = {name: name for name in DATA_TYPES} | {theirs: name for name, theirs in DATA_TYPES.items()}
        dtype = names.get(_name(self.dtype))
        if dtype is None:
            raise ValueError(f"TensorSpec: dtype must be one of {', '.join(DATA_TYPES)}, not {self.dtype!r}")
        object.__setattr__(self, "dtype", dtype)
        shape = _integers(self.shape, "TensorSpec: shape")
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


def _compute_capabilities(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"BuilderSettings: compute_capabilities must be a sequence of names, not {given!r}")
    for name in given:
        if not isinstance(name, str) or not re.fullmatch(r"sm\d+|current", name):
            raise ValueError(f"BuilderSettings: compute_capabilities: {name!r} is not like 'sm89', nor 'current'")
    if len(set(given)) != len(given) or ("current" in given and len(given) > 1):
        raise ValueError(f"BuilderSettings: compute_capabilities {tuple(given)}: each once, `current` alone")
    return tuple(given)


def _one_of(place: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"{place} must be one of {', '.join(get_args(choices))}, not {value!r}")


def _integers(values: object, place: str) -> tuple[int, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{place} must be a sequence of integers, not {values!r}")
    return tuple(_integer(value, place) for value in values)


def _integer(value: object, place: str) -> int:
    # NumPy's integers are integers, True is none.
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{place} must be an integer, not {value!r}")
    return operator.index(value)


def _bounds(allowed: range) -> str:
    return "at least 0" if allowed.start == 0 else "a 64-bit integer"


def _name(value: object) -> str:
    return str(getattr(value, "name", value))
