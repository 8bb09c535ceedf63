"""Fields are typed, checked, and the same after serialisation."""

from __future__ import annotations

import locale
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np  # noqa: TID253 - fields of every type
import pytest
from testing.child import in_child

from hatch_tensoracle.testing import Field, PluginFailedError, PluginHarness
from launcher.launching import X

NAMES = (
    *("required", "doubles", "text", "i8", "i16", "i32", "i64", "half", "bf16", "float", "double", "dims"),
    *("i8s", "i16s", "i32s", "i64s", "halves", "bf16s", "floats", "shapes"),
)
TYPES = (
    *("INT32", "FLOAT64", "CHAR", "INT8", "INT16", "INT32", "INT64", "FLOAT16", "BF16", "FLOAT32", "FLOAT64", "DIMS"),
    *("INT8", "INT16", "INT32", "INT64", "FLOAT16", "BF16", "FLOAT32", "DIMS"),
)
DEFAULTS: dict[str, Any] = {
    "doubles": (0.5, -0.0),
    "text": "default",
    "i8": -8,
    "i16": -16,
    "i32": -32,
    "i64": -64,
    "half": 0.5,
    "bf16": -2.0,
    "float": struct.unpack("<f", struct.pack("<f", 1e-6))[0],
    "double": 0.1,
    "dims": (3, -1),
    "i8s": (),
    "i16s": 1,
    "i32s": (1, 2),
    "i64s": (1, 2, 3),
    "halves": 1.0,
    "bf16s": 1.0,
    "floats": (),
    "shapes": (),
}
VALUES: dict[str, Any] = {
    "required": -5,
    "doubles": (1e300, -1e-320, 3.0),
    "text": "other",
    "i8": 127,
    "i16": -(2**15),
    "i32": 2**31 - 1,
    "i64": -(2**63),
    "half": 65504.0,
    "bf16": -0.0,
    "float": 1.0,
    "double": 5e-324,
    "dims": (1, 2, 3, 4, 5, 6, 7, 8),
    "i8s": (1, -128),
    "i16s": (2**15 - 1,) * 3,
    "i32s": (-9, 9, 0, 4),
    "i64s": (2**63 - 1, 0),
    "halves": (0.25, -1.5),
    "bf16s": (2.0, 4.0),
    "floats": (0.5, -0.25, 8.0),
    "shapes": ((1, 2), (), (3,)),
}


def floating(name: str, type_: str, *bits: str) -> Field:
    data = bytes.fromhex("".join(bits))
    return Field(name=name, type=type_, data=data, length=len(bits))


def serialized(harness: PluginHarness, fields: Any) -> dict[str, Any]:
    return {field.name: field.value() for field in harness.create("EveryField", fields).build([X]).fields}


@in_child
def test_creators_list_every_field_with_its_type_in_the_order_of_declaration(library: Path) -> None:
    fields = PluginHarness(library).creator("EveryField").fields
    assert tuple(field.name for field in fields) == NAMES
    assert tuple(field.type for field in fields) == TYPES
    assert [field.length for field in fields] == [1, 0, 1, *[1] * 9, *[0] * 8]


@in_child
def test_defaults_are_serialised_in_the_order_of_declaration(library: Path) -> None:
    built = PluginHarness(library).create("EveryField", {"required": 7}).build([X])
    assert tuple(field.name for field in built.fields) == NAMES
    assert tuple(field.type for field in built.fields) == TYPES
    assert {field.name: field.value() for field in built.fields} == {"required": 7, **DEFAULTS}


@in_child
def test_values_come_back_whatever_the_order_they_were_given_in(library: Path) -> None:
    harness = PluginHarness(library)
    for names in (NAMES, NAMES[::-1], NAMES[7:] + NAMES[:7]):
        given = {name: VALUES[name] for name in names}
        assert serialized(harness, given) == VALUES
    records = harness.create("EveryField", VALUES).build([X]).fields
    assert harness.create("EveryField", records).build([X]).fields == records
    told = [message.text for message in harness.messages if message.text.startswith("given: ")]
    assert len(set(told)) == 1
    assert "i8 = 127, i16 = -32768" in told[0]
    assert (
        "bf16 = -0, float = 1, double = 4.94065645841247e-324, dims = (1, 2, 3, 4, 5, 6, 7, 8), i8s = 1, -128"
        in told[0]
    )
    assert "shapes = (1, 2), (), (3)" in told[0]


@in_child
def test_numbers_of_every_type_come_back_to_the_bit(library: Path) -> None:
    harness = PluginHarness(library)
    fields = [
        Field(name="required", type="INT32", data=bytes(4), length=1),
        floating("halves", "FLOAT16", "0080", "0100", "007c", "557d", "01fc"),
        floating("bf16s", "BF16", "0080", "0100", "80ff", "a57f", "81ff"),
        floating("floats", "FLOAT32", "00000080", "01000000", "4523a17f", "010080ff", "ffff7f7f"),
        floating("doubles", "FLOAT64", "0000000000000080", "010000000000f07f", "bc9a78563412f47f"),
    ]
    built = harness.create("EveryField", fields).build([X])
    found = {field.name: (field.type, field.data) for field in built.fields}
    for field in fields:
        assert found[field.name] == (field.type, field.data)


@in_child
def test_other_widths_are_converted_where_nothing_is_lost(library: Path) -> None:
    harness = PluginHarness(library)
    integers: list[Any] = [np.int8, np.int16, np.int32, np.int64]
    floats: list[Any] = [np.float16, np.float32, np.float64]
    for name in ("i8", "i16", "i32", "i64", "required"):
        for dtype in integers:
            value = 100 if name == "required" else -100
            assert serialized(harness, {"required": 1, name: dtype(value)})[name] == value
    for name in ("half", "bf16", "float", "double"):
        for dtype in floats:
            assert serialized(harness, {"required": 1, name: dtype(0.375)})[name] == 0.375
        (value,) = struct.unpack("<f", bytes.fromhex("0000c03e"))
        given = floating(name, "BF16", "c03e")
        required = Field(name="required", type="INT8", data=b"\1", length=1)
        assert serialized(harness, [required, given])[name] == value
    assert serialized(harness, {"required": 1, "i8s": np.array([1, -1], np.int64)})["i8s"] == (1, -1)
    assert serialized(harness, {"required": 1, "doubles": np.array([0.1], np.float32)})["doubles"] == np.float32(0.1)
    nan = serialized(harness, {"required": 1, "double": np.float16("nan"), "half": np.float64("inf")})
    assert np.isnan(nan["double"])
    assert nan["half"] == np.inf


@in_child
def test_text_is_read_with_its_nul_and_without(library: Path) -> None:
    harness = PluginHarness(library)
    required = Field(name="required", type="INT32", data=bytes(4), length=1)
    for data in (b"other", b"other\0"):
        given = [required, Field(name="text", type="CHAR", data=data, length=len(data))]
        assert serialized(harness, given)["text"] == "other"
    empty: list[bytes | None] = [None, b"", b"\0"]
    for each in empty:
        given = [required, Field(name="text", type="CHAR", data=each, length=len(each or b""))]
        built = harness.create("EveryField", given).build([X])
        (text,) = (field for field in built.fields if field.name == "text")
        assert (text.data, text.length) == (b"\0", 1)


LIST = ", ".join(NAMES)
REFUSED: list[tuple[str, Any, str]] = [
    ("missing", {}, "field required (INT32) is missing; it has no default"),
    ("unknown", {"required": 1, "axis": 0}, f"field axis is unknown; the declared fields are {LIST}"),
    ("no name", [floating("", "FLOAT32", "00000000")], f"field  is unknown; the declared fields are {LIST}"),
    ("twice", [floating("float", "FLOAT32", "00000000")] * 2, "field float is given 2 times; give it once"),
    ("below", {"required": -6}, "field required is -6; it must be in [-5, 100]"),
    ("above", {"required": 101}, "field required is 101; it must be in [-5, 100]"),
    ("NaN", {"required": 1, "float": float("nan")}, "field float is NaN; it must be in [0, 1]"),
    ("element", {"required": 1, "i32s": [1, 10]}, "field i32s is 1, 10; it must be in [-9, 9]"),
    ("length", {"required": 1, "i32s": [1] * 5}, "field i32s is 1, 1, 1, 1, 1; it must have 0 to 4 elements"),
    ("choice", {"required": 1, "text": "none"}, 'field text is "none"; it must be one of "default", "", "other"'),
    ("two", {"required": [1, 2]}, "field required has 2 elements; a single INT32 is declared"),
    ("none", {"required": np.zeros(0, np.int32)}, "field required has 0 elements; a single INT32 is declared"),
    (
        "i8 range",
        {"required": 1, "i8": np.int32(128)},
        "field i8 is 128 as INT32, which the declared type cannot hold exactly",
    ),
    (
        "i32 range",
        {"required": np.int64(2**31)},
        "field required is 2147483648 as INT64, which the declared type cannot hold exactly",
    ),
    (
        "i16s",
        {"required": 1, "i16s": np.array([0, -32769])},
        "field i16s is -32769 as INT64, which the declared type cannot hold exactly",
    ),
    (
        "float",
        {"required": 1, "float": np.float64(0.1)},
        (
            "field float is 0.1 as FLOAT64, which the declared type cannot hold exactly; "
            "hand it over as FLOAT32, rounded on purpose (Python: numpy.float32)"
        ),
    ),
    (
        "half",
        {"required": 1, "half": np.float32(65520)},
        "field half is 65520 as FLOAT32, which the declared type cannot hold exactly",
    ),
    (
        "bf16",
        {"required": 1, "bf16": np.float16(1.0009766)},
        "field bf16 is 1.0009766 as FLOAT16, which the declared type cannot hold exactly",
    ),
    ("kind", {"required": np.float32(1)}, "field required is FLOAT32; it is declared as INT32"),
    (
        "kind of array",
        {"required": 1, "floats": np.array([1])},
        "field floats is INT64; it is declared as array of FLOAT32",
    ),
    ("text kind", {"required": 1, "text": np.int8(1)}, "field text is INT8; it is declared as CHAR"),
    ("text for number", {"required": 1, "double": "0.5"}, "field double is CHAR; it is declared as FLOAT64"),
    ("dims kind", {"required": 1, "dims": np.int64(1)}, "field dims is INT64; it is declared as DIMS"),
    ("negative", [Field(name="i8", type="INT8", data=b"\1", length=-1)], "field i8 has length -1 and data"),
    ("no data", [Field(name="i8s", type="INT8", data=None, length=2)], "field i8s has length 2 and no data"),
    ("FP8", [Field(name="i8", type="FP8", data=b"\1", length=1)], "field i8 is FP8; it is declared as INT8"),
    (
        "UNKNOWN",
        [Field(name="i8", type="UNKNOWN", data=b"\1", length=1)],
        "field i8 is UNKNOWN; it is declared as INT8",
    ),
]


@in_child
def test_fields_that_do_not_fit_are_refused_by_name(library: Path) -> None:
    harness = PluginHarness(library)
    for _, given, message in REFUSED:
        if isinstance(given, list):
            given = [Field(name="required", type="INT32", data=bytes(4), length=1), *given]  # noqa: PLW2901
        with pytest.raises(PluginFailedError) as caught:
            harness.create("EveryField", given)
        assert caught.value.messages == (f"EveryField: createPlugin: {message}",)


@in_child
def test_plugin_without_fields_says_so(library: Path) -> None:
    with pytest.raises(PluginFailedError, match="field scale is unknown; the declared fields are none"):
        PluginHarness(library).create("Tuned", {"scale": 1})


@in_child
def test_missing_collection_is_an_empty_one(library: Path) -> None:
    harness = PluginHarness(library)
    native = harness._harness  # noqa: SLF001
    address = native.call("CreatePlugin", harness.creator("Tuned").address, b"layer", None, 0)
    assert address
    native.call("Destroy", address)
    assert native.call("CreatePlugin", harness.creator("EveryField").address, b"layer", None, 0) is None
    assert harness.messages[-1].text == "EveryField: createPlugin: field required (INT32) is missing; it has no default"


@in_child
def test_reading_a_field_as_what_it_is_not_is_said(library: Path) -> None:
    harness = PluginHarness(library)
    for how, message in {
        "type": "field count is declared as INT32; get it as the corresponding C++ type",
        "array": "field scales is declared as array of FLOAT32; get it as the corresponding C++ type",
        "undeclared": "field epsilon is not declared in fields()",
    }.items():
        with pytest.raises(PluginFailedError) as caught:
            harness.create("Misread", {"how": how})
        assert caught.value.messages == (f"Misread: createPlugin: {message}",)


@pytest.fixture
def german_locale(tmp_path: Path) -> Path:
    """A directory with the locale de_DE.UTF-8."""
    try:
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8")], check=True)  # noqa: S607
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no such locale can be made here: {error}")
    return tmp_path


@in_child
def test_numbers_have_a_point_in_every_locale(library: Path, german_locale: Path) -> None:
    os.environ["LOCPATH"] = str(german_locale)
    locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
    assert locale.localeconv()["decimal_point"] == ","
    with pytest.raises(PluginFailedError, match=re.escape("field float is 1.5; it must be in [0, 1]")):
        PluginHarness(library).create("EveryField", {"required": 1, "float": 1.5})
