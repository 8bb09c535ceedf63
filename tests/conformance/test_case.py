"""The file of cases: what is wrong in it is named by its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_tensoracle.conformance import Case, read_cases
from hatch_tensoracle.conformance.case import Input
from hatch_tensoracle.errors import ConfigurationError

INPUT = '{ type = "fp16", shape = [-1, 64], min = [1, 64], opt = [4, 64], max = [8, 64] }'


def written(directory: Path, text: str) -> Path:
    file = directory / "check.toml"
    file.write_text(text, encoding="utf-8")
    return file


def one(inputs: str = INPUT, rest: str = "") -> str:
    """A file of one case."""
    return f'[[cases]]\nplugin = "Good"\ninputs = [{inputs}]\n{rest}\n'


def test_a_case_has_fields_and_inputs(tmp_path: Path) -> None:
    text = one(rest='fields = { scale = 0.5, count = 3, label = "a", axes = [0, 1] }\nname = "all"\nversion = "2"')
    assert read_cases(written(tmp_path, text)) == (
        Case(
            plugin="Good",
            fields={"scale": 0.5, "count": 3, "label": "a", "axes": (0, 1)},
            inputs=(Input(type="fp16", shape=(-1, 64), min=(1, 64), opt=(4, 64), max=(8, 64)),),
            name="all",
            version="2",
        ),
    )


def test_a_case_is_called_by_its_name_or_else_by_its_inputs(tmp_path: Path) -> None:
    (unnamed, named) = read_cases(written(tmp_path, one() + one(rest='name = "rows"')))
    assert (unnamed.label, named.label) == ("Good fp16(-1,64)", "Good rows")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param("", "cases: is missing", id="no-cases"),
        pytest.param("cases = []", "cases: is empty: nothing would be checked", id="none"),
        pytest.param("cases = 3", "cases: must be an array, not 3", id="no-array"),
        pytest.param("case = []", "case: is an unknown key; did you mean `cases`?", id="unknown-key"),
        pytest.param("[[cases]\n", "Expected ']]' at the end of an array declaration", id="no-toml"),
        pytest.param("[[cases]]\ninputs = []", "cases[0].plugin: is missing", id="no-plugin"),
        pytest.param('[[cases]]\nplugin = "Good"', "cases[0].inputs: is missing", id="no-inputs"),
        pytest.param(one(""), "cases[0].inputs: is empty: a plugin has inputs", id="empty-inputs"),
        pytest.param(
            one(rest="field = {}"),
            "cases[0].field: is an unknown key; did you mean `fields`?",
            id="unknown-key-of-a-case",
        ),
        pytest.param(
            one(rest="fields = { scale = {} }"),
            "cases[0].fields.scale: must be true or false or an integer or a number or a string",
            id="table-as-field",
        ),
        pytest.param(
            one() + one('{ type = "fp16", shapes = [1] }'),
            "cases[1].inputs[0].shapes: is an unknown key; did you mean `shape`?",
            id="unknown-key-of-an-input",
        ),
        pytest.param(
            one('{ type = "float", shape = [1] }'),
            "cases[0].inputs[0]: tensor type 'float' is none of fp32, fp16,",
            id="unknown-type",
        ),
        pytest.param(
            one('{ type = "fp16", shape = [1], format = "NHWC" }'),
            "cases[0].inputs[0]: tensor format 'NHWC' is none of LINEAR,",
            id="unknown-format",
        ),
        pytest.param(
            one('{ type = "fp16", shape = ["n"] }'),
            "cases[0].inputs[0].shape[0]: must be an integer, not 'n'",
            id="extent-of-another-type",
        ),
        pytest.param(
            one('{ type = "fp16", shape = [1, 1, 1, 1, 1, 1, 1, 1, 1] }'),
            "has 9 axes; TensorRT has at most 8",
            id="rank",
        ),
        pytest.param(
            one('{ type = "fp16", shape = [-1] }'),
            "cases[0].inputs[0]: shape (?) has a dynamic extent: give min, opt and max",
            id="no-bounds",
        ),
        pytest.param(
            one('{ type = "fp16", shape = [-2] }'),
            "cases[0].inputs[0]: shape has extent -2; it is -1 where it is dynamic",
            id="negative-extent",
        ),
        pytest.param(
            one('{ type = "fp16", shape = [-1, 4], min = [1, 4], opt = [1, 5], max = [9, 4] }'),
            "cases[0].inputs[0]: opt is (1, 5), which is no (?, 4)",
            id="bound-of-another-shape",
        ),
        pytest.param(
            one('{ type = "fp16", shape = [-1], min = [2], opt = [1], max = [9] }'),
            "cases[0].inputs[0]: min (2), opt (1) and max (9) are not in order",
            id="bounds-not-in-order",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, cause: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_cases(written(tmp_path, text))
    assert cause in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'check.toml'}: ")
    assert caught.value.remedy == "See docs/testing.md for the form of cases."


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.toml cannot be read: No such file"):
        read_cases(tmp_path / "missing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"binary\.toml is not UTF-8"):
        read_cases(tmp_path / "binary.toml")
