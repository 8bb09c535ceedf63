"""Over all variables of a case: where to measure, and the boxes of shapes that come of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hatch_tensoracle.tune.case import Case, Range, Size, Sizes
from hatch_tensoracle.tune.journal import Times
from hatch_tensoracle.tune.runs import Run, border, powers, refine, runs_of

__all__ = ["Box", "survey"]

Interval = tuple[int, int]
"""The least and the greatest value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """An interval for each variable, and the configuration that is for it."""

    sizes: Mapping[str, Interval]
    run: Run

    def extents(self, case: Case) -> tuple[tuple[int | tuple[int, ...], ...], ...]:
        """For each axis of each input the extent, or the least and the greatest one."""
        return tuple(tuple(self._extent(extent) for extent in given.shape) for given in case.inputs)

    def _extent(self, extent: int | str) -> int | tuple[int, ...]:
        if isinstance(extent, int):
            return extent
        least, greatest = self.sizes[extent]
        return least if least == greatest else (least, greatest)


def survey(case: Case, measure: Callable[[Sizes], Times]) -> list[Box]:
    """Measure a case.

    The first ranged variable is refined, for every combination of the values of the others: of those that are ranged
    too, the powers of two, each of which stands for what is nearest to it.
    """
    refined = next((name for name, size in case.sizes.items() if isinstance(size, Range)), None)
    others = {name: list(_cells(size)) for name, size in case.sizes.items() if name != refined}
    boxes = []
    for cells in itertools.product(*others.values()):
        at = dict(zip(others, (value for value, _ in cells), strict=True))
        intervals = dict(zip(others, (interval for _, interval in cells), strict=True))
        for run in _row(case, refined, at, measure):
            extent = {refined: (run.least, run.greatest)} if refined else {}
            boxes.append(Box(sizes={**intervals, **extent}, run=run))
    for name in others:
        boxes = _merged(boxes, name)
    return boxes


def _row(case: Case, refined: str | None, at: Sizes, measure: Callable[[Sizes], Times]) -> list[Run]:
    if refined is None:
        return runs_of({0: measure(at)})
    size = case.sizes[refined]
    assert isinstance(size, Range)  # noqa: S101 - it was chosen so
    return refine(size, lambda value: measure({**at, refined: value}))


def _cells(size: Size) -> Iterator[tuple[int, Interval]]:
    """Values to measure, with what each stands for."""
    if not isinstance(size, Range):
        yield from ((value, (value, value)) for value in (size if isinstance(size, tuple) else (size,)))
        return
    values = powers(size)
    begins = [size.min, *(border(*pair) + 1 for pair in itertools.pairwise(values))]
    ends = [*(begin - 1 for begin in begins[1:]), size.max]
    yield from zip(values, zip(begins, ends, strict=True), strict=True)


def _merged(boxes: list[Box], name: str) -> list[Box]:
    """The same with fewer boxes: two that differ in one variable only and touch there become one."""
    merged: list[Box] = []
    open_: dict[object, int] = {}
    for box in boxes:
        least, greatest = box.sizes[name]
        rest = tuple((other, interval) for other, interval in box.sizes.items() if other != name)
        before = open_.get((rest, box.run.configuration, least))
        if before is None:
            merged.append(box)
            before = len(merged) - 1
        else:
            sizes = {**box.sizes, name: (merged[before].sizes[name][0], greatest)}
            merged[before] = dataclasses.replace(box, sizes=sizes)
        open_[rest, box.run.configuration, greatest + 1] = before
    return merged
