"""A spec with its place among the configurations and variants of its name: what becomes an entry of the bundle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle.bundle import Argument, Constant, Cubin, Entry, Ptx, entry_label
from hatch_tensoracle.targets import Target
from tensoracle_producer.capture import capture
from tensoracle_producer.compiler import Job
from tensoracle_producer.errors import SpecError, SpecTypeError
from tensoracle_producer.record import Constexpr, Dtype, Import, KernelRecord, Literal, Reference, Sequence, Value
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

    def job(self, target: Target, ptxas: Path, *, keeps_ptx: bool = False) -> Job:
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
            keeps_ptx=keeps_ptx,
        )

    def entry(self, symbol: str, cubins: tuple[Cubin, ...], ptx: Ptx | None = None) -> Entry:
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
            ptx=ptx,
        )


def make_variants(specs: Iterable[KernelSpec]) -> list[Variant]:
    """Group the specs by name, in the order in which names first appear.

    Raises SpecError for specs that do not fit together, CaptureError as `capture` does.
    """
    if not isinstance(specs, Iterable):
        message = f"specs must be a list of KernelSpec records, not {specs!r}"
        raise SpecTypeError(message)
    groups: dict[str, list[KernelSpec]] = {}
    for i, spec in enumerate(specs):
        if not isinstance(spec, KernelSpec):
            message = f"specs[{i}] must be a KernelSpec, not {spec!r}"
            raise SpecTypeError(message)
        groups.setdefault(spec.name, []).append(spec)
    if not groups:
        message = "specs must hold at least one KernelSpec"
        raise SpecError(message)
    return [variant for name, group in groups.items() for variant in _group(name, group)]


def _group(name: str, specs: list[KernelSpec]) -> Iterator[Variant]:
    """All variants of the first configuration, of the next, and so on."""
    columns = [spec.configurations() for spec in specs]
    if len({len(column) for column in columns}) > 1:
        message = (
            f"kernel `{name}` has variants of {', '.join(str(len(column)) for column in columns)} configs: variants of"
            " one kernel have the same"
        )
        raise SpecError(message)
    for configuration, specs_of_one in enumerate(zip(*columns, strict=True)):
        row = [_variant(spec, configuration, number) for number, spec in enumerate(specs_of_one)]
        _check_row(row)
        yield from row


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
    folded = {argument.name: argument for argument in arguments if argument.equal_to is not None}
    constants = {**spec.constants, **{name: argument.equal_to for name, argument in folded.items()}}
    record = capture(spec.function, constants, {name: argument.type for name, argument in folded.items()})
    values = dict(record.constants)
    label = entry_label(spec.name, configuration, number)
    return Variant(
        spec=spec,
        configuration=configuration,
        number=number,
        arguments=arguments,
        constants=tuple(_constant(label, name, values[name]) for name in spec.constants),
        record=record,
    )


def _check_row(row: list[Variant]) -> None:
    """Refuse variants of one configuration that are other kernels to a plugin, or that no arguments can reach."""
    first = row[0]
    for variant in row[1:]:
        for what, own, others in (
            ("takes", _taken(variant), _taken(first)),
            ("has the constants", _shown(variant.constants), _shown(first.constants)),
        ):
            if own != others:
                message = (
                    f"kernel `{variant.label}` {what} {own}, but `{first.label}` {what} {others}: variants of one"
                    " kernel differ in what they assume of their arguments, and in nothing else that a plugin sees"
                )
                raise SpecError(message)
    for before, after in itertools.combinations(row, 2):
        if all(map(_implies, after.arguments, before.arguments)):
            message = (
                f"kernel `{after.label}` is never launched: `{before.label}` accepts all that it does and is first"
            )
            raise SpecError(message)


def _taken(variant: Variant) -> str:
    return ", ".join(f"{argument.name}: {argument.type}" for argument in variant.arguments)


def _shown(constants: tuple[Constant, ...]) -> str:
    return ", ".join(f"{constant.name}={constant.value!r}" for constant in constants)


def _implies(one: Argument, other: Argument) -> bool:
    """Whether every value that the one assumes is a value that the other assumes."""
    return other.equal_to in {None, one.equal_to} and one.divisible_by % other.divisible_by == 0


def _constant(label: str, name: str, value: Value) -> Constant:  # noqa: C901 - a case for each kind
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
        case Sequence(items, True):
            inside = [_constant(label, name, item) for item in items]
            shown = (repr(item.value) if item.kind == "text" else str(item.value) for item in inside)
            return Constant(name=name, kind="tuple", value=f"({', '.join(shown)})")
    message = (
        f"kernel `{label}`: constant `{name}` must be a number of up to 64 bits, None, bool, str, dtype, triton.jit"
        " function, or a tuple of these"
    )
    raise SpecError(message)
