"""The harness asks a plugin what TensorRT asks, tells it what TensorRT tells it, and shows what it answers."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import numpy as np  # noqa: TID253 - what the harness copies
import pytest
from helpers.tools import run, tool

from hatch_tensoracle.testing import (
    BuiltPlugin,
    DevicePointer,
    FakeDriver,
    Field,
    FormatError,
    Plugin,
    PluginContractError,
    PluginFailedError,
    PluginHarness,
    PluginTestError,
    RunningPlugin,
    Tensor,
)
from hatch_tensoracle.testing.records import Call, Free
from testing.child import in_child

INPUTS = (Tensor("fp32", (-1, 2), min=(2, 2), opt=(7, 2), max=(40, 2)), Tensor("fp32", (3,)))

DYNAMIC = (Tensor("fp32", (-1, -1), min=(3, 3), opt=(7, 3), max=(40, 9)), Tensor("fp32", (3,)))


def probe(harness: PluginHarness, **fields: Any) -> Plugin:
    return harness.create("Probe", fields, namespace="tests")


def build(harness: PluginHarness, **fields: Any) -> BuiltPlugin:
    return probe(harness, **fields).build(INPUTS)


def log(harness: PluginHarness, beginning: str) -> list[str]:
    return [message.text for message in harness.messages if message.text.startswith(beginning)]


# Libraries and creators.


def test_creators_are_listed_with_their_fields(probe_library: Path) -> None:
    (creator,) = PluginHarness(probe_library).creators
    assert (creator.name, creator.version, creator.namespace) == ("Probe", "2", "tests")
    assert [field.name for field in creator.fields[:3]] == ["fail", "mislead", "half"]
    assert [field.type for field in creator.fields[:3]] == ["CHAR", "CHAR", "FLOAT16"]


@in_child
def test_workspace_is_freed_and_a_dead_context_left_alone(probe_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(probe_library) as harness:
        context = driver.create_context()
        first, second = (build(harness).run_time() for _ in range(2))
        first.close()
        assert [free.size for free in driver.records(Free)].count(45_000) == 1
        context.destroy()
        driver.create_context()
        driver.clear()
        second.close()
        assert [call.name for call in driver.records(Call)] == ["cuPointerGetAttribute"]


def test_search_for_formats_ends(probe_library: Path) -> None:
    with pytest.raises(PluginContractError, match="supports more than 1000 combinations of data types and formats"):
        probe(PluginHarness(probe_library), mislead="supportsFormatCombination").format_combinations(INPUTS)


def test_unknown_creator_is_answered_with_those_there_are(probe_library: Path) -> None:
    harness = PluginHarness(probe_library)
    known = "it has 'Probe' of version 2 and namespace 'tests'"
    with pytest.raises(LookupError, match=f"has no creator 'Probe' of version any and namespace ''; {known}"):
        harness.create("Probe")
    with pytest.raises(LookupError, match=f"has no creator 'Probe' of version 1 and namespace 'tests'; {known}"):
        harness.create("Probe", version="1", namespace="tests")


def test_library_that_tensorrt_would_refuse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.cpp").write_text('extern "C" int getCreators() { return 0; }')
    run(tool("g++"), "-shared", "-fPIC", "-o", tmp_path / "libx.so", tmp_path / "x.cpp")
    with pytest.raises(PluginContractError, match="does not export setLoggerFinder"):
        PluginHarness(tmp_path / "libx.so")


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "cannot open shared object file: No such file or directory"),
        ("no library", "file too short"),
        ("no library" * 1000, "invalid ELF header"),
    ],
    ids=["missing", "short", "text"],
)
def test_library_that_is_none_is_called_by_its_path_or_label(tmp_path: Path, content: str | None, cause: str) -> None:
    library = tmp_path / "libx.so"
    if content is not None:
        library.write_text(content)
    for label, called in (("", str(library)), ("a.whl: p/libx.so", "a.whl: p/libx.so")):
        with pytest.raises(PluginTestError) as caught:
            PluginHarness(library, label=label)
        assert str(caught.value) == f"{called} cannot be loaded: {cause}"
        assert caught.value.remedy == "Name a plugin library that was built for this machine."


@pytest.mark.parametrize("release", [100300, 101501, 10400, 10500, 110000, 110400])
@in_child
def test_messages_arrive_from_a_library_of_every_release(example_library: Path, release: int) -> None:
    harness = PluginHarness(example_library, release=release)
    with pytest.raises(PluginFailedError, match="field nonsense is unknown"):
        harness.create("AddRmsNorm", {"nonsense": 1})
    (message,) = harness.messages
    assert message.severity == "ERROR"


def test_every_copy_of_a_plugin_is_destroyed(probe_library: Path) -> None:
    with PluginHarness(probe_library) as harness:
        build(harness)
        assert log(harness, "made") + log(harness, "copied") != log(harness, "destroyed")
    assert len(log(harness, "made") + log(harness, "copied")) == len(log(harness, "destroyed")) > 1


# Fields.


@pytest.mark.parametrize(
    ("name", "given", "type_", "data"),
    [
        pytest.param("single", 0.1, "FLOAT32", np.float32(0.1).tobytes(), id="float as declared"),
        pytest.param("half", 1, "FLOAT16", np.float16(1).tobytes(), id="int as a declared float"),
        pytest.param("double", 0.1, "FLOAT64", np.float64(0.1).tobytes(), id="double"),
        pytest.param("bfloat", 1.00390625, "BF16", b"\x80\x3f", id="bf16 rounds to even"),
        pytest.param("bfloat", 1.01171875, "BF16", b"\x82\x3f", id="bf16 rounds up to even"),
        pytest.param("bfloat", math.inf, "BF16", b"\x80\x7f", id="bf16 infinity"),
        pytest.param("byte", -3, "INT8", b"\xfd", id="int8"),
        pytest.param("short", [1, 2], "INT16", b"\x01\0\x02\0", id="list"),
        pytest.param("int", True, "INT32", b"\x01\0\0\0", id="bool as a declared int"),
        pytest.param("long", -1, "INT64", b"\xff" * 8, id="int64"),
        pytest.param("single", np.float64(0.1), "FLOAT64", np.float64(0.1).tobytes(), id="NumPy keeps its type"),
        pytest.param("int", np.array([1, 2], np.int8), "INT8", b"\x01\x02", id="NumPy array"),
        pytest.param("mislead", "a", "CHAR", b"a\0", id="text has its NUL"),
        pytest.param("other", 1, "INT64", b"\x01" + bytes(7), id="undeclared int"),
        pytest.param("other", 0.5, "FLOAT64", np.float64(0.5).tobytes(), id="undeclared float"),
        pytest.param("single", [], "FLOAT32", b"", id="empty"),
    ],
)
def test_field_arrives_and_comes_back(probe_library: Path, name: str, given: Any, type_: str, data: bytes) -> None:
    (field,) = build(PluginHarness(probe_library), **{name: given}).fields
    assert (field.name, field.type, field.data) == (name, type_, data)


def test_shapes_are_fields_too(probe_library: Path) -> None:
    harness = PluginHarness(probe_library)
    assert build(harness, shape=(2, -1)).fields[0].value() == (2, -1)
    assert build(harness, shape=[(2, -1), (5,)]).fields[0].value() == ((2, -1), (5,))


def test_fields_have_values() -> None:
    assert Field(name="x", type="BF16", data=b"\x80\x3f\x00\xc0", length=2).value() == (1.0, -2.0)
    assert Field(name="x", type="INT32", data=b"\x05\0\0\0", length=1).value() == 5
    assert Field(name="x", type="CHAR", data=b"text\0", length=5).value() == "text"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(("byte", 128), ("half", 1e9), ("int", 0.5), ("int", "text")),
        *(("shape", (1,) * 9), ("shape", (1.5,)), ("shape", [(1,), 2])),
    ],
)
def test_value_that_the_declared_type_cannot_hold_is_refused(probe_library: Path, name: str, given: Any) -> None:
    harness = PluginHarness(probe_library)
    if isinstance(given, str):  # a plugin is to refuse the type, not the harness
        assert build(harness, **{name: given}).fields[0].type == "CHAR"
        return
    with pytest.raises(ValueError, match=f"field {name} is .* cannot be written as the declared"):
        probe(harness, **{name: given})


def test_field_records_are_handed_over_as_they_stand(probe_library: Path) -> None:
    harness = PluginHarness(probe_library)
    fields = [
        Field(name="int", type="UNKNOWN", data=None, length=3),
        Field(name="int", type="INT4", data=b"", length=0),
    ]
    assert harness.create("Probe", fields, namespace="tests").name == "Probe"
    with pytest.raises(ValueError, match="field int is of type 'FLOAT31'; TensorRT has FLOAT16, "):
        harness.create("Probe", [Field(name="int", type="FLOAT31", data=None, length=1)], namespace="tests")


# Failures.


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("createPlugin", None),
        ("getCapabilityInterface", None),
        ("clone", None),
        ("getOutputDataTypes", 7),
        ("getOutputShapes", 7),
        ("configurePlugin", 7),
        ("getValidTactics", 7),
        ("getFieldsToSerialize", None),
    ],
)
def test_failure_at_build_time_names_method_code_and_messages(
    probe_library: Path, method: str, code: int | None
) -> None:
    with pytest.raises(PluginFailedError) as caught:
        build(PluginHarness(probe_library), fail=method)
    assert (caught.value.plugin, caught.value.method, caught.value.code) == ("Probe", method, code)
    if method != "createPlugin":  # which logs what it is given
        assert caught.value.messages[-1] == f"{method} was told to fail"
    assert f"Probe: {method} returned {'null' if code is None else code}\n  " in str(caught.value)


@pytest.mark.parametrize("method", ["attachToContext", "setTactic", "onShapeChange", "enqueue"])
@in_child
def test_failure_at_run_time_names_method_and_messages(probe_library: Path, method: str) -> None:
    with FakeDriver([86]) as driver, PluginHarness(probe_library) as harness:
        driver.create_context()
        built = build(harness, fail=method)
        with pytest.raises(PluginFailedError) as caught:
            built.run_time().run([np.zeros((4, 2), np.float32), np.zeros(3, np.float32)])
        assert caught.value.method == method
        assert caught.value.messages[-1] == f"{method} was told to fail"


def test_errors_survive_pickling() -> None:
    error = PluginFailedError("Probe", "enqueue", 7, ("message",))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (again.plugin, again.method, again.code, again.messages) == ("Probe", "enqueue", 7, ("message",))
    assert str(PluginFailedError("Probe", "clone", None)) == "Probe: clone returned null\n  (it logged nothing)"


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("getOutputDataTypes", "getOutputDataTypes gave output 0 the type -1"),
        ("getOutputShapes", "getOutputShapes succeeded, but output 0 has no shape"),
        ("getValidTactics", r"getValidTactics gave \[11, 0\]"),
    ],
)
def test_answer_that_tensorrt_does_not_document_is_named(probe_library: Path, method: str, problem: str) -> None:
    with pytest.raises(PluginContractError, match=problem):
        build(PluginHarness(probe_library), mislead=method)


# Build time.


def test_formats_are_negotiated_position_by_position(probe_library: Path) -> None:
    harness = PluginHarness(probe_library)
    linear, vector = ("fp32", "LINEAR"), ("fp32", "HWC8")
    assert probe(harness).format_combinations(INPUTS) == ((linear, linear, vector, vector, ("i64", "LINEAR")),)
    assert [tensor.format for tensor in build(harness).outputs] == ["HWC8", "HWC8", "LINEAR"]
    assert not log(harness, "a later position")


def test_unsupported_formats_are_answered_with_the_supported_ones(probe_library: Path) -> None:
    inputs = [Tensor("fp16", (2, 2)), Tensor("fp16", (3,))]
    with pytest.raises(FormatError) as caught:
        probe(PluginHarness(probe_library)).build(inputs)
    assert str(caught.value) == (
        "Probe: supports no output formats for inputs of fp16 LINEAR, fp16 LINEAR and outputs of fp16, fp16, i64; "
        "it supports fp32 LINEAR, fp32 LINEAR, fp32 HWC8, fp32 HWC8, i64 LINEAR"
    )


def test_output_shapes_are_expressions_over_dynamic_extents(probe_library: Path) -> None:
    shapes = probe(PluginHarness(probe_library)).build(DYNAMIC).shapes
    n, m = "inputs[0][0]", "inputs[0][1]"
    assert shapes.expressions == (
        (
            f"({n} * {m})",
            f"max({n}, {m})",
            f"min({n}, {m})",
            f"({n} - {m})",
            f"({n} == {m})",
            f"({n} < {m})",
            f"({n} // {m})",
            f"ceil_div({n}, {m})",
        ),
        ("outputs[2]",),
        (),
    )
    assert shapes.size_tensors == (2,)


@pytest.mark.parametrize(("n", "m"), [(7, 3), (6, 3), (3, 3), (40, 9)])
def test_expressions_have_the_values_of_arithmetic(probe_library: Path, n: int, m: int) -> None:
    shapes = probe(PluginHarness(probe_library)).build(DYNAMIC).shapes
    expected = (n * m, max(n, m), min(n, m), n - m, n == m, n < m, n // m, -(-n // m))
    assert shapes.evaluate([(n, m), (3,)]) == (expected, (n + 5,), ())
    assert shapes.evaluate([(n, m), (3,)], {2: 4})[1] == (4,)


def test_known_extents_are_folded(probe_library: Path) -> None:
    plugin = probe(PluginHarness(probe_library))
    shapes = plugin.output_shapes([Tensor("fp32", (7, 3)), Tensor("fp32", (3,))])
    assert shapes.expressions[0] == ("21", "7", "3", "4", "0", "0", "2", "3")
    assert shapes.constants[1] == (None,)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ((7, 0), r"axis 6 of output 0, for inputs of \(7, 0\), \(3,\): \(inputs\[0\]\[0\] // .*\) divides by zero"),
        ((2**62, 4), r"axis 0 of output 0.*exceeds 64 bits"),
        ((2, 5), r"axis 3 of output 0.*: is -3"),
        ((7,), r"needs inputs\[0\]\[1\]"),
    ],
)
def test_extent_without_a_value_is_named(probe_library: Path, shape: tuple[int, ...], problem: str) -> None:
    shapes = probe(PluginHarness(probe_library)).output_shapes(DYNAMIC)
    with pytest.raises(PluginContractError, match=problem):
        shapes.evaluate([shape, (3,)])


def test_plugin_is_configured_with_all_ranges(probe_library: Path) -> None:
    harness = PluginHarness(probe_library)
    build(harness)
    (line,) = log(harness, "configurePlugin")
    assert line.split()[1:] == [
        "0:0(-1x2)(2x2)(7x2)(40x2)",  # data type, format, shape, least, optimal, greatest
        "0:0(3)(3)(3)(3)",
        "->",
        "0:2(-1x-1x-1x-1x-1x-1x-1x-1)(4x2x2x0x1x0x1x1)(14x7x2x5x0x0x3x4)(80x40x2x38x0x0x20x20)",
        "0:2(-1)(7)(12)(45)",
        "8:0()()()()",
    ]


def test_engine_keeps_what_building_has_shown(probe_library: Path) -> None:
    built = build(PluginHarness(probe_library))
    assert built.tactics == (11, 4)
    assert (built.timing_cache_id, built.metadata) == ("an id", "metadata")
    assert built.aliases == (None, 0, None)
    assert built.workspace == 45_000


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param({"type": "float", "shape": ()}, "tensor type 'float' is none of fp32, fp16", id="type"),
        pytest.param({"type": "fp32", "shape": (), "format": "linear"}, "tensor format 'linear' is none", id="format"),
        pytest.param({"type": "fp32", "shape": (-1, 2)}, r"shape \(\?, 2\) has a dynamic extent", id="no bounds"),
        pytest.param({"type": "fp32", "shape": (1,) * 9}, "has 9 axes; TensorRT has at most 8", id="rank"),
        pytest.param({"type": "fp32", "shape": (2,), "max": (3,)}, r"max is \(3,\), which is no \(2\)", id="bound"),
    ],
)
def test_impossible_tensor_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Tensor(**arguments)


# Run time.


@in_child
def test_plugin_is_created_again_attached_and_told_of_each_change(probe_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(probe_library) as harness:
        driver.create_context()
        stream = driver.create_context().create_stream()
        running = build(harness, int=5).run_time(tactic=4)
        x, y = np.zeros((4, 2), np.float32), np.zeros(3, np.float32)
        running.run([x, y], stream)
        running.run([x, y], stream)
        running.run([np.zeros((6, 2), np.float32), y], stream)
        assert log(harness, "createPlugin") == ["createPlugin harness, phase 0", "createPlugin harness, phase 1"]
        assert log(harness, "attached") == ["attached, allocates memory"]
        assert log(harness, "setTactic") == ["setTactic 4"]
        assert [line.split(" ->")[0] for line in log(harness, "onShapeChange")] == [
            "onShapeChange 0:0(4x2) 0:0(3)",
            "onShapeChange 0:0(6x2) 0:0(3)",
        ]
        (last,) = log(harness, "enqueue 0x")[2:]
        assert last.endswith(f"workspace 1 stream {stream.handle:#x}")
        assert " -> (nil) " in last  # the output that has no elements for these inputs
        running.set_tactic(11)
        assert log(harness, "setTactic")[1:] == ["setTactic 11"]
        for tactic in (2**32 + 4, 2**31, -(2**31) - 1):
            with pytest.raises(ValueError, match=f"tactic {tactic} is no int32"):
                running.set_tactic(tactic)
        assert log(harness, "setTactic")[1:] == ["setTactic 11"]


@in_child
def test_size_tensors_cut_outputs_and_aliases_share_memory(probe_library: Path) -> None:
    with FakeDriver([86]) as driver, PluginHarness(probe_library) as harness:
        driver.create_context()
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        _, data, size = build(harness).run_time().run([x, np.zeros(3, np.float32)])
        assert size == 2
        np.testing.assert_array_equal(data, [0, 1])  # the beginning of the input that it shares memory with
        enqueued = log(harness, "enqueue 0x")[0].split()
        assert enqueued[1] == enqueued[5]


@in_child
def test_enqueue_calls_the_plugin_and_nothing_else(probe_library: Path) -> None:
    from hatch_tensoracle.testing.records import Call

    with FakeDriver([86]) as driver, PluginHarness(probe_library) as harness:
        driver.create_context()
        running = build(harness).run_time()
        memory = driver.allocate(1 << 12)
        inputs = [DevicePointer(memory, (4, 2), "fp32"), DevicePointer(memory, (3,), "fp32")]
        shapes = running.output_shapes([pointer.shape for pointer in inputs])
        outputs = [
            DevicePointer(memory, shape, kind) for shape, kind in zip(shapes, ("fp32", "fp32", "i64"), strict=True)
        ]
        driver.clear()
        running.enqueue(inputs, outputs, 0)
        assert driver.records(Call) == ()
        wrong = DevicePointer(memory, (4, 2), "fp16")
        with pytest.raises(TypeError, match="input 0 is of type fp16; the plugin was built for fp32"):
            running.enqueue([wrong, inputs[1]], outputs)
        with pytest.raises(
            ValueError, match=r"input 0 has shape \(400, 2\); the plugin was built for \(2, 2\) to \(40, 2\)"
        ):
            running.enqueue([DevicePointer(memory, (400, 2), "fp32"), inputs[1]], outputs)
        with pytest.raises(ValueError, match=r"output 1 has shape \(4, 2\); for these inputs it is \(9,\)"):
            running.enqueue(inputs, [outputs[0], inputs[0], outputs[2]])
        with pytest.raises(ValueError, match="1 inputs are given; the plugin has 2"):
            running.enqueue(inputs[:1], outputs)
        with pytest.raises(TypeError, match="input 0: a ndarray is not in device memory"):
            running.enqueue([np.zeros((4, 2)), inputs[1]], outputs)
        with pytest.raises(ValueError, match="the stream's handle is -1, must not be negative"):
            running.enqueue(inputs, outputs, -1)
        with pytest.raises(ValueError, match=r"input 0 has shape \(4,\); the plugin was built for \(2, 2\)"):
            running.run([np.zeros(4, np.float32), np.zeros(3, np.float32)])
        with pytest.raises(TypeError, match="output 2: a ndarray is not in device memory"):
            running.enqueue(inputs, [*outputs[:2], np.zeros(())])
        with pytest.raises(TypeError, match="input 1: an array of float64 is given; the plugin was built for fp32"):
            running.run([np.zeros((4, 2), np.float32), np.zeros(3)])


@in_child
def test_copies_are_complete_before_a_stream_that_waits_for_nothing_starts(probe_library: Path) -> None:
    from hatch_tensoracle.testing.records import Call

    with FakeDriver([86]) as driver, PluginHarness(probe_library) as harness:
        stream = driver.create_context().create_stream(blocking=False)
        running = build(harness).run_time()
        driver.clear()
        running.run([np.zeros((4, 2), np.float32), np.zeros(3, np.float32)], stream)
        names = [call.name for call in driver.records(Call)]
        assert names.index("cuStreamSynchronize") > names.index("cuMemcpyHtoD")
        assert names.count("cuStreamSynchronize") == 2
        with pytest.raises(ValueError, match="1 inputs are given; the plugin has 2"):
            running.run([np.zeros((4, 2), np.float32)], stream)


@pytest.mark.skipif(find_library("cuda") is not None, reason="this machine has a CUDA driver")
@in_child
def test_missing_driver_is_said_with_what_stands_in_for_it(probe_library: Path) -> None:
    built = build(PluginHarness(probe_library))
    with pytest.raises(PluginTestError, match=r"the CUDA driver cannot be loaded: libcuda\.so\.1: ") as caught:
        built.run_time()
    assert caught.value.remedy == "Create a FakeDriver first, or use a machine with a GPU."


@in_child
def test_missing_context_is_said(probe_library: Path) -> None:
    with FakeDriver([86]), PluginHarness(probe_library) as harness:
        built = build(harness)
        with pytest.raises(PluginTestError, match="Probe: no CUDA context is current on this thread"):
            built.run_time()


@in_child
def test_closing_outlives_the_context(probe_library: Path) -> None:
    with PluginHarness(probe_library) as harness, FakeDriver([86]) as driver:
        driver.create_context()
        running = build(harness).run_time()
        driver.create_context()
    running.close()


ARRAYS = [np.zeros((4, 2), np.float32), np.zeros(3, np.float32)]


def enqueue(running: RunningPlugin) -> None:
    shapes = [array.shape for array in ARRAYS]
    every = zip([*shapes, *running.output_shapes(shapes)], ("fp32", "fp32", "fp32", "fp32", "i64"), strict=True)
    tensors = [DevicePointer(256, shape, type_) for shape, type_ in every]
    running.enqueue(tensors[:2], tensors[2:], 0)


USES: dict[str, Callable[[Plugin, BuiltPlugin, RunningPlugin], object]] = {
    "build": lambda plugin, _, __: plugin.build(INPUTS),
    "output_count": lambda plugin, _, __: plugin.output_count,
    "output_types": lambda plugin, _, __: plugin.output_types(INPUTS),
    "output_shapes": lambda plugin, _, __: plugin.output_shapes(INPUTS),
    "format_combinations": lambda plugin, _, __: plugin.format_combinations(INPUTS),
    "run_time": lambda _, built, __: built.run_time(),
    "run": lambda _, __, running: running.run(ARRAYS),
    "enqueue": lambda _, __, running: enqueue(running),
    "set_tactic": lambda _, __, running: running.set_tactic(1),
}


@pytest.mark.parametrize("end", ["close", "harness"])
@pytest.mark.parametrize("use", USES)
@in_child
def test_destroyed_plugin_is_refused_by_name_whatever_is_asked_of_it(probe_library: Path, use: str, end: str) -> None:
    with FakeDriver([86]) as driver:
        driver.create_context()
        with PluginHarness(probe_library) as harness:
            plugin = probe(harness)
            built = plugin.build(INPUTS)
            running = built.run_time()
            running.run(ARRAYS)
            if end == "close":
                plugin.close()
                plugin.close()
        with pytest.raises(PluginTestError, match="Probe: this plugin has been destroyed: it was closed, or") as caught:
            USES[use](plugin, built, running)
        assert "before close()" in caught.value.remedy


def test_harness_that_has_ended_creates_no_plugin_that_nobody_destroys(probe_library: Path) -> None:
    with PluginHarness(probe_library) as harness:
        pass
    with pytest.raises(PluginTestError, match=r"Probe: the PluginHarness of .*libprobe\.so has ended"):
        probe(harness)
