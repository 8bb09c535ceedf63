"""A spec with its place among the specs of one name: what becomes an entry of the bundle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle.bundle import Argument, Constant, Cubin, Entry
from hatch_tensoracle.targets import Target
from tensoracle_producer.capture import capture
from tensoracle_producer.compiler import Job
from tensoracle_producer.record import Constexpr, Dtype, Import, KernelRecord, Literal, Reference, Value
from tensoracle_producer.spec import KernelSpec

__all__ = ["Variant", "make_variants"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One kernel under one set of assumptions."""

    spec: KernelSpec
    number: int
    arguments: tuple[Argument, ...]
    record: KernelRecord

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"{self.spec.name}#{self.number}"

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
        values = dict(self.record.constants)
        return Entry(
            kernel=self.spec.name,
            variant=self.number,
            symbol=symbol,
            source_sha256=self.record.digest(self.arguments, self.spec.options),
            arguments=self.arguments,
            constants=tuple(_constant(name, values[name]) for name in self.spec.constants),
            options=self.spec.options,
            cubins=cubins,
        )


def make_variants(specs: Iterable[KernelSpec]) -> list[Variant]:
    """Group the specs by name, in the order in which names first appear.

    Raises TypeError or ValueError for specs that do not fit together, CaptureError as `capture` does.
    """
    groups: dict[str, list[KernelSpec]] = {}
    for i, spec in enumerate(specs):
        if not isinstance(spec, KernelSpec):
            message = f"specs[{i}] must be a KernelSpec, not {spec!r}"
            raise TypeError(message)
        groups.setdefault(spec.name, []).append(spec)
    if not groups:
        message = "specs must hold at least one KernelSpec"
        raise ValueError(message)
    variants = [_variant(spec, number) for group in groups.values() for number, spec in enumerate(group)]
    for before, after in itertools.pairwise(variants):
        if after.number > 0:
            _check_neighbours(before, after)
    return variants


def _variant(spec: KernelSpec, number: int) -> Variant:
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
    return Variant(spec=spec, number=number, arguments=arguments, record=record)


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


def _constant(name: str, value: Value) -> Constant:
    """The constant as C++ can read it."""
    match value:
        case Constexpr(inner):
            return _constant(name, inner)
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
    message = f"constant `{name}` must be a number of up to 64 bits, None, bool, str, dtype or triton.jit function"
    raise ValueError(message)
