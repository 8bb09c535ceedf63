"""Errors of the runtime carry what went wrong, also from one process to another."""

from __future__ import annotations

import pickle

import pytest

from hatch_tensoracle.errors import TensoracleError
from hatch_tensoracle.runtime.errors import (
    CorruptEngineError,
    EngineBuildError,
    EngineCacheError,
    EngineConditionError,
    EngineIOError,
    ExecutionError,
    PluginLibraryError,
)

ERRORS = [
    PluginLibraryError("cannot be read", library="/a/libx.so", remedy="Name another."),
    EngineBuildError("no engine", messages=("first", "second")),
    ExecutionError("is closed"),
    EngineIOError("x", "dtype", seen="fp16", expected="fp32", file="/a/engine"),
    EngineBuildError("no engine", remedy="Do this."),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_pickled_with_all_it_carries(error: TensoracleError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_library_error_names_the_file_and_what_to_do() -> None:
    assert str(ERRORS[0]) == "/a/libx.so: cannot be read. Name another."


def test_a_build_error_is_a_runtime_error_and_shows_what_tensorrt_said() -> None:
    assert isinstance(ERRORS[1], RuntimeError)
    assert str(ERRORS[1]) == "no engine; TensorRT logged:\n  first\n  second"
    assert str(EngineBuildError("no engine")) == "no engine; TensorRT logged:\n  (nothing)"
    told = EngineBuildError("no engine", messages=("first",), remedy="Do this.")
    assert str(told) == "no engine; TensorRT logged:\n  first\nDo this."


def test_an_execution_error_is_a_runtime_error() -> None:
    assert issubclass(ExecutionError, RuntimeError)


def test_an_io_error_names_tensor_field_and_both_values() -> None:
    assert str(ERRORS[3]) == "/a/engine: tensor 'x' has dtype fp16; fp32 is declared"


@pytest.mark.parametrize("kind", [CorruptEngineError, EngineConditionError, EngineIOError])
def test_what_is_wrong_with_a_saved_engine_has_one_base(kind: type[Exception]) -> None:
    assert issubclass(kind, EngineCacheError)
