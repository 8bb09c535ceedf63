"""Compares an engine's output with what it should be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from hatch_tensoracle.runtime.array_pair import ArrayPair
from hatch_tensoracle.runtime.float_errors import measure

__all__ = ["ComparedElement", "OutputComparison", "checked_tolerance", "compare_outputs"]

_KEPT = 16
"""Elements that a comparison remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedElement:
    """An element that differs."""

    index: tuple[int, ...]
    candidate: float | int | bool
    reference: float | int | bool
    absolute_error: float | None = None
    """Of floating point arrays; infinite where a number is not finite."""

    def __str__(self) -> str:
        """Say what differs."""
        text = f"{list(self.index)}: {self.candidate} against {self.reference}"
        return text if self.absolute_error is None else f"{text}, error {self.absolute_error:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputComparison:
    """How far a candidate is from its reference. What does not apply, or cannot be said, is None.

    Of floating point arrays there are all but the mismatches; where any number is not finite, only the counts of those.
    Of integer and boolean arrays there are the mismatches alone.
    """

    candidate_nonfinite_count: int | None = None
    """Infinities and NaNs in the candidate."""
    reference_nonfinite_count: int | None = None
    """Infinities and NaNs in the reference."""
    max_absolute_error: float | None = None
    """The largest distance of two elements."""
    relative_l2_error: float | None = None
    """Norm of the difference over norm of the reference. None if the reference is all zeros."""
    cosine_similarity: float | None = None
    """1 for the same direction, whatever the lengths. None if either side is all zeros."""
    outside_tolerance_count: int | None = None
    """Elements with abs(candidate - reference) > atol + rtol * abs(reference). None without tolerances."""
    outside_tolerance_fraction: float | None = None
    """The same, of all elements."""
    mismatch_count: int | None = None
    """Elements of integer or boolean arrays that are not equal."""
    mismatch_fraction: float | None = None
    """The same, of all elements."""
    shape: tuple[int, ...]
    types: tuple[str, str]
    """Names of the candidate's and the reference's data types."""
    atol: float | None = None
    rtol: float | None = None
    elements: tuple[ComparedElement, ...] = field(repr=False)
    """At most 16 of those that differ: see `worst`."""

    def worst(self, n: int = 5) -> tuple[ComparedElement, ...]:
        """Return the n elements with the largest errors, the largest first, or all that differ if they are fewer.

        What is not finite counts as the largest. Of integer and boolean arrays it is the first mismatches. Of equals
        it is the first in C order. Raises ValueError for more than are remembered, which are 16.
        """
        if not 0 <= n <= _KEPT:
            raise ValueError(f"a comparison remembers {_KEPT} elements, and {n} are asked for")
        return self.elements[:n]

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n  ".join((f"{self.types[0]} against {self.types[1]}, shape {self.shape}", *self._lines()))

    def _lines(self) -> list[str]:
        size = math.prod(self.shape)
        if self.mismatch_count is not None:
            lines = [f"not equal: {self.mismatch_count} of {size} ({self.mismatch_fraction:.3%})"]
        elif self.max_absolute_error is None:
            counts = (
                f"{self.candidate_nonfinite_count} of the candidate, {self.reference_nonfinite_count} of the reference"
            )
            lines = [f"not finite: {counts}, of {size} each"]
        else:
            lines = [
                f"largest absolute error: {self.max_absolute_error:.4g}",
                f"relative L2 error: {_number(self.relative_l2_error, 'the reference is all zeros')}",
                f"cosine similarity: {_number(self.cosine_similarity, 'a side is all zeros', '.9g')}",
            ]
            if self.outside_tolerance_count is not None:
                share = f"{self.outside_tolerance_count} of {size} ({self.outside_tolerance_fraction:.3%})"
                lines.append(f"outside tolerance: {share}, atol {self.atol:g}, rtol {self.rtol:g}")
        name = "first" if self.mismatch_count is not None else "worst"
        return lines + [f"{name}: {element}" for element in self.worst(1)]


def compare_outputs(
    candidate: Any, reference: Any, atol: float | None = None, rtol: float | None = None
) -> OutputComparison:
    """Measure how far `candidate` is from `reference`; whether that is good enough is for the caller to say.

    Both are arrays of NumPy or of what NumPy can view, of torch or of CuPy, on a GPU too, of one shape and of one kind:
    floating point (bfloat16 and fp8 of ml_dtypes and torch among them), integer, or boolean. They are read in blocks,
    and brought from a GPU in blocks, in the order of the library's current stream there.

    Floating point numbers are compared as float64, integers and booleans exactly; `atol` and `rtol`, both or neither,
    are of floating point arrays only. Raises ValueError for arrays without elements, of other kinds or of two, of two
    shapes, and for tolerances that are negative or not finite; TypeError for masked, sparse and quantized arrays.
    """
    tolerance = checked_tolerance(atol, rtol)
    pair = ArrayPair(candidate, reference)
    return _floating_point(pair, tolerance) if pair.kind == "floating point" else _exact(pair)


def checked_tolerance(atol: float | None, rtol: float | None) -> tuple[float, float] | None:
    """Return both, or None if neither is given. Raises TypeError or ValueError."""
    if atol is None and rtol is None:
        return None
    if atol is None or rtol is None:
        raise ValueError(f"atol is {atol} and rtol is {rtol}: give both or neither")
    for name, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, not {type(value).__name__}")
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and not negative, not {value}")
    return float(atol), float(rtol)


def _floating_point(pair: ArrayPair, tolerance: tuple[float, float] | None) -> OutputComparison:
    found = measure(pair, tolerance, _KEPT)
    is_finite = not any(found.nonfinite)
    outside = found.outside if is_finite and tolerance is not None else None
    atol, rtol = tolerance or (None, None)
    return OutputComparison(
        candidate_nonfinite_count=found.nonfinite[0],
        reference_nonfinite_count=found.nonfinite[1],
        max_absolute_error=found.largest if is_finite else None,
        relative_l2_error=found.relative_l2,
        cosine_similarity=found.cosine,
        outside_tolerance_count=outside,
        outside_tolerance_fraction=None if outside is None else outside / math.prod(pair.shape),
        shape=pair.shape,
        types=pair.types,
        atol=atol,
        rtol=rtol,
        elements=tuple(
            ComparedElement(index=index, candidate=candidate, reference=reference, absolute_error=error)
            for error, index, candidate, reference in found.worst
        ),
    )


def _exact(pair: ArrayPair) -> OutputComparison:
    import numpy as np

    count, elements = 0, list[ComparedElement]()
    for offset, candidate, reference in pair:
        wrong = candidate != reference  # exact for int64 with uint64, too
        count += (here := int(np.count_nonzero(wrong)))
        for inside in np.argwhere(wrong)[: _KEPT - len(elements)] if here else ():
            index, where = tuple(int(start + step) for start, step in zip(offset, inside, strict=True)), tuple(inside)
            values = {"candidate": candidate[where].item(), "reference": reference[where].item()}
            elements.append(ComparedElement(index=index, **values))
    return OutputComparison(
        mismatch_count=count,
        mismatch_fraction=count / math.prod(pair.shape),
        shape=pair.shape,
        types=pair.types,
        elements=tuple(elements),
    )


def _number(value: float | None, otherwise: str, form: str = ".4g") -> str:
    return otherwise if value is None else format(value, form)
