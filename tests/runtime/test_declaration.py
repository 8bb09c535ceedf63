"""Declarations are checked as they are written down, and say what makes another engine."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_tensoracle.runtime import BuilderSettings, EngineBuild, InputShape

X = InputShape.ranged((1, 8), (2, 8), (4, 8))


def build(**options: Any) -> EngineBuild:
    return EngineBuild(**{"precision": "fp32", "inputs": {"x": X}} | options)


def test_a_fixed_shape_is_all_three() -> None:
    shape = InputShape.fixed((2, 3))
    assert (shape.kind, shape.min, shape.opt, shape.max) == ("shape", (2, 3), (2, 3), (2, 3))


def test_a_scalar_has_no_axes_and_an_empty_tensor_is_allowed() -> None:
    assert InputShape.fixed(()).opt == ()
    assert InputShape.ranged((0,), (0,), (5,)).min == (0,)


def test_numpy_integers_become_integers() -> None:
    import numpy as np

    shape = InputShape.fixed([np.int32(2), np.int64(3)])  # type: ignore[list-item]
    assert shape.min == (2, 3)
    assert all(type(extent) is int for extent in shape.min)


def test_values_may_be_negative_and_64_bits_wide() -> None:
    shape = InputShape.values((-(2**63),), (0,), (2**63 - 1,))
    assert (shape.kind, shape.min, shape.max) == ("values", (-(2**63),), (2**63 - 1,))


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: InputShape(kind="x", min=(), opt=(), max=()), ValueError, "kind must be one of shape, values"),  # type: ignore[arg-type]
        (lambda: InputShape.fixed((-1, 8)), ValueError, r"min \(-1, 8\) has -1, must be at least 0"),
        (lambda: InputShape.fixed((True,)), TypeError, "must be an integer, not True"),
        (lambda: InputShape.fixed((1.0,)), TypeError, r"must be an integer, not 1\.0"),  # type: ignore[arg-type]
        (lambda: InputShape.fixed(8), TypeError, "must be a sequence of integers, not 8"),  # type: ignore[arg-type]
        (lambda: InputShape.fixed("88"), TypeError, "must be a sequence of integers, not '88'"),  # type: ignore[arg-type]
        (lambda: InputShape.ranged((1,), (1, 2), (1,)), ValueError, "differ in axes"),
        (lambda: InputShape.values((1,), (1,), ()), ValueError, "differ in elements"),
        (lambda: InputShape.ranged((2,), (1,), (4,)), ValueError, "does not hold"),
        (lambda: InputShape.ranged((1,), (5,), (4,)), ValueError, "does not hold"),
        (lambda: InputShape.values([0] * 65, [0] * 65, [0] * 65), ValueError, "65 values; TensorRT takes .* of 64"),
        (lambda: InputShape.values((2**63,), (2**63,), (2**63,)), ValueError, "must be a 64-bit integer"),
    ],
)
def test_a_wrong_shape_is_refused(make: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_64_values_are_taken() -> None:
    assert len(InputShape.values([0] * 64, [0] * 64, [0] * 64).min) == 64


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"precision": "int8"}, ValueError, "precision must be one of fp32, fp16, bf16, not 'int8'"),
        ({"inputs": [X]}, TypeError, "inputs must be a mapping"),
        ({"inputs": {"x": (1, 8)}}, TypeError, "input 'x' must have an InputShape"),
        ({"inputs": {"x": []}}, TypeError, "input 'x' must have an InputShape"),
        ({"inputs": {3: X}}, TypeError, "input 3 must be named by text"),
        ({"inputs": {"x": [X, X], "y": [X, X, X]}}, ValueError, "different numbers of profiles: .*'x': 2, 'y': 3"),
        ({"inputs": {"x": [X, InputShape.fixed((1,))]}}, ValueError, "input 'x' has another kind or number of axes"),
        ({"settings": {}}, TypeError, "settings must be BuilderSettings"),
        ({"runtime": 11}, TypeError, "runtime must be the name"),
    ],
)
def test_a_wrong_declaration_is_refused(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build(**options)


def test_one_shape_is_for_every_profile() -> None:
    wide = InputShape.fixed((9, 8))
    declaration = build(inputs={"x": X, "y": [X, wide]})
    assert declaration.profile_count == 2
    assert declaration.profile(0) == {"x": X, "y": X}
    assert declaration.profile(1) == {"x": X, "y": wide}


def test_a_graph_without_inputs_has_a_profile() -> None:
    assert build(inputs={}).profile_count == 1


def test_a_declaration_is_hashed_pickled_and_replaced() -> None:
    declaration = build(settings=BuilderSettings(timing_cache=Path("/a/cache"), compute_capabilities=["sm89"]))
    assert pickle.loads(pickle.dumps(declaration)) == declaration  # noqa: S301 - our own
    assert hash(declaration) == hash(dataclasses.replace(declaration))
    assert dataclasses.replace(declaration, precision="fp16").precision == "fp16"
    with pytest.raises(dataclasses.FrozenInstanceError):
        declaration.precision = "fp16"  # type: ignore[misc]


def test_the_identity_is_json_and_knows_no_order_of_inputs() -> None:
    one = build(inputs={"x": X, "y": [X, X]})
    other = build(inputs={"y": [X, X], "x": [X, X]})
    assert json.dumps(one.identity()) == json.dumps(other.identity())


SETTINGS: dict[str, Any] = {
    "workspace_limit": 1,
    "optimization_level": 3,
    "version_compatible": True,
    "hardware_compatibility": "ampere_plus",
    "embed_plugins": True,
    "aliased_plugin_io": True,
    "compute_capabilities": ("sm89",),
}
CHANGES = {
    "precision": build(precision="fp16"),
    "shape": build(inputs={"x": InputShape.ranged((1, 8), (3, 8), (4, 8))}),
    "kind": build(inputs={"x": InputShape.values((1, 8), (2, 8), (4, 8))}),
    "name": build(inputs={"z": X}),
    "profiles": build(inputs={"x": [X, X]}),
    **{name: build(settings=BuilderSettings(**{name: value})) for name, value in SETTINGS.items()},
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_the_engine_changes_the_identity(changed: EngineBuild) -> None:
    assert changed.identity() != build().identity()


def test_every_setting_is_in_the_identity_or_known_not_to_be() -> None:
    assert {item.name for item in dataclasses.fields(BuilderSettings)} == {"timing_cache", "tf32", *SETTINGS}
    assert build(settings=BuilderSettings(timing_cache="a")).identity() == build().identity()
