"""The file of cases to tune: what is wrong in it is named by its place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.testing import Tensor
from hatch_tensoracle.tune import Case, read_cases
from hatch_tensoracle.tune.case import Input, Range, Repeat

HEAD = '[[cases]]\nplugin = "P"\nkernel = "k"\n'
INPUTS = 'inputs = [{ type = "fp16", shape = ["M", "K"] }, { type = "i32", shape = [3] }]\n'
SIZES = "sizes = { M = { min = 1, max = 8 }, K = [4, 5] }\n"


def written(directory: Path, text: str) -> Path:
    file = directory / "tune.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_case_has_sizes_that_its_shapes_and_fields_use(tmp_path: Path) -> None:
    text = HEAD + INPUTS + SIZES + 'fields = { a = { repeat = 0.5, times = "K" }, b = [1, 2], c = "x" }\n'
    (case,) = read_cases(written(tmp_path, text))
    assert case == Case(
        plugin="P",
        kernel="k",
        inputs=(Input(type="fp16", shape=("M", "K")), Input(type="i32", shape=(3,))),
        sizes={"M": Range(min=1, max=8), "K": (4, 5)},
        fields={"a": Repeat(repeat=0.5, times="K"), "b": (1, 2), "c": "x"},
    )
    assert case.label == "P k fp16(M,K) i32(3)"
    sizes = {"M": 7, "K": 2}
    assert case.tensors(sizes) == [Tensor("fp16", (7, 2)), Tensor("i32", (3,))]
    assert case.field_values(sizes) == {"a": [0.5, 0.5], "b": (1, 2), "c": "x"}


def test_a_case_is_the_same_whatever_its_sizes(tmp_path: Path) -> None:
    (case,) = read_cases(written(tmp_path, HEAD + INPUTS + SIZES))
    assert dataclasses.replace(case, sizes={"M": 3, "K": Range(min=1, max=9)}).id == case.id
    for change in ({"kernel": "l"}, {"fields": {"a": 1}}, {"version": "1"}, {"inputs": case.inputs[:1]}):
        assert dataclasses.replace(case, **change).id != case.id


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param("", "cases: is missing", id="no-cases"),
        pytest.param("cases = []", "cases: is empty: nothing would be measured", id="none"),
        pytest.param('[[cases]]\nplugin = "P"\n' + INPUTS + SIZES, "cases[0].kernel: is missing", id="no-kernel"),
        pytest.param(HEAD + "inputs = []", "cases[0].inputs: is empty: a plugin has inputs", id="no-inputs"),
        pytest.param(
            HEAD + INPUTS + "sizes = { M = 1 }",
            "cases[0].inputs[0].shape[1]: is 'K', which `sizes` has not",
            id="unknown-variable",
        ),
        pytest.param(
            HEAD + INPUTS + SIZES + 'fields = { a = { repeat = 1, times = "Q" } }',
            "cases[0].fields.a.times: is 'Q', which `sizes` has not",
            id="unknown-variable-of-a-field",
        ),
        pytest.param(
            HEAD + INPUTS + "sizes = { M = 1, K = 1, N = 1 }", "cases[0].sizes.N: is in no shape", id="unused-variable"
        ),
        pytest.param(
            HEAD + INPUTS + "sizes = { M = 0, K = 1 }",
            "cases[0].sizes.M: must be positive numbers, is [0]",
            id="zero",
        ),
        pytest.param(
            HEAD + INPUTS + "sizes = { M = [], K = 1 }",
            "cases[0].sizes.M: must be positive numbers, is []",
            id="empty-list",
        ),
        pytest.param(
            HEAD + INPUTS + "sizes = { M = [2, 1, 2], K = 1 }",
            "cases[0].sizes.M: has a number twice: [2, 1, 2]",
            id="twice",
        ),
        pytest.param(
            HEAD + INPUTS + "sizes = { M = { min = 9, max = 8 }, K = 1 }",
            "cases[0].sizes.M.min: must be from 1 on and not above max, 8; is 9",
            id="reversed-range",
        ),
        pytest.param(
            HEAD + INPUTS + "sizes = { M = { min = 1, to = 8 }, K = 1 }",
            "cases[0].sizes.M.to: is an unknown key; known are `min`, `max`",
            id="unknown-key-of-a-range",
        ),
        pytest.param(
            HEAD + INPUTS + 'sizes = { M = "all", K = 1 }',
            "cases[0].sizes.M: must be an integer or an array or a table, not 'all'",
            id="text-for-a-size",
        ),
        pytest.param(
            HEAD + 'inputs = [{ type = "fp16", shape = [-1] }]',
            "cases[0].inputs[0].shape[0]: is -1; it must be a positive number or a variable of `sizes`",
            id="dynamic-extent",
        ),
        pytest.param(
            HEAD + 'inputs = [{ type = "half", shape = [1] }]',
            "cases[0].inputs[0]: tensor type 'half' is none of fp32, fp16",
            id="unknown-type",
        ),
        pytest.param("[[cases]\n", "Expected ']]' at the end of an array declaration", id="no-toml"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, cause: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_cases(written(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path / 'tune.toml'}: {cause}")
    assert caught.value.remedy == "See docs/tuning.md for the form of cases."


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tune\.toml cannot be read: No such file"):
        read_cases(tmp_path / "tune.toml")


def test_the_example_has_cases(example_project: Path) -> None:
    cases = read_cases(example_project / "tune.toml")
    assert [case.kernel for case in cases] == [f"matmul_bias_gelu_{name}" for name in ("fp16", "tf32", "fp32")]
