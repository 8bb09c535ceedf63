"""Opens engines of TensorRT's stand-in; as a program, in a process of its own, and tells how it went.

`python opening.py JOURNAL GO END`: makes a file `ready-*` beside GO, waits for GO, opens, and prints whether it built.
The graph function writes its process into JOURNAL, and waits for the file END.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.waiting import wait_until

from hatch_tensoracle.runtime import engine
from hatch_tensoracle.runtime.engine import EngineHandle, open_engine
from hatch_tensoracle.runtime.engine_io import EngineIO, TensorSpec
from runtime import stand_in
from runtime.conditions import DECLARATION, GPU

__all__ = ["IO", "TENSORS", "opened_example", "serialized"]

TENSORS = {
    "x": stand_in.tensor("INPUT", (-1, 2), dtype="HALF", profiles=[[(1, 2), (4, 2), (8, 2)]]),
    "y": stand_in.tensor("OUTPUT", ("x.0", 2), dtype="HALF"),
}
IO = EngineIO(inputs={"x": TensorSpec("fp16", (-1, 2))}, outputs={"y": TensorSpec("fp16", (-1, 2))})


def serialized(graph: Callable[[Any], object], *_: object, **__: object) -> bytes:
    """In the place of `build_serialized_engine`: a network without layers, whose plan the graph function makes."""
    network = SimpleNamespace(num_layers=0, plan=stand_in.plan(TENSORS))
    graph(network)
    plan: bytes = network.plan
    return plan


def opened_example(graph: Callable[[Any], object] = lambda _network: None, **options: Any) -> EngineHandle:
    """Open an engine on a GPU that is not there, in the stand-in, which is to be in `sys.modules`."""
    wanted: dict[str, Any] = {"declaration": DECLARATION, "name": "example", "graph_version": "1", "io": IO} | options
    gpu = wanted.pop("gpu", GPU)
    with (
        patch.object(engine, "current_gpu", lambda: gpu),
        patch.object(engine, "build_serialized_engine", serialized),
    ):
        return open_engine(graph, wanted.pop("declaration"), **wanted)


def main(journal: Path, go: Path, end: Path) -> None:
    """See above."""

    def graph(_network: object) -> None:
        with journal.open("a") as file:
            file.write(f"{os.getpid()}\n")
        wait_until(end.exists, "the end of the build")

    sys.modules["tensorrt"] = stand_in
    go.with_name(f"ready-{os.getpid()}").touch()
    wait_until(go.exists, "the word to begin")
    handle = opened_example(graph)
    assert handle.engine.num_io_tensors == len(TENSORS)
    print(handle.was_built)  # noqa: T201 - the answer


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
