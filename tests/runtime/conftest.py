"""TensorRT as its stand-in, and engines in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_tensoracle.runtime.distribution import Distribution, distribution
from runtime import stand_in

Opener = Callable[..., Any]


@pytest.fixture
def tensorrt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Distribution]:
    """The stand-in where `tensorrt` is looked for."""
    monkeypatch.setitem(sys.modules, "tensorrt", stand_in)
    stand_in.fresh()
    yield distribution("tensorrt")
    stand_in.fresh()


@pytest.fixture
def opened(tensorrt: Distribution) -> Opener:
    """Opens an engine of the tensors given by name, as `stand_in.tensor` makes them."""

    def open_engine(*, workspace: int = 0, **tensors: Any) -> Any:
        runtime = stand_in.Runtime(tensorrt.logger)
        engine = runtime.deserialize_cuda_engine(stand_in.plan(tensors, workspace=workspace))
        stand_in.fresh()
        return SimpleNamespace(runtime=runtime, engine=engine, distribution=tensorrt)

    return open_engine
