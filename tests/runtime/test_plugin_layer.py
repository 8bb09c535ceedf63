"""Plugins are made by real creators. The network is a stand-in: TensorRT-RTX's takes none, TensorRT's needs a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.processes import run_code

ADD = """
import logging, numpy as np, ml_dtypes
from hatch_tensoracle.runtime.distribution import distribution

class Network:
    __module__ = "bindings.tensorrt_rtx"
    takes = True
    def add_plugin_v3(self, inputs, shape_inputs, plugin):
        assert (inputs, shape_inputs) == (["x"], []) and plugin is not None
        return "layer" if self.takes else None

class Given(logging.Handler):
    texts = []
    def emit(self, record):
        if record.getMessage().startswith("given: "):
            self.texts.append(record.getMessage().removeprefix("given: "))

logger = logging.getLogger("hatch_tensoracle.tensorrt")
logger.setLevel(logging.INFO)
logger.addHandler(Given())
tensorrt = distribution("tensorrt_rtx")
builder = tensorrt.module.Builder(tensorrt.logger)  # brings the logger along
register_plugins(sys.argv[1:])

def add(fields, name="AllFields", version="1", namespace=""):
    Given.texts.clear()
    layer = attempt(add_plugin, Network(), ["x"], name, version, fields, namespace)
    return Given.texts[0] if layer == "layer" else layer
"""


GIVEN = {
    "Python's numbers": (
        "dict(count=3, int8=-128, int64=2**40, half=0.1, bf16=1.5, float=0.1, double=0.1)",
        (
            "count = 3, int8 = -128, int16 = 0, int32 = 0, int64 = 1099511627776, half = 0.099975586, bf16 = 1.5, "
            'float = 0.1, double = 0.1, text = "", axes = empty, scales = empty'
        ),
    ),
    "text and sequences": (
        "dict(count=3, text='relu', axes=[0, -2], scales=(0.5, 1))",
        (
            "count = 3, int8 = 0, int16 = 0, int32 = 0, int64 = 0, half = 0, bf16 = 0, "
            'float = 0, double = 0, text = "relu", axes = 0, -2, scales = 0.5, 1'
        ),
    ),
    "NumPy's": (
        (
            "dict(count=np.int64(3), bf16=ml_dtypes.bfloat16(2.5), axes=np.array([[1], [2]], np.int32)[::-1], "
            "double=np.float32(0.5))"
        ),
        (
            "count = 3, int8 = 0, int16 = 0, int32 = 0, int64 = 0, half = 0, bf16 = 2.5, "
            'float = 0, double = 0.5, text = "", axes = 2, 1, scales = empty'
        ),
    ),
    "nothing in a sequence": (
        "dict(count=3, axes=[])",
        (
            "count = 3, int8 = 0, int16 = 0, int32 = 0, int64 = 0, half = 0, bf16 = 0, "
            'float = 0, double = 0, text = "", axes = empty, scales = empty'
        ),
    ),
}
REFUSED = {
    "fraction for an integer": (
        "dict(count=1.5)",
        "ValueError: field 'count' is 1.5, which cannot be written as the declared int32",
    ),
    "integer that is too wide": (
        "dict(count=2**31)",
        "ValueError: field 'count' is 2147483648, which cannot be written as the declared int32",
    ),
    "number that overflows": (
        "dict(float=1e40)",
        "ValueError: field 'float' is 1e+40, which cannot be written as the declared float32",
    ),
    "unknown": ("dict(cuont=3)", "ValueError: plugin AllFields has no field 'cuont'; did you mean 'count'?"),
    "unknown, like none": ("dict(zzz=3)", "ValueError: plugin AllFields has no field 'zzz'; it has count, int8, "),
    "bytes for a text": ("dict(text=b'x')", "TypeError: field 'text' is declared as CHAR, which b'x' is not"),
    "no numbers": (
        "dict(count=[None])",
        "ValueError: field 'count' is [None], which cannot be written as the declared",
    ),
    "a type that TensorRT lacks": (
        "dict(count=np.uint8(3))",
        "TypeError: field 'count' is of dtype uint8; TensorRT has ",
    ),
    "text for a number": (
        "dict(count='x')",
        (
            "EngineBuildError: plugin AllFields version 1 refuses the fields {'count': 'x'}; TensorRT logged:\n"
            "  AllFields: createPlugin: field count is CHAR; it is declared as INT32"
        ),
    ),
    "missing": (
        "None",
        (
            "EngineBuildError: plugin AllFields version 1 refuses the fields {}; TensorRT logged:\n"
            "  AllFields: createPlugin: field count (INT32) is missing; it has no default"
        ),
    ),
    "no such plugin": ("{}, 'NoSuch'", "ValueError: tensorrt_rtx 1."),
    "no such version": ("{}, version='2'", "ValueError: tensorrt_rtx 1."),
    "no such namespace": ("{}, namespace='mine'", "ValueError: tensorrt_rtx 1."),
}


@pytest.fixture(scope="module")
def outcomes(all_fields: Path) -> dict[str, str]:
    """What came of each case, all in one process."""
    cases = ", ".join(f"{case!r}: add({arguments})" for case, (arguments, _) in {**GIVEN, **REFUSED}.items())
    answers: dict[str, Any] = run_code(f"{ADD}answer({{{cases}}})", all_fields).answer()
    return answers


@pytest.mark.parametrize("case", GIVEN)
def test_fields_reach_the_plugin(outcomes: dict[str, str], case: str) -> None:
    assert outcomes[case] == GIVEN[case][1]


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(outcomes: dict[str, str], case: str) -> None:
    assert outcomes[case].startswith(REFUSED[case][1])


def test_a_plugin_that_is_not_registered_is_named(outcomes: dict[str, str]) -> None:
    assert "has no plugin 'NoSuch' version '1' of namespace '': where the engine is" in outcomes["no such plugin"]
    assert "has no plugin 'AllFields' version '2' of namespace ''" in outcomes["no such version"]


def test_a_network_that_refuses_the_plugin_is_an_error(all_fields: Path) -> None:
    refusal = run_code(f"{ADD}Network.takes = False; answer(add(dict(count=1)))", all_fields).answer()
    assert refusal.startswith("EngineBuildError: plugin AllFields version 1 could not be added to the network")


def test_tensorrt_rtx_has_no_call_for_it_and_the_way_there_is_named() -> None:
    code = """
declaration = EngineBuild(precision="fp32", inputs={})
answer(attempt(build_serialized_engine, lambda network: add_plugin(network, [], "AllFields"), declaration))
"""
    refusal = run_code(code).answer()
    assert refusal.startswith("ValueError: tensorrt_rtx has no call that adds a plugin to a network")
    assert "a node has the operator type 'AllFields', with onnx_graph of hatch_tensoracle.runtime" in refusal
