"""What makes an engine another one, and what does not."""

from __future__ import annotations

import dataclasses
import json
import os
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_tensoracle.runtime.builder_settings import BuilderSettings
from hatch_tensoracle.runtime.declaration import InputShape
from hatch_tensoracle.runtime.identity import differences, identity_of
from runtime.conditions import DECLARATION, GPU, conditions


def declared(**changed: Any) -> dict[str, Any]:
    return conditions(declaration=dataclasses.replace(DECLARATION, **changed))


def gpu(**changed: Any) -> dict[str, Any]:
    return conditions(gpu=dataclasses.replace(GPU, **changed))


OTHERS = {
    "name": conditions(name="other"),
    "graph version": conditions(graph_version="2"),
    "weights": conditions(weights=["aa", "b0"]),
    "fewer weights": conditions(weights=["aa"]),
    "weights under each other's names": conditions(weights=["bb", "aa"]),
    "plugin library": conditions(plugins=["cc", "d0"]),
    "fewer plugins": conditions(plugins=["cc"]),
    "precision": declared(precision="bf16"),
    "shapes": declared(inputs={"x": InputShape.ranged((1, 2), (5, 2), (8, 2))}),
    "input": declared(inputs={"y": InputShape.ranged((1, 2), (4, 2), (8, 2))}),
    "profiles": declared(inputs={"x": [InputShape.ranged((1, 2), (4, 2), (8, 2)), InputShape.fixed((4, 2))]}),
    "kind": declared(inputs={"x": InputShape.values((1, 2), (4, 2), (8, 2))}),
    "workspace": declared(settings=BuilderSettings(workspace_limit=1 << 30)),
    "optimization level": declared(settings=BuilderSettings(optimization_level=3)),
    "version-compatible": declared(settings=BuilderSettings(version_compatible=True)),
    "compute capabilities": declared(settings=BuilderSettings(compute_capabilities=("sm89",))),
    "GPU": gpu(name="NVIDIA GeForce RTX 4090 D"),
    "compute capability": gpu(compute_capability="9.0"),
    "memory": gpu(total_memory=GPU.total_memory * 2),
    "multiprocessors": gpu(multiprocessors=114),
    "L2": gpu(l2_bytes=50 << 20),
    "bus": gpu(memory_bus_width=256),
    "TensorRT": conditions(tensorrt=("tensorrt", "11.2.1.3")),
    "distribution": conditions(tensorrt=("tensorrt_rtx", "11.2.1.2")),
}


def test_each_condition_makes_another_engine() -> None:
    identities = [identity_of(each) for each in (conditions(), *OTHERS.values())]
    assert len(set(identities)) == len(OTHERS) + 1


def test_the_system_is_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    identities = {identity_of(conditions())}
    for system in (
        SimpleNamespace(sysname="Linux", machine="riscv64"),
        SimpleNamespace(sysname="Other", machine="riscv64"),
    ):
        monkeypatch.setattr(os, "uname", lambda system=system: system)
        identities.add(identity_of(conditions()))
    assert len(identities) == 3


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(conditions(plugins=["dd", "cc", "cc"]), id="order of plugins"),
        pytest.param(declared(settings=BuilderSettings(timing_cache="/tmp/timings")), id="timing cache"),  # noqa: S108
        pytest.param(declared(inputs={"x": [InputShape.ranged((1, 2), (4, 2), (8, 2))]}), id="a list of one profile"),
        pytest.param(dict(reversed(conditions().items())), id="order of conditions"),
        pytest.param(json.loads(json.dumps(conditions())), id="as it was read from a file"),
    ],
)
def test_what_is_no_condition(same: dict[str, Any]) -> None:
    assert identity_of(same) == identity_of(conditions())
    assert list(differences(same, conditions())) == []


@pytest.mark.parametrize(
    ("seen", "difference"),
    [
        pytest.param(conditions(name="other"), ("name", "other", "example"), id="top"),
        pytest.param(gpu(l2_bytes=1), ("gpu.l2_bytes", 1, 75_497_472), id="below"),
        pytest.param(conditions(weights=["aa", "b0"]), ("weights[1]", "b0", "bb"), id="in a list"),
        pytest.param(conditions(weights=["aa"]), ("weights", ["aa"], ["aa", "bb"]), id="length"),
        pytest.param(conditions() | {"new": 1}, ("new", 1, None), id="more"),
    ],
)
def test_a_difference_says_where_it_is(seen: dict[str, Any], difference: tuple[str, object, object]) -> None:
    assert list(differences(seen, conditions())) == [difference]
