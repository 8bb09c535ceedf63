"""Where to measure along one extent, and the runs that come of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from hatch_tensoracle.tune.case import Range
from hatch_tensoracle.tune.journal import Times
from hatch_tensoracle.tune.runs import COARSE, FINE, NOISE, Run, powers, refine, runs_of


def recorded(times: Callable[[int], Times]) -> tuple[list[int], Callable[[int], Times]]:
    """The function, and the values that it is asked for."""
    asked: list[int] = []

    def measure(value: int) -> Times:
        asked.append(value)
        return times(value)

    return asked, measure


def bounds(runs: list[Run]) -> list[tuple[int, int, str]]:
    return [(run.least, run.greatest, run.configuration) for run in runs]


@pytest.mark.parametrize(
    ("least", "greatest", "expected"),
    [
        (1, 8, [1, 2, 4, 8]),
        (3, 9, [3, 4, 8, 9]),
        (5, 7, [5, 7]),
        (8, 8, [8]),
        (1, 8192, [1 << bit for bit in range(14)]),
    ],
)
def test_powers_of_two_and_the_ends_come_first(least: int, greatest: int, expected: list[int]) -> None:
    asked, measure = recorded(lambda value: {"a": float(value)})
    size = Range(min=least, max=greatest)
    assert powers(size) == expected
    refine(size, measure)
    assert asked[: len(expected)] == expected


def test_each_value_is_measured_once_and_none_is_far_from_its_neighbours() -> None:
    asked, measure = recorded(lambda value: {"a": float(value), "b": float(2 * value)})
    assert bounds(refine(Range(min=1, max=8192), measure)) == [(1, 8192, "a")]
    assert len(set(asked)) == len(asked) < 70
    pairs = list(itertools.pairwise(sorted(asked)))
    assert all(after / before <= COARSE or after == before + 1 for before, after in pairs)


@pytest.mark.parametrize("crossing", [2, 3, 100, 1000, 1023, 1024, 1025, 8000])
def test_a_border_is_found_to_a_tenth(crossing: int) -> None:
    """`small` is the fastest below the crossing, `large` from it on."""
    asked, measure = recorded(lambda value: {"large": 10.0, "small": 5.0 if value < crossing else 20.0})
    first, second = refine(Range(min=1, max=8192), measure)
    assert (first.configuration, second.configuration, second.greatest) == ("small", "large", 8192)
    assert second.least == first.greatest + 1
    below, above = max(each for each in asked if each < crossing), min(each for each in asked if each >= crossing)
    assert below <= first.greatest < above
    assert above / below <= FINE or above == below + 1


def test_a_winner_within_the_noise_does_not_make_a_run() -> None:
    near, far = 10 * NOISE - 0.001, 10 * NOISE + 0.001
    measured: dict[int, Times] = {1: {"a": 10, "b": near}, 2: {"a": near, "b": 10}, 4: {"a": 10, "b": far}}
    assert bounds(runs_of(measured)) == [(1, 4, "a")]
    measured[2] = {"a": far, "b": 10}
    assert bounds(runs_of(measured)) == [(1, 2, "b"), (3, 4, "a")]


def test_runs_are_as_few_as_can_be() -> None:
    """Choosing the winner at each value would make three of these."""
    measured: dict[int, Times] = {
        1: {"a": 10.0, "b": 10.1, "c": 20.0},
        2: {"a": 10.1, "b": 10.0, "c": 10.1},
        4: {"a": 20.0, "b": 10.1, "c": 10.0},
    }
    assert bounds(runs_of(measured)) == [(1, 4, "b")]


def test_of_those_good_everywhere_the_fastest_over_all_is_taken() -> None:
    measured: dict[int, Times] = {1: {"a": 10.0, "b": 10.1}, 2: {"a": 10.1, "b": 10.0}, 3: {"a": 10.1, "b": 10.0}}
    assert bounds(runs_of(measured)) == [(1, 3, "b")]


def test_runs_meet_in_the_geometric_middle() -> None:
    measured: dict[int, Times] = {4: {"a": 1, "b": 2}, 9: {"a": 2, "b": 1}, 10: {"a": 1, "b": 2}}
    assert bounds(runs_of(measured)) == [(4, 6, "a"), (7, 9, "b"), (10, 10, "a")]


def test_a_run_has_the_times_at_its_greatest_measured_value() -> None:
    measured: dict[int, Times] = {1: {"a": 1, "b": 3}, 2: {"a": 2, "b": 4, "c": None}, 8: {"a": 9, "b": 8}}
    first, second = runs_of(measured)
    assert (first.us, first.runner_up_us) == (2, 4)
    assert (second.us, second.runner_up_us) == (8, 9)
    (only,) = runs_of({1: {"a": 1}})
    assert (only.us, only.runner_up_us) == (1, None)


def test_a_configuration_that_cannot_run_is_not_for_that_value() -> None:
    measured: dict[int, Times] = {1: {"a": 1, "b": 2}, 2: {"a": None, "b": 2}, 4: {"a": 1, "b": 2}}
    assert bounds(runs_of(measured)) == [(1, 1, "a"), (2, 2, "b"), (3, 4, "a")]
