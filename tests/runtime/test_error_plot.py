"""plot_errors draws what there is to see, and says what it leaves out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np  # noqa: TID253 - its arrays are drawn
import pytest

from hatch_tensoracle.runtime import plot_errors

REFERENCE = np.array([0.0, 0.0, 1.0, 1.5, 100.0, np.nan, 3.0], np.float32)
CANDIDATE = np.array([0.0, 1.0, 1.25, 1.75, 100.5, 1.0, 3.0], np.float32)


def cells(axes: Any) -> dict[tuple[float, float], float]:
    """Numbers that are drawn, by the lower borders of magnitude and error."""
    (mesh,) = axes.collections
    corners = mesh.get_coordinates()
    array = np.ma.masked_invalid(mesh.get_array())
    return {
        (float(corners[i, j, 0]), float(corners[i, j, 1])): float(array[i, j])
        for i, j in np.argwhere(~np.ma.getmaskarray(array))
    }


def test_elements_are_counted_by_magnitude_and_error() -> None:
    axes = plot_errors(CANDIDATE, REFERENCE)
    assert cells(axes) == {(1.0, 0.25): 2.0, (64.0, 0.5): 1.0}
    assert axes.get_title() == "7 elements: 2 equal, 1 others at 0, 1 not finite"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_the_figure_can_be_saved(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    reference = random.standard_normal((100, 100))
    axes = plot_errors(reference.astype(np.float16), reference, atol=1e-5, rtol=1e-3)
    axes.figure.savefig(tmp_path / "errors.png")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    (limit,) = axes.lines
    assert limit.get_label() == "atol 1e-05, rtol 0.001"
    assert limit.get_ydata()[0] == pytest.approx(1e-5 + 1e-3 * limit.get_xdata()[0])


def test_axes_may_be_given() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    assert plot_errors(CANDIDATE, REFERENCE, axes=axes) is axes


@pytest.mark.parametrize("value", [1.0, 1.7e308, 5e-324])
def test_any_number_has_a_place(value: float) -> None:
    axes = plot_errors(np.array([-value]), np.array([value]))
    assert list(cells(axes).values()) == [1.0]


def test_equal_arrays_leave_nothing_to_draw() -> None:
    axes = plot_errors(REFERENCE[:5], REFERENCE[:5])
    assert not axes.collections
    assert axes.get_title() == "5 elements: 5 equal, 0 others at 0, 0 not finite"


def test_integers_have_no_errors() -> None:
    with pytest.raises(ValueError, match="arrays of int64 have no errors to draw: they are integer"):
        plot_errors(np.array([1]), np.array([2]))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'hatch-tensoracle\[plot\]'"):
        plot_errors(CANDIDATE, REFERENCE)
