"""Which configuration of a kernel was measured to be the fastest, by shape: the content of `tuning.json`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hatch_tensoracle._decode import DecodeError, decode
from hatch_tensoracle.data_types import DATA_TYPES
from hatch_tensoracle.errors import ConfigurationError

__all__ = [
    "TUNING_SCHEMA",
    "Configuration",
    "TunedRange",
    "Tuning",
    "check_tuning",
    "find_configuration",
    "format_configuration",
    "read_tuning",
    "tuning_json",
]

TUNING_SCHEMA = 1
_TUNE_AGAIN = "Build without the option `tuning`, run `hatch-tensoracle tune` with that library, and build again."

Configuration = Mapping[str, bool | int | float | str | None]
"""Constants and options of a kernel by name, as many as tell its configurations apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRange:
    """Shapes that one configuration was the fastest for."""

    inputs: tuple[tuple[int | tuple[int, ...], ...], ...]
    """For each axis of each input the extent, or the least and the greatest one."""
    configuration: Configuration
    us: float
    """Microseconds that it took at the greatest shape of the range that was measured."""
    runner_up_us: float | None = None
    """What the fastest of the others took there; less than `us` by the noise of measuring at most."""

    def __post_init__(self) -> None:
        for i, axes in enumerate(self.inputs):
            for j, extent in enumerate(axes):
                bounds = _bounds(extent)
                if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1]:  # noqa: PLR2004 - least and greatest
                    shown = extent if isinstance(extent, int) else list(extent)
                    raise DecodeError(f"must be an extent or [least, greatest], is {shown}", f"inputs[{i}][{j}]")

    @property
    def boxes(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The least and the greatest extent of each axis of each input."""
        return tuple(tuple((least, greatest) for least, greatest in map(_bounds, axes)) for axes in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What was measured of one plugin, with inputs of some types and with some fields, on one GPU."""

    plugin: str
    version: str
    kernel: str
    """The kernel whose configurations are the plugin's."""
    types: tuple[str, ...]
    """Data type of each input."""
    sm: int
    gpu: str
    driver: str
    ranges: tuple[TunedRange, ...]
    """The first that holds the inputs' shapes counts."""
    namespace: str = ""
    fields: Mapping[str, int | float | str] = field(default_factory=dict)
    """Those that are no arrays, defaults included."""

    def __post_init__(self) -> None:
        if not self.types:
            raise DecodeError("is empty: a plugin has inputs", "types")
        for i, type_ in enumerate(self.types):
            if type_ not in DATA_TYPES:
                raise DecodeError(f"unknown type `{type_}`; known are {', '.join(DATA_TYPES)}", f"types[{i}]")
        for i, each in enumerate(self.ranges):
            if len(each.inputs) != len(self.types):
                message = f"has {len(each.inputs)} inputs, `types` has {len(self.types)}"
                raise DecodeError(message, f"ranges[{i}].inputs")

    @property
    def key(self) -> tuple[object, ...]:
        """What there is one of: a run of the same on the same SM replaces it."""
        fields = json.dumps(self.fields, sort_keys=True)
        return (self.plugin, self.version, self.namespace, self.kernel, self.types, fields, self.sm)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    schema: int
    tuning: tuple[Tuning, ...]


def read_tuning(path: Path) -> tuple[Tuning, ...]:
    """Read a tuning.json. Raises ConfigurationError naming the key that is wrong."""
    try:
        content = json.loads(path.read_bytes(), parse_constant=_no_number)
        if isinstance(content, dict) and content.get("schema") != TUNING_SCHEMA:
            raise DecodeError(f"is {content.get('schema')!r}; this release reads {TUNING_SCHEMA}", "schema")
        known = decode(_File, content).tuning
        keys = [tuning.key for tuning in known]
        for i, key in enumerate(keys):
            if key in keys[:i]:
                raise DecodeError(f"is of the same plugin, fields and SM as tuning[{keys.index(key)}]", f"tuning[{i}]")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # of JSON and of decode
        raise ConfigurationError(f"{path}: {error}", remedy=_TUNE_AGAIN) from error
    return known


def tuning_json(tunings: Sequence[Tuning]) -> bytes:
    """The bytes of tuning.json: a line for each range, the same for the same content."""
    parts = [_tuning_text(tuning) for tuning in sorted(tunings, key=lambda tuning: repr(tuning.key))]
    body = ",\n".join(parts)
    return f'{{\n "schema": {TUNING_SCHEMA},\n "tuning": [\n{body}\n ]\n}}\n'.encode()


def format_configuration(configuration: Configuration) -> str:
    """`BM=64 BN=128 num_warps=4`."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())


def find_configuration(configurations: Sequence[Configuration], wanted: Configuration) -> int:
    """The place of the one configuration that has all that is wanted. Raises LookupError."""
    found = [i for i, one in enumerate(configurations) if wanted.items() <= one.items()]
    if len(found) != 1:
        which = f"{len(found)} configurations" if found else "no configuration"
        shown = "; ".join(format_configuration({name: one.get(name) for name in wanted}) for one in configurations)
        message = f"{format_configuration(wanted)} is {which} of the kernel, which has {shown}"
        raise LookupError(message)
    return found[0]


def check_tuning(tunings: Sequence[Tuning], kernels: Mapping[str, Sequence[Configuration]]) -> None:
    """Raise ConfigurationError for a kernel or a configuration that is not among these."""
    for problem in _problems(tunings, kernels):
        raise ConfigurationError(problem, remedy=_TUNE_AGAIN)


def _problems(tunings: Sequence[Tuning], kernels: Mapping[str, Sequence[Configuration]]) -> Iterator[str]:
    for i, tuning in enumerate(tunings):
        if tuning.kernel not in kernels:
            yield f"tuning[{i}].kernel: there is no kernel `{tuning.kernel}`; there are {', '.join(kernels)}"
            continue
        for j, each in enumerate(tuning.ranges):
            try:
                find_configuration(kernels[tuning.kernel], each.configuration)
            except LookupError as error:
                yield f"tuning[{i}].ranges[{j}].configuration: {error.args[0]} (kernel `{tuning.kernel}`)"


def _no_number(name: str) -> None:
    raise DecodeError(f"{name} is no number of JSON", "")


def _tuning_text(tuning: Tuning) -> str:
    content: dict[str, Any] = dataclasses.asdict(tuning)
    ranges = content.pop("ranges")
    lines = [f"   {json.dumps(name)}: {_compact(value)}" for name, value in content.items()]
    rows = ",\n".join(f"    {_compact(each)}" for each in ranges)
    return "  {\n" + ",\n".join(lines) + f',\n   "ranges": [\n{rows}\n   ]\n  }}'


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _bounds(extent: int | tuple[int, ...]) -> tuple[int, ...]:
    return (extent, extent) if isinstance(extent, int) else extent
