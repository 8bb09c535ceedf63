"""Runtime settings: values, and what becomes of them in TensorRT-RTX, on the stand-in for its binding."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import wait_until

from hatch_tensoracle.runtime import ExecutionError, RuntimeCache, RuntimeSettings
from hatch_tensoracle.runtime.execution import EngineExecution
from runtime.conftest import Opener
from runtime.opening import TENSORS, opened_example
from runtime.stand_in import FAILING, JOURNAL, plan, tensor

SMALL, LARGE = [[1, 2], [4, 2], [8, 2]], [[9, 2], [16, 2], [64, 2]]
X = tensor("INPUT", (-1, 2), profiles=[SMALL, LARGE])
Y = tensor("OUTPUT", ("x.0", 3))
NATIVE = RuntimeSettings(cuda_graph_strategy="whole_graph_capture")
AT = {"x": 256, "y": 768}


def contexts() -> list[tuple[Any, ...]]:
    """How the contexts were made."""
    return [call[1:] for call in JOURNAL if call[0] == "create_execution_context"]


# Values


def test_defaults() -> None:
    settings = RuntimeSettings()
    assert settings.cuda_graph_strategy == "disabled"
    assert settings.dynamic_shapes_kernel_specialization_strategy == "lazy"
    assert settings.runtime_cache is None


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"cuda_graph_strategy": "on"}, ValueError, "one of disabled, whole_graph_capture, not 'on'"),
        (
            {"dynamic_shapes_kernel_specialization_strategy": "none "},
            ValueError,
            "one of lazy, eager, none, not 'none '",
        ),
        ({"runtime_cache": ""}, ValueError, "runtime_cache is an empty path"),
        ({"runtime_cache": 1}, TypeError, "must be a path or a RuntimeCache, not 1"),
        ({"cuda_graphs": True}, TypeError, "cuda_graphs"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        RuntimeSettings(**wrong)
    with pytest.raises(kind, match=message):
        RuntimeSettings().merge(**wrong)


def test_settings_are_frozen_merged_and_equal_by_value() -> None:
    merged = RuntimeSettings().merge(cuda_graph_strategy="whole_graph_capture")
    assert merged == NATIVE != RuntimeSettings()
    assert RuntimeSettings(runtime_cache=Path("/a")) == RuntimeSettings(runtime_cache="/a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        merged.cuda_graph_strategy = "disabled"  # type: ignore[misc]


@pytest.mark.usefixtures("tensorrt")
def test_a_saved_engine_and_its_identity_know_nothing_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path))
    handle = opened_example(lambda network: setattr(network, "plan", plan({"x": X, "y": Y} | TENSORS)))
    before = handle.path.read_bytes()
    handle.runtime_settings = NATIVE
    again = opened_example()
    assert (again.was_built, again.path, again.runtime_settings) == (False, handle.path, RuntimeSettings())
    assert again.path.read_bytes() == before


# In TensorRT-RTX


def test_there_is_no_context_before_the_first_use(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.runtime_settings = NATIVE
    assert JOURNAL == []
    execution.set_input_shapes({"x": (4, 2)})
    execution.enqueue(AT, stream=1)
    assert contexts() == [("STATIC", "WHOLE_GRAPH_CAPTURE", "LAZY", False)]


@pytest.mark.parametrize("strategy", ["lazy", "eager", "none"])
def test_each_strategy_is_tensorrt_s(opened_rtx: Opener, strategy: Any) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y), caller_workspace=True)
    execution.runtime_settings = RuntimeSettings(dynamic_shapes_kernel_specialization_strategy=strategy)
    execution.set_input_shapes({"x": (4, 2)})
    assert contexts() == [("USER_MANAGED", "DISABLED", strategy.upper(), False)]


def test_a_change_makes_another_context_with_the_next_use_and_the_same_shapes(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.set_input_shapes({"x": (64, 2)}, stream=1)
    execution.enqueue(AT, stream=1)
    execution.runtime_settings = NATIVE
    assert len(contexts()) == 1
    JOURNAL.clear()
    execution.enqueue(AT, stream=1)
    assert [call[0] for call in JOURNAL] == [
        *("del", "create_execution_context", "set_optimization_profile_async", "set_input_shape", "infer_shapes"),
        *("set_tensor_address", "set_tensor_address", "execute_async_v3"),
    ]
    assert execution.get_tensor_shape("y") == (64, 3)
    assert execution.profile == 1


def test_equal_settings_change_nothing(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)
    execution = EngineExecution(handle)
    handle.runtime_settings = NATIVE
    execution.set_input_shapes({"x": (4, 2)})
    execution.runtime_settings = RuntimeSettings(cuda_graph_strategy="whole_graph_capture")
    handle.runtime_settings = NATIVE.merge()
    execution.enqueue(AT, stream=1)
    assert len(contexts()) == 1


def test_a_context_that_cannot_be_made_leaves_the_shapes_for_the_next(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.set_input_shapes({"x": (4, 2)})
    execution.runtime_settings = NATIVE
    FAILING.add(("create_execution_context",))
    for _ in range(2):
        with pytest.raises(ExecutionError, match="to create an execution context"):
            execution.enqueue(AT, stream=1)
    FAILING.clear()
    execution.enqueue(AT, stream=1)
    assert execution.get_tensor_shape("y") == (4, 3)


def test_a_profile_that_is_set_again_needs_a_stream(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.set_input_shapes({"x": (64, 2)}, stream=1)
    execution.release_stream()
    execution.runtime_settings = NATIVE
    with pytest.raises(ValueError, match="need profile 1: give the stream"):
        execution.get_tensor_shape("y")
    execution.enqueue(AT, stream=2)
    assert ("set_optimization_profile_async", 1, 2) in JOURNAL


def test_allocators_and_workspace_go_on_to_the_next_context(opened_rtx: Opener) -> None:
    handle = opened_rtx(workspace=100, x=X, y=tensor("OUTPUT", ("?6", 2)))
    execution = EngineExecution(handle, caller_workspace=True)
    execution.set_input_shapes({"x": (4, 2)})
    execution.set_workspace(0x1000, 800)
    execution.set_output_allocator("y", lambda *_: 4096)
    execution.enqueue({"x": 256}, stream=1)
    execution.runtime_settings = NATIVE
    JOURNAL.clear()
    execution.enqueue({"x": 256}, stream=1)
    assert ("set_output_allocator", "y", True) in JOURNAL
    assert ("set_device_memory", 0x1000, 800) in JOURNAL
    assert execution.get_tensor_shape("y") == (6, 2)


def test_an_execution_has_its_handle_s_settings_until_it_is_given_others(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)
    one, other = EngineExecution(handle), EngineExecution(handle)
    other.runtime_settings = RuntimeSettings(dynamic_shapes_kernel_specialization_strategy="eager")
    assert one.runtime_settings == handle.runtime_settings == RuntimeSettings()
    handle.runtime_settings = NATIVE  # reaches all
    assert one.runtime_settings == other.runtime_settings == EngineExecution(handle).runtime_settings == NATIVE


def test_other_things_are_no_settings(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)
    for target in (handle, EngineExecution(handle)):
        with pytest.raises(TypeError, match="must be RuntimeSettings, not 'eager'"):
            target.runtime_settings = "eager"


def test_tensorrt_keeps_them_without_effect(opened: Opener, tmp_path: Path) -> None:
    execution = EngineExecution(opened(x=X, y=Y))
    execution.set_input_shapes({"x": (4, 2)})
    cache = RuntimeCache(tmp_path / "cache")
    execution.runtime_settings = NATIVE.merge(runtime_cache=cache)
    execution.enqueue(AT, stream=1)
    assert execution.runtime_settings.cuda_graph_strategy == "whole_graph_capture"
    assert contexts() == [("STATIC",)]
    assert cache.save() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_handle_is_given_others_while_threads_execute(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)
    is_over, errors = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            with handle.create_execution() as execution:
                execution.set_input_shapes({"x": (4, 2)})
                while not is_over.is_set():
                    execution.enqueue(AT, stream=1)
                    assert execution.get_tensor_shape("y") == (4, 3)
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    given = itertools.cycle([RuntimeSettings(), NATIVE])

    def was_changed_and_both_were_taken() -> bool:
        handle.runtime_settings = next(given)
        return bool(errors) or len({graphs for _, graphs, *_ in contexts()}) == 2

    for _ in range(100):
        handle.runtime_settings = next(given)
        time.sleep(0.001)
    wait_until(was_changed_and_both_were_taken, "contexts with either settings")
    is_over.set()
    for thread in threads:
        thread.join()
    assert errors == []
