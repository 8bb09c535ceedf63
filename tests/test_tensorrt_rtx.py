"""Real TensorRT-RTX loads the libraries, asks the plugins and builds engines on the CPU."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.tensorrt import RTX, Message, Result, run_tensorrt

TYPES = {"FLOAT16": "HALF", "BFLOAT16": "BF16", "FLOAT": "FLOAT"}
"""ONNX's names and TensorRT's."""
FP16 = ("FLOAT16",) * 3
Shape = Sequence[int | str]


def add_rms_norm(library: Path, shapes: Mapping[str, Shape], types: Sequence[str] = FP16, **more: Any) -> Result:
    """Build an engine of one AddRmsNorm node; residual and weight fit x if they are left out."""
    x = shapes["x"]
    fitting = {"x": x, "residual": x, "weight": x[-1:], **shapes}
    build = {
        "plugin": "AddRmsNorm",
        "inputs": {name: (type_, shape) for (name, shape), type_ in zip(fitting.items(), types, strict=True)},
        "outputs": {"y": (types[0], x), "r": (types[0], x)},
        "attributes": {"epsilon": ("FLOAT", 1e-5)},
        **more,
    }
    return run_tensorrt(RTX, libraries=[library], build=build)


def matmul(
    library: Path, x: Shape, w: Shape, *, type_: str = "FLOAT16", bias: Sequence[float] = (0.5,) * 64, **more: Any
) -> Result:
    """Build an engine of one MatmulBiasGelu node."""
    build = {
        "plugin": "MatmulBiasGelu",
        "inputs": {"x": (type_, x), "w": (type_, w)},
        "outputs": {"y": (type_, [*x[:-1], w[-1]])},
        "attributes": {"bias": ("FLOATS", list(bias)), **more.pop("attributes", {})},
        **more,
    }
    return run_tensorrt(RTX, libraries=[library], build=build)


def with_fields(library: Path, **fields: tuple[str, Any]) -> Result:
    """Build an engine of one AllFields node whose ONNX attributes are these and a right `count`."""
    build = {
        "plugin": "AllFields",
        "inputs": {"x": ("FLOAT", [4])},
        "outputs": {"y": ("FLOAT", [4])},
        "attributes": {"count": ("INT", 3), **fields},
    }
    return run_tensorrt(RTX, libraries=[library], build=build)


def assert_built(result: Result, type_: str, shape: Sequence[int]) -> None:
    assert result.messages("INTERNAL_ERROR", "ERROR", "WARNING") == []
    assert result.outputs == {"y": (type_, list(shape)), "r": (type_, list(shape))}
    assert result.plan_bytes is not None
    assert result.plan_bytes > 0


def assert_refused(result: Result, message: str) -> None:
    assert result.plan_bytes is None
    assert message in result.messages("ERROR")


def test_the_library_registers_its_plugin_with_its_fields(example_library: Path) -> None:
    result = run_tensorrt(RTX, libraries=[example_library])
    assert result.loaded[RTX] == [True]
    assert result.messages("INTERNAL_ERROR", "ERROR", "WARNING") == []
    (creator,) = (creator for creator in result.creators[RTX] if creator["name"] == "AddRmsNorm")
    assert creator == {"name": "AddRmsNorm", "version": "1", "namespace": "", "fields": [["epsilon", "FLOAT32"]]}


@pytest.mark.parametrize("type_", TYPES)
def test_an_engine_with_static_shapes_is_built(example_library: Path, type_: str) -> None:
    result = add_rms_norm(example_library, {"x": [4, 4096]}, [type_] * 3)
    assert_built(result, TYPES[type_], [4, 4096])


@pytest.mark.parametrize("type_", TYPES)
def test_an_engine_with_dynamic_shapes_is_built(example_library: Path, type_: str) -> None:
    shapes = [[1, 1], [16, 4096], [512, 16384]]
    profile = {"x": shapes, "residual": shapes, "weight": [shape[1:] for shape in shapes]}
    result = add_rms_norm(example_library, {"x": ["rows", "columns"]}, [type_] * 3, profile=profile)
    assert_built(result, TYPES[type_], [-1, -1])


@pytest.mark.parametrize("shape", [[64], [2, 64], [2, 3, 64], [2, 3, 4, 64]], ids=lambda shape: f"rank-{len(shape)}")
def test_inputs_may_have_any_rank_from_1_to_4(example_library: Path, shape: list[int]) -> None:
    assert_built(add_rms_norm(example_library, {"x": shape}), "HALF", shape)


@pytest.mark.parametrize(
    ("types", "found"),
    [
        pytest.param(("INT32", "INT32", "INT32"), "(INT32, INT32, INT32)", id="integers"),
        pytest.param(("BOOL", "BOOL", "BOOL"), "(BOOL, BOOL, BOOL)", id="booleans"),
        pytest.param(("FLOAT16", "FLOAT16", "FLOAT"), "(HALF, HALF, FLOAT)", id="another-weight"),
        pytest.param(("FLOAT16", "BFLOAT16", "FLOAT16"), "(HALF, BF16, HALF)", id="another-residual"),
        pytest.param(("FLOAT", "FLOAT16", "FLOAT16"), "(FLOAT, HALF, HALF)", id="another-x"),
    ],
)
def test_wrong_data_types_are_refused(example_library: Path, types: tuple[str, str, str], found: str) -> None:
    permitted = "(HALF, HALF, HALF) or (BF16, BF16, BF16) or (FLOAT, FLOAT, FLOAT)"
    assert_refused(
        add_rms_norm(example_library, {"x": [4, 64]}, types),
        f"AddRmsNorm: getOutputDataTypes: the inputs have data types {found}; permitted are {permitted}",
    )


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        pytest.param(
            {"x": [], "weight": [1]},
            "x has shape (); it must have at least one axis",
            id="scalar",
        ),
        pytest.param(
            {"x": [4, 64], "residual": [4, 32]},
            "residual has shape (4, 32); it must have that of x, (4, 64)",
            id="residual-extent",
        ),
        pytest.param(
            {"x": [4, 64], "residual": [64]},
            "residual has shape (64); it must have that of x, (4, 64)",
            id="residual-rank",
        ),
        pytest.param(
            {"x": [4, 64], "weight": [32]},
            "weight has shape (32); it must be (64), the last axis of x",
            id="weight-extent",
        ),
        pytest.param(
            {"x": [4, 64], "weight": [1, 64]},
            "weight has shape (1, 64); it must be (64), the last axis of x",
            id="weight-rank",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(example_library: Path, shapes: dict[str, Shape], message: str) -> None:
    assert_refused(add_rms_norm(example_library, shapes), f"AddRmsNorm: configurePlugin: {message}")


def test_a_profile_whose_greatest_shapes_do_not_fit_is_refused(example_library: Path) -> None:
    columns = [[2, 64], [2, 64], [2, 128]]
    shapes: dict[str, Shape] = {"x": [2, "columns"], "weight": [64]}
    result = add_rms_norm(example_library, shapes, profile={"x": columns, "residual": columns})
    assert_refused(result, "AddRmsNorm: configurePlugin: weight has shape (64); it must be (128), the last axis of x")


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        pytest.param(("FLOAT", -1.0), "epsilon is -1; it must be in [0, 3.4028235e+38]", id="out-of-range"),
        pytest.param(("FLOAT", float("nan")), "epsilon is NaN; it must be in [0, 3.4028235e+38]", id="nan"),
        pytest.param(("INT", 1), "epsilon is INT32; it is declared as FLOAT32", id="integer"),
        pytest.param(("STRING", "small"), "epsilon is CHAR; it is declared as FLOAT32", id="text"),
        pytest.param(
            ("FLOATS", [0.5, 0.25]), "epsilon has 2 elements; a single FLOAT32 is declared", id="more-than-one"
        ),
    ],
)
def test_a_wrong_attribute_is_refused(example_library: Path, epsilon: tuple[str, Any], message: str) -> None:
    result = add_rms_norm(example_library, {"x": [4, 64]}, attributes={"epsilon": epsilon})
    assert_refused(result, f"AddRmsNorm: createPlugin: field {message}")


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        pytest.param("int8", ("INT", -128), "-128", id="int8"),
        pytest.param("int16", ("INT", 32767), "32767", id="int16"),
        pytest.param("int32", ("INT", 2), "2", id="int32"),
        pytest.param("int64", ("INT", -(2**31)), "-2147483648", id="int64"),
        pytest.param("half", ("FLOAT", 65504.0), "65504", id="half"),
        pytest.param("bf16", ("FLOAT", 1.5), "1.5", id="bf16"),
        pytest.param("float", ("FLOAT", 0.1), "0.1", id="float"),
        pytest.param("double", ("FLOAT", 0.1), "0.10000000149011612", id="double"),
        pytest.param("text", ("STRING", "relu"), '"relu"', id="text"),
        pytest.param("axes", ("INTS", [0, -2]), "0, -2", id="axes"),
        pytest.param("axes", ("INT", 1), "1", id="axes-of-one"),
        pytest.param("scales", ("FLOATS", [0.5, 1.0]), "0.5, 1", id="scales"),
    ],
)
def test_an_attribute_reaches_a_field_of_any_declared_width(
    all_fields: Path, field: str, value: tuple[str, Any], shown: str
) -> None:
    """The parser hands over integers as INT32 and numbers as FLOAT32, whatever the plugin declares."""
    result = with_fields(all_fields, **{field: value})
    assert result.messages("INTERNAL_ERROR", "ERROR") == []
    assert result.plan_bytes
    (given,) = {text.removeprefix("given: ") for text in result.messages("INFO") if text.startswith("given: ")}
    assert f", {field} = {shown}," in f"{given},"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        pytest.param("int8", ("INT", 128), "int8 is 128 as INT32, which the declared type cannot hold", id="int8"),
        pytest.param("int16", ("INT", -32769), "int16 is -32769 as INT32, which the declared", id="int16"),
        pytest.param("half", ("FLOAT", 0.1), "half is 0.1 as FLOAT32, which the declared type cannot", id="half"),
        pytest.param("bf16", ("FLOAT", 0.1), "bf16 is 0.1 as FLOAT32, which the declared type cannot", id="bf16"),
        pytest.param("int32", ("INT", 3), "int32 is 3; it must be one of 0, 1, 2", id="choice"),
        pytest.param("text", ("STRING", "tanh"), 'text is "tanh"; it must be one of ', id="text"),
        pytest.param("axes", ("INTS", [0, 1, 2, 3]), "axes is 0, 1, 2, 3; it must have 0 to 3 elements", id="length"),
        pytest.param("scales", ("FLOATS", [0.5, 2.0]), "scales is 0.5, 2; it must be in [0, 1]", id="elements"),
        pytest.param("count", ("INT", 101), "count is 101; it must be in [1, 100]", id="range"),
    ],
)
def test_an_attribute_that_a_field_cannot_hold_is_refused(
    all_fields: Path, field: str, value: tuple[str, Any], message: str
) -> None:
    result = with_fields(all_fields, **{field: value})
    assert not result.parsed
    start = f"AllFields: createPlugin: field {message}"
    assert [text for text in result.messages("ERROR") if text.startswith(start)]


def test_a_missing_attribute_without_default_is_refused(all_fields: Path) -> None:
    tensor = ("FLOAT", [4])
    build = {"plugin": "AllFields", "inputs": {"x": tensor}, "outputs": {"y": tensor}}
    result = run_tensorrt(RTX, libraries=[all_fields], build=build)
    assert_refused(result, "AllFields: createPlugin: field count (INT32) is missing; it has no default")


def test_a_wrong_number_of_inputs_is_refused(all_fields: Path) -> None:
    tensor = ("FLOAT", [4])
    attributes = {"count": ("INT", 1)}
    inputs = {"x": tensor, "z": tensor}
    build = {"plugin": "AllFields", "inputs": inputs, "outputs": {"y": tensor}, "attributes": attributes}
    result = run_tensorrt(RTX, libraries=[all_fields], build=build)
    assert result.plan_bytes is None
    assert [text for text in result.messages("ERROR") if "is used with 2 inputs and 1 outputs; it has 1 and 1" in text]


COUNT = ("count", "int32", [3], "INT32")
HANDED_OVER: dict[str, tuple[list[tuple[str, str, list[Any], str]], str]] = {
    "int8 for int32": ([("count", "int8", [3], "INT8")], ""),
    "int64 for int32": ([("count", "int64", [3], "INT64")], ""),
    "int64 for int8": ([COUNT, ("int8", "int64", [-128], "INT64")], ""),
    "int64 for int64": ([COUNT, ("int64", "int64", [2**62 + 1], "INT64")], ""),
    "fp16 for fp32": ([COUNT, ("float", "float16", [0.1], "FLOAT16")], ""),
    "fp64 for fp32": ([COUNT, ("float", "float64", [0.5], "FLOAT64")], ""),
    "fp64 for fp64": ([COUNT, ("double", "float64", [0.1], "FLOAT64")], ""),
    "fp32 for fp16": ([COUNT, ("half", "float32", [2048.0], "FLOAT32")], ""),
    "empty array": ([COUNT, ("axes", "int32", [], "INT32")], ""),
    "int64 too wide for int32": (
        [("count", "int64", [2**32 + 3], "INT64")],
        "field count is 4294967299 as INT64, which the declared type cannot hold exactly",
    ),
    "fp64 too exact for fp32": (
        [COUNT, ("float", "float64", [0.1], "FLOAT64")],
        (
            "field float is 0.1 as FLOAT64, which the declared type cannot hold exactly; "
            "hand it over as FLOAT32, rounded on purpose (Python: numpy.float32)"
        ),
    ),
    "fp32 too large for fp16": (
        [COUNT, ("half", "float32", [65536.0], "FLOAT32")],
        "field half is 65536 as FLOAT32, which the declared type cannot hold exactly",
    ),
    "number for integer": (
        [("count", "float32", [3.0], "FLOAT32")],
        "field count is FLOAT32; it is declared as INT32",
    ),
    "integer for array of numbers": (
        [COUNT, ("scales", "int32", [1], "INT32")],
        "field scales is INT32; it is declared as array of FLOAT32",
    ),
    "none for one": ([("count", "int32", [], "INT32")], "field count has 0 elements; a single INT32 is declared"),
    "missing": ([], "field count (INT32) is missing; it has no default"),
    "unknown": (
        [COUNT, ("cuont", "int32", [3], "INT32")],
        (
            "field cuont is unknown; the declared fields are "
            "count, int8, int16, int32, int64, half, bf16, float, double, text, axes, scales"
        ),
    ),
    "twice": ([COUNT, COUNT], "field count is given 2 times; give it once"),
}


@pytest.fixture(scope="module")
def handed_over(all_fields: Path) -> dict[str, tuple[bool, Sequence[Message]]]:
    """What came of each row of HANDED_OVER, all in one process."""
    create = [{"runtime": RTX, "plugin": "AllFields", "fields": fields} for fields, _ in HANDED_OVER.values()]
    return dict(zip(HANDED_OVER, run_tensorrt(RTX, libraries=[all_fields], create=create).created, strict=True))


@pytest.mark.parametrize("case", [case for case, (_, message) in HANDED_OVER.items() if not message])
def test_fields_of_other_widths_are_taken_if_nothing_is_lost(
    handed_over: dict[str, tuple[bool, Sequence[Message]]], case: str
) -> None:
    made, log = handed_over[case]
    assert (made, [message for message in log if message[1] == "ERROR"]) == (True, [])


@pytest.mark.parametrize("case", [case for case, (_, message) in HANDED_OVER.items() if message])
def test_fields_that_do_not_fit_are_refused_by_name(
    handed_over: dict[str, tuple[bool, Sequence[Message]]], case: str
) -> None:
    made, log = handed_over[case]
    assert not made
    errors = [message for message in log if message[1] == "ERROR"]
    assert errors == [(RTX, "ERROR", f"AllFields: createPlugin: {HANDED_OVER[case][1]}")]


def test_the_same_file_is_registered_once(example_library: Path) -> None:
    tensor = ("FLOAT16", [64])
    inputs, outputs = dict.fromkeys(("x", "residual", "weight"), tensor), dict.fromkeys(("y", "r"), tensor)
    build = {"plugin": "AddRmsNorm", "inputs": inputs, "outputs": outputs}
    result = run_tensorrt(RTX, libraries=[example_library, example_library], build=build)
    assert result.loaded[RTX] == [True, False]
    assert [text for text in result.messages("ERROR") if "plugin creator of AddRmsNorm exists already" in text]
    assert [creator["name"] for creator in result.creators[RTX]].count("AddRmsNorm") == 1
    assert result.plan_bytes


def test_another_file_with_the_same_plugin_is_refused_and_the_first_still_works(
    example_library: Path, tmp_path: Path
) -> None:
    other = shutil.copyfile(example_library, tmp_path / "libother.so")
    create = [{"runtime": RTX, "plugin": "AddRmsNorm", "fields": [("epsilon", "float32", [-1.0], "FLOAT32")]}]
    result = run_tensorrt(RTX, libraries=[example_library, other], create=create)
    assert result.loaded[RTX] == [True, False]
    ((made, log),) = result.created
    assert not made
    assert [text for _, _, text in log if text.startswith("AddRmsNorm: createPlugin: field epsilon is -1")]


def test_two_libraries_work_in_one_process(example_library: Path, all_fields: Path) -> None:
    result = run_tensorrt(RTX, libraries=[example_library, all_fields])
    assert result.loaded[RTX] == [True, True]
    assert {"AddRmsNorm", "AllFields"} <= {creator["name"] for creator in result.creators[RTX]}


@pytest.mark.parametrize("tf32", [0, 1])
@pytest.mark.parametrize("type_", ["FLOAT16", "FLOAT"])
def test_a_matrix_product_with_a_dynamic_number_of_rows_is_built(example_library: Path, type_: str, tf32: int) -> None:
    profile = {"x": [[1, 32], [128, 32], [4096, 32]]}
    attributes = {"tf32": ("INT", tf32)}
    result = matmul(example_library, ["rows", 32], [32, 64], type_=type_, attributes=attributes, profile=profile)
    assert result.messages("INTERNAL_ERROR", "ERROR", "WARNING") == []
    assert result.outputs == {"y": (TYPES[type_], [-1, 64])}
    assert result.plan_bytes


def test_a_matrix_product_takes_leading_axes(example_library: Path) -> None:
    result = matmul(example_library, [2, 3, 5, 32], [32, 64])
    assert result.outputs == {"y": ("HALF", [2, 3, 5, 64])}
    assert result.plan_bytes


@pytest.mark.parametrize(
    ("x", "w", "more", "message"),
    [
        pytest.param(
            [4, 32],
            [16, 64],
            {},
            "configurePlugin: x has shape (4, 32) and w (16, 64); the last axis of x must be the first of w",
            id="inner-axes",
        ),
        pytest.param(
            [4, 32],
            [32, 48],
            {},
            "configurePlugin: w has shape (32, 48) and bias 64 elements; it must have one for each column of w",
            id="bias",
        ),
        pytest.param(
            [4, 32],
            [2, 32, 64],
            {},
            "getOutputShapes: x has 2 axes and w has 3; x must have at least one, w two",
            id="rank-of-w",
        ),
        pytest.param(
            [4, 32],
            [32, 64],
            {"type_": "BFLOAT16"},
            "getOutputDataTypes: the inputs have data types (BF16, BF16); permitted are (HALF, HALF) or (FLOAT, FLOAT)",
            id="bf16",
        ),
        pytest.param(
            [4, 32],
            [32, 64],
            {"attributes": {"tf32": ("INT", 2)}},
            "createPlugin: field tf32 is 2; it must be one of 0, 1",
            id="tf32",
        ),
    ],
)
def test_a_matrix_product_that_does_not_fit_is_refused(
    example_library: Path, x: Shape, w: Shape, more: Mapping[str, Any], message: str
) -> None:
    assert_refused(matmul(example_library, x, w, **more), f"MatmulBiasGelu: {message}")
