"""TensorRT as its stand-in, and engines in it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hatch_tensoracle.runtime.cache import EngineCache
from hatch_tensoracle.runtime.distribution import Distribution, distribution
from hatch_tensoracle.runtime.engine import EngineHandle
from runtime import stand_in

Opener = Callable[..., Any]


def begin() -> None:
    """Forget what other tests have done, and have left for the garbage collector, which comes at any time."""
    while stand_in.LIVE and gc.collect():  # what finalizers do is found the next time
        pass
    stand_in.fresh()


@pytest.fixture
def tensorrt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Distribution]:
    """The stand-in where `tensorrt` is looked for."""
    monkeypatch.setitem(sys.modules, "tensorrt", stand_in)
    begin()
    yield distribution("tensorrt")
    stand_in.fresh()


@pytest.fixture
def rtx(monkeypatch: pytest.MonkeyPatch) -> Iterator[Distribution]:
    """The stand-in where `tensorrt_rtx` is looked for."""
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", stand_in)
    begin()
    yield distribution("tensorrt_rtx")
    stand_in.fresh()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineCache:
    """A cache of the test's own, in `tmp_path`."""
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / "cache"))
    return EngineCache()


@pytest.fixture
def opened(tensorrt: Distribution) -> Opener:
    """Opens an engine of the tensors given by name, as `stand_in.tensor` makes them."""
    return opener(tensorrt)


@pytest.fixture
def opened_rtx(rtx: Distribution) -> Opener:
    """The same of TensorRT-RTX."""
    return opener(rtx)


def opener(tensorrt: Distribution) -> Opener:
    """See `opened`."""

    def open_engine(*, workspace: int = 0, **tensors: Any) -> EngineHandle:
        runtime = stand_in.Runtime(tensorrt.logger)
        engine = runtime.deserialize_cuda_engine(stand_in.plan(tensors, workspace=workspace))
        stand_in.fresh()
        return EngineHandle(runtime=runtime, engine=engine, distribution=tensorrt, path=Path("nowhere"), was_built=True)

    return open_engine
