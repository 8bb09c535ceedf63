"""Distances between two floating point arrays, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hatch_tensoracle.runtime.array_pair import BLOCK, ArrayPair, Offset

__all__ = ["FloatErrors", "in_float64", "measure"]

_SAFE = (1e-100, 1e150)
"""Sums of squares in this range have lost nothing to overflow or underflow, nor do ratios of two of them."""


@dataclass(slots=True)
class FloatErrors:
    """What was found. If a number is not finite, only the counts of those and `worst` mean something."""

    nonfinite: list[int] = field(default_factory=lambda: [0, 0])
    """Of the candidate and of the reference."""
    largest: float = 0.0
    outside: int = 0
    relative_l2: float | None = None
    cosine: float | None = None
    worst: list[tuple[float, Offset, float, float]] = field(default_factory=list)
    """Absolute error, infinite where a number is not finite; index; both numbers. The largest error first."""


@dataclass(slots=True)
class _Sums:
    candidate: float = 0.0
    reference: float = 0.0
    product: float = 0.0
    difference: float = 0.0

    def add(self, candidate: Any, reference: Any, difference: Any) -> None:
        self.candidate += float(candidate.dot(candidate))
        self.reference += float(reference.dot(reference))
        self.product += float(candidate.dot(reference))
        self.difference += float(difference.dot(difference))


def measure(pair: ArrayPair, tolerance: tuple[float, float] | None, keep: int) -> FloatErrors:
    """Compare all elements, with `atol` and `rtol` where they are given, and keep so many of the worst."""
    import numpy as np

    found, sums, buffer = FloatErrors(), _Sums(), np.empty(BLOCK)
    with np.errstate(all="ignore"):  # what is not finite and what overflows is seen in the sums
        for offset, shape, candidate, reference in in_float64(pair):
            difference = np.subtract(candidate, reference, out=buffer[: candidate.size])
            sums.add(candidate, reference, difference)
            np.abs(difference, out=difference)
            if not math.isfinite(sums.candidate + sums.reference):
                _count_nonfinite(found, candidate, reference, difference)
            largest = float(difference.max())
            if len(found.worst) < keep or largest > found.worst[-1][0]:
                _keep_worst(found, keep, offset, shape, candidate, reference, difference)
            found.largest = max(found.largest, largest)
            if tolerance is not None:
                limit = np.abs(reference, out=reference)
                limit *= tolerance[1]
                limit += tolerance[0]
                found.outside += int(np.count_nonzero(difference > limit))
        if not any(found.nonfinite):
            _relate(found, sums, pair)
    return found


def in_float64(pair: ArrayPair) -> Iterator[tuple[Offset, tuple[int, ...], Any, Any]]:
    """Yield where a block begins, its shape, and both sides of it, flat: the caller's until the next one."""
    import numpy as np

    buffers = np.empty((2, BLOCK))
    for offset, *sides in pair:
        shape, size = sides[0].shape, sides[0].size
        for buffer, side in zip(buffers, sides, strict=True):
            np.copyto(buffer[:size].reshape(shape), side, casting="unsafe")
        yield offset, shape, buffers[0, :size], buffers[1, :size]


def _count_nonfinite(found: FloatErrors, candidate: Any, reference: Any, difference: Any) -> None:
    """Count them, and have the error infinite where there is one."""
    import numpy as np

    for index, side in enumerate((candidate, reference)):
        wrong = ~np.isfinite(side)
        found.nonfinite[index] += int(np.count_nonzero(wrong))
        difference[wrong] = math.inf


def _keep_worst(  # noqa: PLR0913, PLR0917 - a block and where it is
    found: FloatErrors,
    keep: int,
    offset: Offset,
    shape: tuple[int, ...],
    candidate: Any,
    reference: Any,
    difference: Any,
) -> None:
    import numpy as np

    least = np.partition(difference, -keep)[-keep] if difference.size > keep else 0.0
    largest = np.flatnonzero(difference > least)
    if least > 0:  # of equals, the first
        largest = np.append(largest, np.flatnonzero(difference == least)[:keep])
    for flat in map(int, largest):
        inside = np.unravel_index(flat, shape)
        index = tuple(int(start + here) for start, here in zip(offset, inside, strict=True))
        found.worst.append((float(difference[flat]), index, float(candidate[flat]), float(reference[flat])))
    found.worst.sort(key=lambda element: (-element[0], element[1]))
    del found.worst[keep:]


def _relate(found: FloatErrors, sums: _Sums, pair: ArrayPair) -> None:
    """Compute what the sums are for."""
    exponent = 0
    needed = (sums.candidate, sums.reference, *([sums.difference] if found.largest else []))
    if not all(_SAFE[0] <= value <= _SAFE[1] for value in needed):
        sums, exponent = _scaled_sums(pair, found.largest)
    if sums.reference:
        found.relative_l2 = _times_power_of_two(math.sqrt(sums.difference / sums.reference), exponent)
    if sums.reference and sums.candidate:
        cosine = sums.product / sums.reference * math.sqrt(sums.reference / sums.candidate)
        found.cosine = max(-1.0, min(1.0, cosine))


def _scaled_sums(pair: ArrayPair, largest: float) -> tuple[_Sums, int]:
    """Sums with each of candidate, reference and difference scaled by a power of two to at most 1.

    The exponent is what the difference has to be scaled back by, relative to the reference.
    """
    import numpy as np

    most = [0.0, 0.0]
    for _, _, *sides in in_float64(pair):
        most = [max(before, float(np.abs(side).max())) for before, side in zip(most, sides, strict=True)]
    candidate_by, reference_by = (math.frexp(value)[1] for value in most)
    # A difference may overflow where neither number does: then that of the halves is taken.
    halved, difference_by = (0, math.frexp(largest)[1]) if math.isfinite(largest) else (1, 1025)
    sums = _Sums()
    for _, _, candidate, reference in in_float64(pair):
        difference = np.ldexp(candidate, -halved) - np.ldexp(reference, -halved)
        sums.add(
            np.ldexp(candidate, -candidate_by),
            np.ldexp(reference, -reference_by),
            np.ldexp(difference, halved - difference_by),
        )
    return sums, difference_by - reference_by


def _times_power_of_two(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf
