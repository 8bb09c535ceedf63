"""A spec with its place among the configurations and variants of its name: what becomes an entry of the bundle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle.bundle import Argument, Constant, Cubin, Entry, entry_label
from hatch_tensoracle.targets import Target
from tensoracle_producer.capture import capture
from tensoracle_producer.compiler import Job
from tensoracle_producer.record import Constexpr, Dtype, Import, KernelRecord, Literal, Reference, Value
from tensoracle_producer.spec import KernelSpec

__all__ = ["Variant", "make_variants"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One kernel in one configuration under one set of assumptions."""

    spec: KernelSpec
    configuration: int
    number: int
    arguments: tuple[Argument, ...]
    constants: tuple[Constant, ...]
    record: KernelRecord

    @property
    def label(self) -> str:
        """How messages call it."""
        return entry_label(self.spec.name, self.configuration, self.number)

    @property
    def file_stem(self) -> str:
        """How its files begin."""
        return f"{self.spec.name}.{self.configuration}.{self.number}"

    def job(self, target: Target, ptxas: Path) -> Job:
        """What a worker compiles for the target."""
        passed = {argument.name: argument for argument in self.arguments if argument.equal_to is None}
        return Job(
            record=self.record,
            signature=tuple(
                (param.name, passed[param.name].type if param.name in passed else "constexpr")
                for param in self.spec.function.params
            ),
            divisibility=tuple(
                (argument.name, argument.divisible_by) for argument in passed.values() if argument.divisible_by > 1
            ),
            options=tuple(self.spec.options.items()),
            sm=target.sm,
            ptxas=ptxas,
        )

    def entry(self, symbol: str, cubins: tuple[Cubin, ...]) -> Entry:
        """The manifest's record of what was compiled."""
        return Entry(
            kernel=self.spec.name,
            configuration=self.configuration,
            variant=self.number,
            symbol=symbol,
            source_sha256=self.record.digest(self.arguments, self.spec.options),
            arguments=self.arguments,
            constants=self.constants,
            options=self.spec.options,
            cubins=cubins,
        )


def make_variants(specs: Iterable[KernelSpec]) -> list[Variant]:
    """Group the specs by name, in the order in which names first appear.

    Raises TypeError or ValueError for specs that do not fit together, CaptureError as `capture` does.
    """
    if not isinstance(specs, Iterable):
        message = f"specs must be a list of KernelSpec records, not {specs!r}"
        raise TypeError(message)
    groups: dict[str, list[KernelSpec]] = {}
    for i, spec in enumerate(specs):
        if not isinstance(spec, KernelSpec):
            message = f"specs[{i}] must be a KernelSpec, not {spec!r}"
            raise TypeError(message)
        groups.setdefault(spec.name, []).append(spec)
    if not groups:
        message = "specs must hold at least one KernelSpec"
        raise ValueError(message)
    variants = [variant for name, group in groups.items() for variant in _group(name, group)]
    for before, after in itertools.pairwise(variants):
        if after.number > 0:
            _check_neighbours(before, after)
    return variants


def _group(name: str, specs: list[KernelSpec]) -> Iterator[Variant]:
    """All variants of the first configuration, of the next, and so on."""
    columns = [spec.configurations() for spec in specs]
    if len({len(column) for column in columns}) > 1:
        message = (
            f"kernel `{name}` has variants of {', '.join(str(len(column)) for column in columns)} configs: variants of"
            " one kernel have the same"
        )
        raise ValueError(message)
    for configuration, row in enumerate(zip(*columns, strict=True)):
        for number, spec in enumerate(row):
            yield _variant(spec, configuration, number)


def _variant(spec: KernelSpec, configuration: int, number: int) -> Variant:
    arguments = tuple(
        Argument(
            name=name,
            type=argument.type,
            divisible_by=argument.divisible_by,
            equal_to=getattr(argument, "equal_to", None),
        )
        for name, argument in spec.parameters
    )
    folded = {argument.name: argument.equal_to for argument in arguments if argument.equal_to is not None}
    record = capture(spec.function, {**spec.constants, **folded})
    values = dict(record.constants)
    label = entry_label(spec.name, configuration, number)
    constants = tuple(_constant(label, name, values[name]) for name in spec.constants)
    return Variant(
        spec=spec, configuration=configuration, number=number, arguments=arguments, constants=constants, record=record
    )


def _check_neighbours(before: Variant, after: Variant) -> None:
    """Refuse variants that take other arguments, or that no arguments can reach."""
    types = [[argument.type for argument in variant.arguments] for variant in (before, after)]
    if types[0] != types[1]:
        message = (
            f"kernel `{after.label}` takes {', '.join(types[1])}, but `{before.label}` takes {', '.join(types[0])}:"
            " variants of one kernel take the same arguments"
        )
        raise ValueError(message)
    if all(argument.divisible_by == 1 and argument.equal_to is None for argument in before.arguments):
        message = f"kernel `{before.label}` assumes nothing, so `{after.label}` would never be launched: put it last"
        raise ValueError(message)


def _constant(label: str, name: str, value: Value) -> Constant:
    """The constant as C++ can read it."""
    match value:
        case Constexpr(inner):
            return _constant(label, name, inner)
        case Literal(bool() as literal):
            return Constant(name=name, kind="bool", value=literal)
        case Literal(int() as literal) if -(2**63) <= literal < 2**63:
            return Constant(name=name, kind="integer", value=literal)
        case Literal(float() as literal):
            return Constant(name=name, kind="number", value=literal if math.isfinite(literal) else repr(literal))
        case Literal(None):
            return Constant(name=name, kind="none", value=None)
        case Dtype(dtype):
            return Constant(name=name, kind="dtype", value=dtype)
        case Reference(key):
            return Constant(name=name, kind="function", value=key)
        case Import(module, function):
            return Constant(name=name, kind="function", value=f"{module}:{function}")
        case Literal(str() as literal) if "\0" not in literal:
            return Constant(name=name, kind="text", value=literal)
    message = (
        f"kernel `{label}`: constant `{name}` must be a number of up to 64 bits, None, bool, str, dtype or triton.jit"
        " function"
    )
    raise ValueError(message)
