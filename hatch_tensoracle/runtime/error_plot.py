"""Draws how the errors of an output depend on the magnitude of what it should be."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

from hatch_tensoracle.runtime.array_pair import ArrayPair
from hatch_tensoracle.runtime.comparison import checked_tolerance
from hatch_tensoracle.runtime.float_errors import in_float64

__all__ = ["plot_errors"]

_MOST = 1000
"""Binary exponent: what is beyond is drawn there, since matplotlib needs room for margins in the range of float64."""


def plot_errors(
    candidate: Any, reference: Any, atol: float | None = None, rtol: float | None = None, axes: Any = None
) -> Any:
    """Draw the number of elements by absolute error and by magnitude of the reference, each in powers of two.

    Takes what compare_outputs takes, of floating point; with tolerances their limit is drawn, too. What has no place on
    such scales is counted in the title. Returns the Axes of matplotlib, those given or those of a new Figure. Raises
    ImportError without matplotlib, and what compare_outputs raises.
    """
    tolerance = checked_tolerance(atol, rtol)
    pair = ArrayPair(candidate, reference)
    if pair.kind != "floating point":
        raise ValueError(f"arrays of {pair.types[0]} have no errors to draw: they are {pair.kind}")
    try:
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "plot_errors needs matplotlib: pip install 'hatch-tensoracle[plot]'"
        raise ImportError(message) from error

    axes = Figure(layout="constrained").subplots() if axes is None else axes
    counts, equal, at_zero, nonfinite = _count(pair)
    if counts:
        x, y, numbers = _grid(counts)
        mesh = axes.pcolormesh(x, y, numbers, norm=LogNorm(vmin=1))
        axes.figure.colorbar(mesh, ax=axes, label="elements")
        axes.set(xscale="log", yscale="log")
        if tolerance is not None:
            limits = [tolerance[0] + tolerance[1] * edge for edge in x]
            axes.plot(x, limits, color="tab:red", label=f"atol {tolerance[0]:g}, rtol {tolerance[1]:g}")
            axes.legend()
    axes.set(
        xlabel="magnitude of the reference",
        ylabel="absolute error",
        title=f"{math.prod(pair.shape)} elements: {equal} equal, {at_zero} others at 0, {nonfinite} not finite",
    )
    return axes


def _count(pair: ArrayPair) -> tuple[Counter[tuple[int, int]], int, int, int]:
    """Count elements by the binary exponents of reference and error; equal ones, others at zero, not finite ones."""
    import numpy as np

    counts, equal, at_zero, finite = Counter[tuple[int, int]](), 0, 0, 0
    with np.errstate(all="ignore"):
        for _, _, candidate, reference in in_float64(pair):
            error = np.minimum(np.abs(candidate - reference), sys.float_info.max)
            magnitude = np.abs(reference)
            is_finite = np.isfinite(candidate) & np.isfinite(reference)
            is_drawn = is_finite & (error > 0) & (magnitude > 0)
            finite += int(np.count_nonzero(is_finite))
            equal += int(np.count_nonzero(is_finite & (error == 0)))
            at_zero += int(np.count_nonzero(is_finite & (error > 0) & (magnitude == 0)))
            exponents = np.stack([np.frexp(side[is_drawn])[1] for side in (magnitude, error)], axis=1)
            cells, numbers = np.unique(exponents.clip(-_MOST, _MOST), axis=0, return_counts=True)
            counts.update({(int(x), int(y)): int(number) for (x, y), number in zip(cells, numbers, strict=True)})
    return counts, equal, at_zero, math.prod(pair.shape) - finite


def _grid(counts: Counter[tuple[int, int]]) -> tuple[list[float], list[float], Any]:
    """Return the borders of the cells in both directions, and the numbers, NaN in empty cells."""
    import numpy as np

    columns, rows = (range(min(each), max(each) + 1) for each in zip(*counts, strict=True))
    numbers = np.full((len(rows), len(columns)), math.nan)
    for (x, y), number in counts.items():
        numbers[y - rows.start, x - columns.start] = number
    return _borders(columns), _borders(rows), numbers


def _borders(exponents: range) -> list[float]:
    return [math.ldexp(0.5, exponent) for exponent in range(exponents.start, exponents.stop + 1)]
