"""The table of data types is TensorRT's."""

from __future__ import annotations

import json
import sys

import numpy as np  # noqa: TID253 - whose names are looked up
from helpers.tools import run

from hatch_tensoracle.data_types import DATA_TYPES, NUMPY_NAMES, named

MEMBERS = """
import json, tensorrt_rtx as trt
print(json.dumps({name: type_.value for name, type_ in trt.DataType.__members__.items()}))
"""


def test_types_have_the_names_and_numbers_of_tensorrt() -> None:
    theirs = json.loads(run(sys.executable, "-c", MEMBERS))
    assert {type_.tensorrt: number for number, type_ in enumerate(DATA_TYPES.values())} == theirs
    assert [named(type_.tensorrt) for type_ in DATA_TYPES.values()] == list(DATA_TYPES)
    assert named("FLOAT") == "fp32"
    assert named("DOUBLE") is None


def test_names_of_arrays_are_numpy_s_where_it_has_the_type() -> None:
    known = {name for name in NUMPY_NAMES.values() if name not in {"bfloat16", "float8_e4m3fn"}}
    assert {np.dtype(name).name for name in known} == known
