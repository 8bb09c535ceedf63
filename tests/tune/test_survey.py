"""Several variables: what is measured, and which boxes come of it."""

from __future__ import annotations

from hatch_tensoracle.tune.case import Case, Input, Range, Sizes
from hatch_tensoracle.tune.journal import Times
from hatch_tensoracle.tune.survey import Box, survey


def case_of(**sizes: int | tuple[int, ...] | Range) -> Case:
    return Case(
        plugin="P",
        kernel="k",
        inputs=(Input(type="fp16", shape=("M", "K")), Input(type="fp16", shape=("K", "N", 3))),
        sizes=sizes,
    )


def surveyed(case: Case, winner: str | None = None) -> tuple[list[Sizes], list[Box]]:
    """What is asked for, and the boxes: `small` is the fastest for up to 100 of the products of all variables."""
    asked: list[Sizes] = []

    def measure(sizes: Sizes) -> Times:
        asked.append(sizes)
        product = sizes["M"] * sizes["K"] * sizes["N"]
        return {"small": 1.0 if product <= 100 or winner else 3.0, "large": 2.0}

    return asked, survey(case, measure)


def test_without_a_range_every_combination_is_a_box() -> None:
    case = case_of(M=(1, 8), K=2, N=(5, 10))
    asked, boxes = surveyed(case)
    assert asked == [{"M": m, "K": 2, "N": n} for m in (1, 8) for n in (5, 10)]
    assert [box.extents(case) for box in boxes] == [((m, 2), (2, n, 3)) for m in (1, 8) for n in (5, 10)]
    assert [box.run.configuration for box in boxes] == ["small", "small", "small", "large"]


def test_a_range_is_refined_for_each_of_the_others() -> None:
    case = case_of(M=Range(min=1, max=64), K=2, N=(5, 10))
    asked, boxes = surveyed(case)
    assert len({tuple(sizes.items()) for sizes in asked}) == len(asked)
    found = [(box.extents(case), box.run.configuration) for box in boxes]
    assert found == [
        (((((1, 10), 2), (2, 5, 3))), "small"),
        (((((11, 64), 2), (2, 5, 3))), "large"),
        (((((1, 5), 2), (2, 10, 3))), "small"),
        (((((6, 64), 2), (2, 10, 3))), "large"),
    ]


def test_further_ranges_are_a_grid_of_powers_of_two_whose_cells_leave_nothing_out() -> None:
    case = case_of(M=Range(min=1, max=64), K=1, N=Range(min=3, max=40))
    asked, boxes = surveyed(case)
    assert {sizes["N"] for sizes in asked} == {3, 4, 8, 16, 32, 40}
    for m in range(1, 65):
        for n in range(3, 41):
            holding = [box for box in boxes if _holds(box, M=m, K=1, N=n)]
            assert len(holding) == 1, (m, n)


def test_boxes_that_touch_become_one() -> None:
    case = case_of(M=Range(min=1, max=64), K=1, N=Range(min=3, max=40))
    _, boxes = surveyed(case, winner="small")
    assert [box.extents(case) for box in boxes] == [(((1, 64), 1), (1, (3, 40), 3))]


def test_listed_extents_are_no_more_than_themselves() -> None:
    case = case_of(M=(4, 8), K=1, N=1)
    _, boxes = surveyed(case, winner="small")
    assert [box.extents(case) for box in boxes] == [((4, 1), (1, 1, 3)), ((8, 1), (1, 1, 3))]


def _holds(box: Box, **sizes: int) -> bool:
    return all(box.sizes[name][0] <= value <= box.sizes[name][1] for name, value in sizes.items())
