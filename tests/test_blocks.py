"""Blocks cover an array once, in C order, and none is larger than asked for."""

from __future__ import annotations

import math

import numpy as np  # noqa: TID253 - what is cut up
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hatch_tensoracle._blocks import blocks


@settings(database=None, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=5).map(tuple), st.integers(1, 50))
def test_pieces_in_order_are_the_array(shape: tuple[int, ...], most: int) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    pieces = [array[index] for index in blocks(shape, most)]
    assert all(piece.size <= most for piece in pieces)
    assert np.concatenate([np.ravel(piece) for piece in pieces]).tolist() == array.ravel().tolist()


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        pytest.param((), {1}, id="no axes"),
        pytest.param((0, 5), {0}, id="no elements"),
        pytest.param((100, 1000), {1000}, id="rows"),
        pytest.param((3, 1001), {501, 500}, id="rows that are a little too long"),
        pytest.param((1, 1, 4000), {1000}, id="axes of one"),
    ],
)
def test_pieces_are_about_equally_large(shape: tuple[int, ...], sizes: set[int]) -> None:
    assert {math.prod(part.stop - part.start for part in index) for index in blocks(shape, 1000)} == sizes
