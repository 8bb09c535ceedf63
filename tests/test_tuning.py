"""The file tuning.json: one form, read strictly, and checked against the kernels."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.tuning import TunedRange, Tuning, check_tuning, find_configuration, read_tuning, tuning_json

RANGE = TunedRange(
    inputs=(((1, 8), 4096), (4096, 4096)), configuration={"BM": 16, "num_warps": 4}, us=8.25, runner_up_us=9.5
)
TUNING = Tuning(
    plugin="MatmulBiasGelu",
    version="1",
    kernel="matmul",
    types=("fp16", "fp16"),
    sm=90,
    gpu="NVIDIA H200",
    driver="580.95.05",
    ranges=(RANGE, dataclasses.replace(RANGE, inputs=(((9, 16), 4096), (4096, 4096)))),
    fields={"tf32": 0, "epsilon": 1e-05, "mode": "größer"},
)
TEXT = """{
 "schema": 1,
 "tuning": [
  {
   "plugin": "MatmulBiasGelu",
   "version": "1",
   "kernel": "matmul",
   "types": ["fp16", "fp16"],
   "sm": 90,
   "gpu": "NVIDIA H200",
   "driver": "580.95.05",
   "namespace": "",
   "fields": {"tf32": 0, "epsilon": 1e-05, "mode": "größer"},
   "ranges": [
    {"inputs": [[[1, 8], 4096], [4096, 4096]], "configuration": {"BM": 16, "num_warps": 4}, "us": 8.25, "runner_up_us": 9.5},
    {"inputs": [[[9, 16], 4096], [4096, 4096]], "configuration": {"BM": 16, "num_warps": 4}, "us": 8.25, "runner_up_us": 9.5}
   ]
  }
 ]
}
"""  # noqa: E501 - a range is a line
CONFIGURATIONS = [
    {"BM": 16, "BN": 64, "num_warps": 4, "num_stages": 3},
    {"BM": 32, "BN": 64, "num_warps": 4, "num_stages": 3},
    {"BM": 32, "BN": 128, "num_warps": 4, "num_stages": 3},
]


def written(directory: Path, data: bytes) -> Path:
    file = directory / "tuning.json"
    file.write_bytes(data)
    return file


def test_the_file_has_a_line_for_each_range() -> None:
    assert tuning_json([TUNING]).decode() == TEXT


def test_it_is_read_and_written_as_the_same_bytes(tmp_path: Path) -> None:
    tunings = [dataclasses.replace(TUNING, sm=sm, ranges=TUNING.ranges[:sm]) for sm in (90, 86, 0)]
    data = tuning_json(tunings)
    read = read_tuning(written(tmp_path, data))
    assert sorted(read, key=lambda tuning: -tuning.sm) == tunings
    assert tuning_json(read) == tuning_json(tunings[::-1]) == data


def test_boxes_spell_every_extent_as_least_and_greatest() -> None:
    assert RANGE.boxes == (((1, 8), (4096, 4096)), ((4096, 4096), (4096, 4096)))


def one(content: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = content["tuning"][0]
    return first


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(lambda c: c.update(schema=2), "schema: is 2; this release reads 1", id="newer-schema"),
        pytest.param(lambda c: c.pop("schema"), "schema: is None; this release reads 1", id="no-schema"),
        pytest.param(lambda c: c.pop("tuning"), "tuning: is missing", id="no-entries"),
        pytest.param(
            lambda c: one(c).update(colour=1), "tuning[0].colour: is an unknown key; known are", id="unknown-key"
        ),
        pytest.param(lambda c: one(c).pop("gpu"), "tuning[0].gpu: is missing", id="missing-key"),
        pytest.param(lambda c: one(c).update(types=[]), "tuning[0].types: is empty", id="no-types"),
        pytest.param(
            lambda c: one(c).update(types=["fp16", "half"]),
            "tuning[0].types[1]: unknown type `half`",
            id="unknown-type",
        ),
        pytest.param(
            lambda c: one(c).update(types=["fp16"]),
            "tuning[0].ranges[0].inputs: has 2 inputs, `types` has 1",
            id="input-count",
        ),
        pytest.param(
            lambda c: one(c)["ranges"][1]["inputs"][0].__setitem__(0, [8, 1]),
            "tuning[0].ranges[1].inputs[0][0]: must be an extent or [least, greatest], is [8, 1]",
            id="reversed",
        ),
        pytest.param(
            lambda c: one(c)["ranges"][1]["inputs"][1].__setitem__(1, [1, 2, 3]),
            "tuning[0].ranges[1].inputs[1][1]: must be an extent or [least, greatest], is [1, 2, 3]",
            id="three-bounds",
        ),
        pytest.param(
            lambda c: one(c)["ranges"][1]["inputs"][1].__setitem__(1, "all"),
            "tuning[0].ranges[1].inputs[1][1]: must be an integer or an array, not 'all'",
            id="text-for-an-extent",
        ),
        pytest.param(
            lambda c: one(c)["ranges"][0].update(configuration=3),
            "tuning[0].ranges[0].configuration: must be a table, not 3",
            id="bare-index",
        ),
        pytest.param(
            lambda c: c["tuning"].append({**one(c), "gpu": "another"}),
            "tuning[1]: is of the same plugin, fields and SM as tuning[0]",
            id="twice",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: Callable[[dict[str, Any]], object], problem: str) -> None:
    content = json.loads(TEXT)
    change(content)
    with pytest.raises(ConfigurationError) as caught:
        read_tuning(written(tmp_path, json.dumps(content).encode()))
    assert str(caught.value).startswith(f"{tmp_path / 'tuning.json'}: {problem}")
    assert "hatch-tensoracle tune" in caught.value.remedy


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "Expecting property name"),
        (b"[]", "must be a table, not []"),
        (b'{"us": NaN}', "NaN is no number of JSON"),
        (b"\xff\xfe\xfa", "'utf-16"),
    ],
)
def test_what_is_no_such_file_is_said(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tuning\.json: ") as caught:
        read_tuning(written(tmp_path, data))
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tuning\.json cannot be read: No such file"):
        read_tuning(tmp_path / "tuning.json")


def test_a_configuration_is_found_by_what_tells_it_apart() -> None:
    assert find_configuration(CONFIGURATIONS, {"BM": 16}) == 0
    assert find_configuration(CONFIGURATIONS, {"BN": 128, "num_warps": 4}) == 2
    assert find_configuration(CONFIGURATIONS, CONFIGURATIONS[1]) == 1


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"BM": 64}, "BM=64 is no configuration of the kernel, which has BM=16; BM=32; BM=32"),
        ({"BM": 32}, "BM=32 is 2 configurations of the kernel, which has BM=16; BM=32; BM=32"),
        ({"BM": 16, "GROUP": 8}, "BM=16 GROUP=8 is no configuration of the kernel, which has BM=16 GROUP=None; "),
    ],
)
def test_one_that_is_none_or_several_is_refused(wanted: dict[str, int], problem: str) -> None:
    with pytest.raises(LookupError) as caught:
        find_configuration(CONFIGURATIONS, wanted)
    assert str(caught.value.args[0]).startswith(problem)


def test_kernels_and_configurations_that_are_gone_are_named() -> None:
    check_tuning([TUNING], {"matmul": CONFIGURATIONS})
    with pytest.raises(ConfigurationError) as caught:
        check_tuning([TUNING], {"other": CONFIGURATIONS, "third": CONFIGURATIONS})
    assert str(caught.value) == "tuning[0].kernel: there is no kernel `matmul`; there are other, third"
    with pytest.raises(ConfigurationError) as caught:
        check_tuning([TUNING], {"matmul": CONFIGURATIONS[1:]})
    assert str(caught.value).startswith("tuning[0].ranges[0].configuration: BM=16 num_warps=4 is no configuration")
    assert "hatch-tensoracle tune" in caught.value.remedy
