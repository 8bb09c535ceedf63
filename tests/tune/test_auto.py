"""The tactic "auto" takes what was measured, where that is for the plugin, its inputs and the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np  # noqa: TID253 - fields keep its types
import pytest
from testing.child import in_child

from hatch_tensoracle.testing import DevicePointer, FakeDriver, PluginHarness, Tensor
from tune.tunings import DEFAULTS

BY_ITSELF = [0, 2, 2, 2]
"""What the plugin takes for ROWS."""
ROWS = (1, 2, 10, 11)


def configurations(  # noqa: PLR0913 - what it depends on
    harness: PluginHarness,
    driver: FakeDriver,
    shapes: Sequence[tuple[int, ...]],
    *,
    type_: str = "fp32",
    fields: Mapping[str, Any] | None = None,
    tactic: int = 1,
) -> list[int]:
    """Those that are launched, in the current context, for these shapes."""
    rank = len(shapes[0])
    x = Tensor(type_, (-1,) * rank, min=(0,) * rank, opt=shapes[0], max=(1 << 10,) * rank)
    memory = driver.allocate(1 << 20)
    launched = []
    with harness.create("Scale", fields or {}, namespace="tests").build([x]).run_time(tactic=tactic) as running:
        for shape in shapes:
            driver.clear()
            pointer = DevicePointer(memory, shape, type_)
            running.enqueue([pointer], [pointer])
            (launch,) = driver.launches
            launched.append({32: 0, 64: 1, 128: 2}[launch.block[0]])
    return launched


@pytest.mark.parametrize("field", [None, *DEFAULTS])
@in_child
def test_a_box_holds_for_its_fields_alone(tuned: Path, field: str | None) -> None:
    others = {"factor": np.float32(1e-4), "mode": "plainer", "flag": 1, "half": 0.2, "bfloat": 0.2, "double": 0.2}
    given = {field: {**others, "dims": (3, 3)}[field]} if field else {}
    shapes = [(rows, 64) for rows in ROWS]
    with FakeDriver([80]) as driver, PluginHarness(tuned) as harness:
        driver.create_context()
        assert configurations(harness, driver, shapes, fields=given) == (BY_ITSELF if field else [0, 1, 1, 2])


@in_child
def test_array_fields_do_not_count_and_others_have_boxes_of_their_own(tuned: Path) -> None:
    shapes = [(rows, 64) for rows in ROWS]
    with FakeDriver([80]) as driver, PluginHarness(tuned) as harness:
        driver.create_context()
        for fields, expected in (
            ({"offsets": [1.0, 2.0]}, [0, 1, 1, 2]),
            ({"factor": np.float32(1e-5), "double": 0.1}, [0, 1, 1, 2]),
            ({"mode": "other"}, [0, 0, 0, 2]),
            ({"factor": 0.5}, [0, 0, 0, 2]),
        ):
            assert configurations(harness, driver, shapes, fields=fields) == expected
        assert configurations(harness, driver, shapes, type_="fp16") == [0, 0, 0, 2]


@in_child
def test_a_box_holds_for_its_extents_and_axes_alone(tuned: Path) -> None:
    with FakeDriver([80]) as driver, PluginHarness(tuned) as harness:
        driver.create_context()
        shapes = [(2, 64), (10, 64), (11, 64), (2, 63), (2, 65), (5, 63), (1, 64)]
        assert configurations(harness, driver, shapes) == [1, 1, 2, 2, 2, 2, 0]
        assert configurations(harness, driver, [(20, 64), (21, 64), (40, 64), (41, 64)]) == [2, 0, 0, 2]
        assert configurations(harness, driver, [(3, 4, 5), (3, 4, 6), (1, 4, 5)]) == [1, 2, 0]
        assert configurations(harness, driver, [(64,), (10,)]) == [2, 2]


@in_child
def test_other_tactics_are_what_they_are(tuned: Path) -> None:
    with FakeDriver([80]) as driver, PluginHarness(tuned) as harness:
        driver.create_context()
        for tactic in (2, 3, 4):
            assert configurations(harness, driver, [(2, 64)], tactic=tactic) == [tactic - 2]


@in_child
def test_the_nearest_sm_of_the_same_major_version_counts(tuned: Path) -> None:
    devices = {80: [0, 1], 82: [0, 1], 83: [0, 1], 84: [2, 2], 86: [2, 2], 89: [2, 2], 90: [0, 0]}
    with FakeDriver(list(devices)) as driver, PluginHarness(tuned) as harness:
        for i, (sm, expected) in enumerate(devices.items()):
            driver.create_context(i).make_current()
            assert configurations(harness, driver, [(1, 64), (2, 64)]) == expected, sm
        assert configurations(harness, driver, [(1, 64), (2, 64)], type_="fp16") == [0, 2]  # tuned on 80 alone


@in_child
def test_without_tuning_the_plugin_chooses(untuned: Path) -> None:
    with FakeDriver([80]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        assert configurations(harness, driver, [(rows, 64) for rows in ROWS]) == BY_ITSELF
