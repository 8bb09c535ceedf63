"""Blocks of other runtime settings and of shared caches, on the stand-in."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_tensoracle.runtime import ExecutionError, RuntimeCache, RuntimeSettings, runtime_cache, runtime_config
from hatch_tensoracle.runtime.execution import EngineExecution
from runtime.conftest import Opener
from runtime.stand_in import CACHE_MAGIC, JOURNAL, tensor

X, Y = tensor("INPUT", (5,)), tensor("OUTPUT", (5,))
AT = {"x": 256, "y": 512}
EAGER = RuntimeSettings(dynamic_shapes_kernel_specialization_strategy="eager")


def made() -> int:
    return sum(call[0] == "create_execution_context" for call in JOURNAL)


def on_another_thread(call: Callable[[], object]) -> BaseException | None:
    raised: list[BaseException] = []

    def target() -> None:
        try:
            call()
        except ExecutionError as error:
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_a_block_changes_some_settings_and_restores_all(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.runtime_settings = EAGER
    execution.enqueue(AT, stream=1)
    with runtime_config(execution, cuda_graph_strategy="whole_graph_capture") as inside:
        assert inside is execution
        assert execution.runtime_settings == EAGER.merge(cuda_graph_strategy="whole_graph_capture")
        for _ in range(2):
            execution.enqueue(AT, stream=1)
        assert made() == 2
    assert execution.runtime_settings == EAGER
    for _ in range(2):
        execution.enqueue(AT, stream=1)
    assert made() == 3


def test_a_block_that_nothing_is_executed_in_costs_nothing(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.enqueue(AT, stream=1)
    with runtime_config(execution, cuda_graph_strategy="whole_graph_capture"):
        pass
    execution.enqueue(AT, stream=1)
    assert made() == 1


def test_an_error_restores_too(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    with pytest.raises(KeyError), runtime_config(execution, cuda_graph_strategy="whole_graph_capture"):
        raise KeyError
    assert execution.runtime_settings == RuntimeSettings()


def test_blocks_inside_blocks_restore_in_turn(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    with runtime_config(execution, cuda_graph_strategy="whole_graph_capture"):
        with runtime_config(execution, dynamic_shapes_kernel_specialization_strategy="eager"):
            assert execution.runtime_settings == EAGER.merge(cuda_graph_strategy="whole_graph_capture")
            execution.runtime_settings = RuntimeSettings()  # is undone as well
        assert execution.runtime_settings == RuntimeSettings(cuda_graph_strategy="whole_graph_capture")
    assert execution.runtime_settings == RuntimeSettings()


def test_blocks_that_overlap_restore_what_was_before_all_of_them(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)
    execution = EngineExecution(handle)
    handle.runtime_settings = EAGER
    first = runtime_config(handle, cuda_graph_strategy="whole_graph_capture")
    second = runtime_config([handle, execution], dynamic_shapes_kernel_specialization_strategy="none")
    third = runtime_config(handle, dynamic_shapes_kernel_specialization_strategy="lazy")
    for block in (first, second, third):
        block.__enter__()
    inside = handle.runtime_settings
    for block in (second, first):
        block.__exit__(None, None, None)
        assert handle.runtime_settings == inside
        assert execution.runtime_settings == inside
    third.__exit__(None, None, None)
    assert execution.runtime_settings == handle.runtime_settings == EAGER


def test_a_handle_stands_for_all_its_executions_each_once(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)
    one, other = EngineExecution(handle), EngineExecution(handle)
    other.runtime_settings = EAGER
    with runtime_config([handle, other, handle, one], cuda_graph_strategy="whole_graph_capture") as inside:
        assert inside == [handle, other, handle, one]
        later = EngineExecution(handle)
        for execution in (one, other, later):
            assert execution.runtime_settings.cuda_graph_strategy == "whole_graph_capture"
        assert other.runtime_settings.dynamic_shapes_kernel_specialization_strategy == "eager"
    assert other.runtime_settings == EAGER
    assert one.runtime_settings == later.runtime_settings == handle.runtime_settings == RuntimeSettings()


def test_wrong_settings_and_targets_are_refused(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)
    with pytest.raises(TypeError, match="cuda_graph"):
        runtime_config(handle, cuda_graph="whole_graph_capture")  # before the block is entered
    with pytest.raises(ValueError, match="must be one of disabled, whole_graph_capture"):
        runtime_config(handle, cuda_graph_strategy="yes")
    with pytest.raises(ValueError, match="there is no engine"), runtime_config([]):
        pass
    with pytest.raises(TypeError, match="of handles and executions, not of 'x'"), runtime_cache(["x"]):
        pass


def test_a_block_on_another_thread_is_refused(opened_rtx: Opener) -> None:
    handle = opened_rtx(x=X, y=Y)

    def enter() -> None:
        with runtime_config(handle, cuda_graph_strategy="whole_graph_capture"):
            pass

    def assign() -> None:
        handle.runtime_settings = EAGER

    with runtime_config(handle, dynamic_shapes_kernel_specialization_strategy="eager"):
        for call in (enter, assign):
            assert "inside a runtime_config or runtime_cache block of another thread" in str(on_another_thread(call))
        assert handle.runtime_settings == EAGER
    assert on_another_thread(enter) is None
    assert handle.runtime_settings == RuntimeSettings()


def test_a_shared_cache_is_one_for_all_and_saved_once_at_the_end(opened_rtx: Opener, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "cache"
    executions = [EngineExecution(opened_rtx(x=X, y=Y)) for _ in range(2)]
    with runtime_cache(executions, path) as cache:
        assert cache.path == path
        for execution in executions:
            assert execution.runtime_settings.runtime_cache is cache
            execution.enqueue(AT, stream=1)
        assert not path.exists()
        assert JOURNAL.count(("create_runtime_cache",)) == 1
    written = path.stat().st_mtime_ns
    assert b"stand-in" in path.read_bytes()
    for execution in executions:
        execution.enqueue(AT, stream=1)  # without it again
        execution.close()
    del cache
    assert path.stat().st_mtime_ns == written


def test_a_shared_cache_can_be_a_stream(opened_rtx: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    stream = io.BytesIO()
    for _ in range(2):  # the second reads what the first has written
        stream.seek(0)
        with runtime_cache(execution, stream) as cache:
            assert cache.path is None
            execution.enqueue(AT, stream=1)
    assert stream.getvalue() == CACHE_MAGIC + b'["stand-in []"]'
    assert ("deserialize", len(stream.getvalue())) in JOURNAL
    with (tmp_path / "file").open("wb") as file, runtime_cache(execution, file):
        execution.enqueue(AT, stream=1)
    assert (tmp_path / "file").read_bytes() == stream.getvalue()
    with runtime_cache(execution, stream):
        pass  # nothing is executed, and what there was stays
    with pytest.raises(TypeError, match="of handles and executions"), runtime_cache("x", stream):
        pass
    assert (tmp_path / "file").read_bytes() == stream.getvalue()
    assert caplog.text == ""
    closed = (tmp_path / "file").open("wb")
    with runtime_cache(execution, closed):
        closed.close()
        execution.enqueue(AT, stream=1)
    assert "the runtime cache cannot be saved" in caplog.text
    for text in (io.StringIO("abc"), (tmp_path / "text").open("w", encoding="utf-8")):
        with pytest.raises(TypeError, match="takes a path, a binary stream or a RuntimeCache, not <_io"), text:
            runtime_cache(execution, text)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a path, a binary stream or a RuntimeCache, not 42"):
        runtime_cache(execution, 42)  # type: ignore[arg-type]


def test_a_shared_cache_can_be_in_memory_only(opened_rtx: Opener, tmp_path: Path) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    with runtime_cache(execution) as cache:
        execution.enqueue(AT, stream=1)
        assert cache.path is None
        with (tmp_path / "stream").open("wb") as stream:
            assert cache.save(stream) > 0
    assert isinstance(cache, RuntimeCache)
