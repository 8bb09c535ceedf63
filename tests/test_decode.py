"""Parsed JSON and TOML become dataclasses strictly, and an error says where the value stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from hatch_tensoracle._decode import DecodeError, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """Part of the whole."""

    spokes: int
    rim_width: float = 1.5

    def __post_init__(self) -> None:
        if self.spokes < 1:
            raise DecodeError(f"must be positive, not {self.spokes}", "spokes")
        if self.spokes == 13:
            raise DecodeError("brings bad luck", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bicycle:
    """The whole."""

    name: str
    wheels: tuple[Wheel, ...]
    gears: int | None = None
    tags: tuple[str, ...] = ()
    notes: Mapping[str, bool | int | float | str | None] = field(default_factory=dict)
    parts: Mapping[str, Wheel] = field(default_factory=dict)
    sidecar: Wheel | None = None
    is_fast: bool = False


GOOD: dict[str, Any] = {
    "name": "one",
    "wheels": [{"spokes": 20}, {"spokes": 24, "rim_width": 2.0}],
    "gears": 7,
    "tags": ["red"],
    "notes": {"a": True, "b": 1, "c": 0.5, "d": "text", "e": None},
    "parts": {"spare": {"spokes": 3}},
    "sidecar": {"spokes": 4},
    "is_fast": True,
}


def test_every_kind_of_field_is_read() -> None:
    assert decode(Bicycle, GOOD) == Bicycle(
        name="one",
        wheels=(Wheel(spokes=20), Wheel(spokes=24, rim_width=2.0)),
        gears=7,
        tags=("red",),
        notes={"a": True, "b": 1, "c": 0.5, "d": "text", "e": None},
        parts={"spare": Wheel(spokes=3)},
        sidecar=Wheel(spokes=4),
        is_fast=True,
    )


def test_fields_with_a_default_may_be_left_out() -> None:
    assert decode(Bicycle, {"name": "one", "wheels": []}) == Bicycle(name="one", wheels=())


def test_a_key_may_be_written_with_dashes() -> None:
    assert decode(Wheel, {"spokes": 20, "rim-width": 2.0}) == Wheel(spokes=20, rim_width=2.0)


def test_a_type_that_is_no_dataclass_is_read_too() -> None:
    assert decode(tuple[int, ...], [1, 2]) == (1, 2)


def test_a_union_may_have_an_array_and_a_dataclass() -> None:
    kind: Any = Mapping[str, int | tuple[int, ...] | Wheel]
    assert decode(kind, {"a": 1, "b": [1, 2], "c": {"spokes": 3}}) == {"a": 1, "b": (1, 2), "c": Wheel(spokes=3)}
    for value, problem in (
        ("x", "c: must be an integer or an array or a table, not 'x'"),
        (["x"], "c[0]: must be an integer, not 'x'"),
        ({"spoke": 3}, "c.spoke: is an unknown key; did you mean `spokes`?"),
    ):
        with pytest.raises(DecodeError) as caught:
            decode(kind, {"c": value})
        assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("change", "where", "problem"),
    [
        pytest.param({"name": 1}, "name", "must be a string, not 1", id="number for a string"),
        pytest.param({"gears": "7"}, "gears", "must be an integer or null, not '7'", id="string for a number"),
        pytest.param({"gears": True}, "gears", "must be an integer or null, not True", id="true for an integer"),
        pytest.param({"gears": 7.0}, "gears", "must be an integer or null, not 7.0", id="float for an integer"),
        pytest.param({"is_fast": 1}, "is_fast", "must be true or false, not 1", id="one for true"),
        pytest.param({"is_fast": None}, "is_fast", "must be true or false, not None", id="null for false"),
        pytest.param({"tags": "red"}, "tags", "must be an array, not 'red'", id="string for an array"),
        pytest.param({"tags": ["red", 1]}, "tags[1]", "must be a string, not 1", id="number in an array"),
        pytest.param({"notes": []}, "notes", "must be a table, not []", id="array for a table"),
        pytest.param({"notes": {"a": []}}, "notes.a", "not []", id="array in a table"),
        pytest.param({"wheels": [5]}, "wheels[0]", "must be a table, not 5", id="number for a record"),
        pytest.param({"wheels": [{}]}, "wheels[0].spokes", "is missing", id="missing key"),
        pytest.param(
            {"wheels": [{"spokes": 1}, {"spokes": 1, "rim_width": "wide"}]},
            "wheels[1].rim_width",
            "must be a number, not 'wide'",
            id="string deep inside",
        ),
        pytest.param(
            {"wheels": [{"spokes": 1, "rim-width": "wide"}]},
            "wheels[0].rim-width",
            "'wide'",
            id="as the key is written",
        ),
        pytest.param({"parts": {"spare": {"spokes": ""}}}, "parts.spare.spokes", "integer", id="in a table of records"),
        pytest.param({"wheels": [{"spokes": 0}]}, "wheels[0].spokes", "must be positive, not 0", id="a record's check"),
        pytest.param({"wheels": [{"spokes": 13}]}, "wheels[0]", "brings bad luck", id="a check of the whole record"),
        pytest.param({"gaers": 7}, "gaers", "did you mean `gears`?", id="misspelt key"),
        pytest.param({"price": 7}, "price", "known are `name`, `wheels`, `gears`", id="unknown key"),
        pytest.param(
            {"wheels": [{"spokes": 1, "rim_width": 1.0, "rim-width": 1.0}]},
            "wheels[0].rim_width",
            "unknown key",
            id="a key in both spellings",
        ),
    ],
)
def test_error_says_where_and_what(change: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Bicycle, {**GOOD, **change})
    assert caught.value.where == where
    assert problem in caught.value.problem
    assert str(caught.value) == f"{where}: {caught.value.problem}"


@pytest.mark.parametrize("value", [None, [], "text", 5], ids=repr)
def test_the_whole_must_be_a_table(value: object) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Bicycle, value)
    assert str(caught.value) == f"must be a table, not {value!r}"


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Bicycle, {**GOOD, "name": list(range(1000))})
    assert caught.value.problem == "must be a string, not [0, 1, 2, 3, 4, 5, ...]"


def test_a_value_that_is_nested_without_end_is_shown_by_its_outside() -> None:
    """Python would raise RecursionError."""
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(DecodeError, match=r"must be a string, not \[\[\[\[\[\[\[\.\.\.\]"):
        decode(Bicycle, {**GOOD, "name": value})
    while value:  # or freeing it would recurse as deep
        (value,) = value  # type: ignore[assignment]
