"""Conditions of engines for tests of what keeps them, and a plan that says which it is."""

from __future__ import annotations

import hashlib
from typing import Any

from hatch_tensoracle.runtime.declaration import EngineBuild, InputShape
from hatch_tensoracle.runtime.gpu import GpuIdentity
from hatch_tensoracle.runtime.identity import engine_conditions

__all__ = ["DECLARATION", "GPU", "conditions", "plan_of"]

GPU = GpuIdentity(
    name="NVIDIA GeForce RTX 4090",
    compute_capability="8.9",
    total_memory=25_757_220_864,
    multiprocessors=128,
    l2_bytes=75_497_472,
    memory_bus_width=384,
)
DECLARATION = EngineBuild(precision="fp16", inputs={"x": InputShape.ranged((1, 2), (4, 2), (8, 2))}, runtime="tensorrt")


def conditions(**changed: Any) -> dict[str, Any]:
    """Those of one engine, or of another in what is changed."""
    given: dict[str, Any] = {
        "declaration": DECLARATION,
        "name": "example",
        "graph_version": "1",
        "weights": ["aa", "bb"],
        "plugins": ["cc", "dd"],
        "gpu": GPU,
        "tensorrt": ("tensorrt", "11.2.1.2"),
    }
    given |= changed
    return engine_conditions(given.pop("declaration"), **given)


def plan_of(seed: int, size: int) -> bytes:
    """`size` bytes that no other seed gives."""
    block = hashlib.shake_256(str(seed).encode()).digest(4096)
    return (block * (size // len(block) + 1))[:size]
