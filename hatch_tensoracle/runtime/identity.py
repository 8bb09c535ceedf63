"""What makes one saved engine another: everything that it is built of and for, by content."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hatch_tensoracle.runtime.declaration import EngineBuild
from hatch_tensoracle.runtime.gpu import GpuIdentity

__all__ = ["differences", "engine_conditions", "identity_of"]


def engine_conditions(  # noqa: PLR0913 - so much there is
    declaration: EngineBuild,
    *,
    name: str,
    graph_version: str,
    weights: Sequence[str],
    plugins: Sequence[str],
    gpu: GpuIdentity,
    tensorrt: tuple[str, str],
) -> dict[str, Any]:
    """Return, for JSON, the conditions that an engine is built under.

    `weights` and `plugins` are SHA-256 of the files' contents: weights in the caller's order, which is how the graph
    function knows them, plugin libraries in any. `tensorrt` is the distribution's name and version.
    """
    system = os.uname()
    return {
        "name": name,
        "graph_version": graph_version,
        "declaration": declaration.identity(),
        "weights": list(weights),
        "plugins": sorted(set(plugins)),
        "gpu": dataclasses.asdict(gpu),
        "system": {"os": system.sysname, "architecture": system.machine},
        "tensorrt": {"distribution": tensorrt[0], "version": tensorrt[1]},
    }


def identity_of(conditions: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hexadecimal, of the conditions in their one spelling."""
    return hashlib.sha256(json.dumps(conditions, sort_keys=True, allow_nan=False).encode()).hexdigest()


def differences(seen: object, expected: object, field: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield where two conditions differ: a field such as `gpu.name` or `weights[1]`, what is there, what should be."""
    if isinstance(seen, dict) and isinstance(expected, dict):
        for key in dict.fromkeys((*expected, *seen)):
            yield from differences(seen.get(key), expected.get(key), f"{field}.{key}".removeprefix("."))
    elif isinstance(seen, list) and isinstance(expected, list) and len(seen) == len(expected):
        for index, pair in enumerate(zip(seen, expected, strict=True)):
            yield from differences(*pair, f"{field}[{index}]")
    elif seen != expected:
        yield field, seen, expected
