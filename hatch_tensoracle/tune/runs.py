"""Along one extent: which values to measure, and which configuration each run of them gets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hatch_tensoracle.tune.case import Range
from hatch_tensoracle.tune.journal import Times

__all__ = ["NOISE", "Run", "border", "powers", "refine", "runs_of"]

NOISE = 1.02
"""A configuration that takes no more than this times the fastest is as good as it: measuring is no more exact."""
COARSE = 1.25
"""Measured values are no further apart than this ratio, or one, ..."""
FINE = 1.02
"""... and than this where another configuration begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Values that one configuration is for."""

    least: int
    greatest: int
    configuration: str
    us: float
    """What it took at the greatest value of the run that was measured."""
    runner_up_us: float | None
    """What the fastest of the others took there."""


def powers(size: Range) -> list[int]:
    """The ends of the range and the powers of two between them."""
    between = (1 << bit for bit in range(size.max.bit_length()))
    return sorted({size.min, size.max, *(value for value in between if size.min < value < size.max)})


def refine(size: Range, measure: Callable[[int], Times]) -> list[Run]:
    """Measure powers of two, and then geometric middles until values are near enough to each other."""
    measured = {value: measure(value) for value in powers(size)}
    while True:
        runs = runs_of(measured)
        begins = {run.least for run in runs}
        values = sorted(measured)
        middles = [
            middle
            for before, after in itertools.pairwise(values)
            if (middle := _middle(before, after)) is not None
            and after / before > (FINE if any(before < begin <= after for begin in begins) else COARSE)
        ]
        if not middles:
            return runs
        measured |= {value: measure(value) for value in middles}


def runs_of(measured: Mapping[int, Times]) -> list[Run]:
    """As few runs as there can be: from the least value on, each goes as far as one configuration is good enough.

    Where one ends and the next begins is in the geometric middle of the two measured values.
    """
    known = {value: {name: us for name, us in measured[value].items() if us is not None} for value in sorted(measured)}
    groups: list[list[int]] = []
    good: set[str] = set()
    for value, times in known.items():
        good &= _good(times)
        if not good:
            groups.append([])
            good = _good(times)
        groups[-1].append(value)
    runs = []
    for i, group in enumerate(groups):
        least = group[0] if i == 0 else border(groups[i - 1][-1], group[0]) + 1
        greatest = group[-1] if i + 1 == len(groups) else border(group[-1], groups[i + 1][0])
        runs.append(_run(least, greatest, [known[value] for value in group]))
    return runs


def _run(least: int, greatest: int, measured: list[dict[str, float]]) -> Run:
    good = set.intersection(*map(_good, measured))
    best = min(good, key=lambda name: (sum(math.log(times[name]) for times in measured), name))
    last = measured[-1]
    return Run(
        least=least,
        greatest=greatest,
        configuration=best,
        us=last[best],
        runner_up_us=min((us for name, us in last.items() if name != best), default=None),
    )


def _good(times: Mapping[str, float]) -> set[str]:
    return {name for name, us in times.items() if us <= NOISE * min(times.values())}


def _middle(before: int, after: int) -> int | None:
    middle = round(math.sqrt(before * after))
    return middle if before < middle < after else None


def border(before: int, after: int) -> int:
    """The greatest value that goes with the one before; `after` goes with itself."""
    return min(math.isqrt(before * after), after - 1)
