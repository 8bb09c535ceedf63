"""Engines by CUDA graphs, on the stand-in for TensorRT and a driver that only writes down what it is asked for.

What that driver is asked for is run on the fake one in `test_cuda_graph.py`, and on a GPU in `tests/gpu`.
"""

from __future__ import annotations

import ctypes
import gc
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hatch_tensoracle.runtime import ExecutionError, RuntimeSettings, enable_cudagraphs, runtime_config
from hatch_tensoracle.runtime import cuda_graph as graph_module
from hatch_tensoracle.runtime.arrays import DevicePointer
from hatch_tensoracle.runtime.cuda_graphs import CudaGraphs
from hatch_tensoracle.runtime.execution import EngineExecution
from runtime.conftest import Opener
from runtime.stand_in import FAILING, JOURNAL, tensor

SMALL, LARGE = [[1, 2], [4, 2], [8, 2]], [[9, 2], [16, 2], [64, 2]]
X = tensor("INPUT", (-1, 2), profiles=[SMALL, LARGE])
Y = tensor("OUTPUT", ("x.0", 3))
FIXED = {"x": tensor("INPUT", (5,)), "y": tensor("OUTPUT", (5,))}
AT = {"x": 256, "y": 768}
STREAM = 7
EAGER = RuntimeSettings(dynamic_shapes_kernel_specialization_strategy="eager")

WARMED = ["execute_async_v3", "cuStreamBeginCapture", "execute_async_v3", "cuStreamEndCapture", "instantiate"]
UPDATED = ["cuStreamBeginCapture", "execute_async_v3", "cuStreamEndCapture", "cuGraphExecUpdate", "cuGraphLaunch"]


class Driver:
    """Writes the calls into the stand-in's journal; handles count upwards from 1."""

    def __init__(self) -> None:
        self.handles = 0
        self.failing: dict[str, int] = {}
        self.waits: list[int] = []
        """Streams that were waited for."""

    def function(self, name: str, *_types: Any) -> Callable[..., int]:
        """As the real one."""
        plain = name.partition("_")[0]

        def call(*arguments: Any) -> int:
            if plain in {"cuStreamEndCapture", "cuGraphInstantiateWithFlags"}:
                self.handles += 1
                index = 1 if plain == "cuStreamEndCapture" else 0
                ctypes.cast(arguments[index], ctypes.POINTER(ctypes.c_void_p))[0] = self.handles
            if plain == "cuStreamSynchronize":
                self.waits.append(arguments[0].value or 0)
            if plain not in {"cuMemGetInfo", "cuGraphDestroy"}:
                JOURNAL.append(("instantiate" if plain == "cuGraphInstantiateWithFlags" else plain,))
            return self.failing.pop(plain, 0)

        return call

    def error_name(self, code: int) -> str:
        """As the real one."""
        return {910: "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"}.get(code, f"error {code}")


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(graph_module, "driver", lambda: found)
    return found


def steps() -> list[str]:
    """What was done since the last time, but for shapes and addresses."""
    names = [call[0] for call in JOURNAL]
    JOURNAL.clear()
    return [name for name in names if name.startswith("cu") or name in {"execute_async_v3", "instantiate"}]


def contexts() -> int:
    return sum(call[0] == "create_execution_context" for call in JOURNAL)


@pytest.fixture
def graphs(opened: Opener) -> CudaGraphs:
    return CudaGraphs(EngineExecution(opened(x=X, y=Y)))


def test_the_first_execution_is_captured_and_later_ones_replay_it(opened: Opener) -> None:
    with enable_cudagraphs(EngineExecution(opened(**FIXED))) as graphs:
        assert contexts() == 0
        graphs.enqueue(AT, stream=STREAM)
        assert steps() == WARMED
        for _ in range(3):
            graphs.enqueue(AT, stream=STREAM)
        assert steps() == ["cuGraphLaunch"] * 3
        found = graphs.statistics
        assert (found.captures, found.replays, found.updates, found.eager, found.graphs) == (1, 3, 0, 1, 1)
    assert steps() == ["cuGraphExecDestroy"]
    with pytest.raises(ExecutionError, match="the CUDA graphs are closed"):
        graphs.enqueue(AT, stream=STREAM)
    graphs.close()


def test_each_profile_and_shape_has_a_graph_and_a_context_that_nothing_changes(graphs: CudaGraphs) -> None:
    for rows in (4, 8, 64):
        graphs.set_input_shapes({"x": (rows, 2)}, stream=STREAM)
        graphs.enqueue(AT, stream=STREAM)
    assert contexts() == 3
    assert [call[2] for call in JOURNAL if call[0] == "set_input_shape"] == [(4, 2), (8, 2), (64, 2)]
    JOURNAL.clear()
    for rows in (4, 64, 8, 4):
        graphs.set_input_shapes({"x": (rows, 2)})
        graphs.enqueue(AT, stream=STREAM)
        assert graphs.get_tensor_shape("y") == (rows, 3)
    assert {call[0] for call in JOURNAL} == {"cuGraphLaunch"}


def test_a_profile_can_be_chosen(opened: Opener) -> None:
    wide = [[1, 2], [32, 2], [64, 2]]
    graphs = CudaGraphs(EngineExecution(opened(x=tensor("INPUT", (-1, 2), profiles=[SMALL, wide]), y=Y)))
    graphs.set_input_shapes({"x": (4, 2)})
    graphs.enqueue(AT, stream=STREAM)
    graphs.set_input_shapes({"x": (4, 2)}, profile=1)
    graphs.enqueue(AT, stream=STREAM)
    assert graphs.statistics.captures == 2
    assert ("set_optimization_profile_async", 1, STREAM) in JOURNAL


def test_a_graph_is_updated_to_other_addresses_and_only_the_given_ones_are_written(graphs: CudaGraphs) -> None:
    graphs.set_input_shapes({"x": (4, 2)})
    graphs.enqueue(AT, stream=STREAM)
    JOURNAL.clear()
    graphs.enqueue(AT | {"y": 1024}, stream=STREAM)
    assert [call for call in JOURNAL if call[0] == "set_tensor_address"][-1] == ("set_tensor_address", "y", 1024)
    assert steps() == UPDATED
    graphs.enqueue(AT | {"y": 1024}, stream=STREAM)
    assert steps() == ["cuGraphLaunch"]
    found = graphs.statistics
    assert (found.captures, found.replays, found.updates, found.eager) == (1, 2, 1, 1)


def test_a_graph_that_cannot_be_updated_is_made_anew(graphs: CudaGraphs, driver: Driver) -> None:
    graphs.set_input_shapes({"x": (4, 2)})
    graphs.enqueue(AT, stream=STREAM)
    steps()
    driver.failing["cuGraphExecUpdate"] = 910
    graphs.enqueue(AT | {"y": 1024}, stream=STREAM)
    assert steps() == [*UPDATED[:-1], "instantiate", "cuGraphExecDestroy", "cuGraphLaunch"]
    assert (graphs.statistics.captures, graphs.statistics.updates) == (2, 0)


def test_outputs_over_inputs_keep_the_input_s_address(opened: Opener) -> None:
    """Each call executes once, so that what is written over is written over once."""
    graphs = CudaGraphs(EngineExecution(opened(x=tensor("INPUT", (5,)), y=tensor("OUTPUT", (5,), aliased="x"))))
    for address in (256, 256, 512):
        graphs.enqueue({"x": address, "y": address}, stream=STREAM)
    assert steps() == [*WARMED, "cuGraphLaunch", *UPDATED]
    with pytest.raises(ValueError, match="output 'y' is written over input 'x': its address must be 0x100"):
        graphs.enqueue({"x": 256, "y": 1024}, stream=STREAM)
    graphs.enqueue({"x": 512, "y": 512}, stream=STREAM)
    assert steps()[-1:] == ["cuGraphLaunch"]


@pytest.mark.parametrize(
    ("addresses", "error"),
    [
        ({"x": 256}, ValueError),
        (AT | {"y": True}, TypeError),
        (AT | {"y": 0}, ValueError),
        (AT | {"z": 1}, ValueError),
        (AT | {"y": 768.0}, TypeError),  # though it is equal to the graph's
    ],
)
def test_wrong_addresses_are_refused_and_the_graph_stays(
    graphs: CudaGraphs, addresses: Any, error: type[Exception]
) -> None:
    graphs.set_input_shapes({"x": (4, 2)})
    with pytest.raises(error):
        graphs.enqueue(addresses, stream=STREAM + 1)  # which it does not take
    graphs.enqueue(AT, stream=STREAM)
    with pytest.raises(error):
        graphs.enqueue(addresses, stream=STREAM)
    steps()
    graphs.enqueue(AT, stream=STREAM)
    assert steps() == ["cuGraphLaunch"]


def test_the_least_recently_used_graph_and_its_context_make_room(opened: Opener) -> None:
    graphs = CudaGraphs(EngineExecution(opened(workspace=100, x=X, y=Y)), limit=2)
    for rows in (1, 2, 1):
        graphs.set_input_shapes({"x": (rows, 2)})
        graphs.enqueue(AT, stream=STREAM)
    before = graphs.statistics
    JOURNAL.clear()
    graphs.set_input_shapes({"x": (3, 2)})
    graphs.enqueue(AT, stream=STREAM)
    assert [call[:2] for call in JOURNAL][:3] == [
        ("cuStreamSynchronize",),
        ("cuGraphExecDestroy",),
        ("del", "IExecutionContext"),
    ]
    assert (graphs.statistics.graphs, graphs.statistics.evictions) == (2, 1)
    assert graphs.statistics.bytes == before.bytes == 2 * 100 * 16  # of the profile's largest shape, twice


def test_what_makes_room_is_complete_on_the_stream_that_it_ran_on(opened: Opener, driver: Driver) -> None:
    graphs = CudaGraphs(EngineExecution(opened(x=X, y=Y)), limit=1)
    graphs.set_input_shapes({"x": (4, 2)})
    graphs.enqueue(AT, stream=STREAM)
    JOURNAL.clear()
    arrays = DevicePointer(256, (8, 2), "fp32"), DevicePointer(768, (8, 3), "fp32")
    for call in (
        lambda: graphs.set_input_shapes({"x": (8, 2)}, stream=9),
        lambda: graphs({"x": arrays[0]}, {"y": arrays[1]}, stream=9),
    ):
        with pytest.raises(ExecutionError, match="the last work is on stream 0x7, this is for 0x9"):
            call()
    assert JOURNAL == []  # nothing has made room
    graphs.enqueue(AT, stream=STREAM)
    assert steps() == ["cuGraphLaunch"]
    graphs.release_stream()
    graphs.set_input_shapes({"x": (8, 2)})
    assert driver.waits == [STREAM]
    graphs.enqueue(AT, stream=9)
    graphs.release_stream()
    graphs.set_input_shapes({"x": (2, 2)}, stream=10)
    assert driver.waits == [STREAM, 9]


def test_what_is_executed_without_a_graph_is_waited_for_as_well(opened: Opener, driver: Driver) -> None:
    graphs = CudaGraphs(EngineExecution(opened(x=X, y=Y)), limit=1, fallback=True)
    graphs.set_input_shapes({"x": (4, 2)}, stream=0)
    graphs.enqueue(AT, stream=1)
    assert graphs.statistics.eager == 1
    graphs.release_stream()
    with pytest.raises(ValueError, match="the address of tensor 'y' is 0"):
        graphs.enqueue(AT | {"y": 0}, stream=0)  # which nothing has run on
    graphs.set_input_shapes({"x": (8, 2)}, stream=STREAM)
    assert driver.waits == [1]


def test_the_caller_s_workspace_is_shared_and_another_one_means_other_graphs(opened: Opener) -> None:
    execution = EngineExecution(opened(workspace=100, x=X, y=Y), caller_workspace=True)
    execution.set_workspace(0x1000, 1600)
    graphs = CudaGraphs(execution)
    for rows in (2, 4):
        graphs.set_input_shapes({"x": (rows, 2)})
        graphs.enqueue(AT, stream=STREAM)
    assert {call[1:] for call in JOURNAL if call[0] == "set_device_memory"} == {(0x1000, 1600)}
    assert graphs.statistics.bytes == 0
    execution.set_workspace(0x2000, 1600)
    graphs.enqueue(AT, stream=STREAM)
    assert ("set_device_memory", 0x2000, 1600) in JOURNAL
    assert graphs.statistics.graphs == 1


# Ahead of time, and padded


def test_a_graph_is_captured_ahead_of_time_for_the_optimum_or_what_is_asked_for(graphs: CudaGraphs) -> None:
    graphs.capture(AT, stream=STREAM)
    assert steps() == WARMED
    graphs.capture(AT, {"x": (8, 2)}, stream=STREAM)
    graphs.capture(AT, profile=1, stream=STREAM)
    steps()
    for rows in (4, 8, 16):
        graphs.set_input_shapes({"x": (rows, 2)})
        graphs.enqueue(AT, stream=STREAM)
    assert steps() == ["cuGraphLaunch"] * 3
    with pytest.raises(ValueError, match="there is no profile 2"):
        graphs.capture(AT, profile=2, stream=STREAM)


def test_shapes_without_a_graph_are_padded_where_the_author_says_so(opened: Opener) -> None:
    graphs = CudaGraphs(EngineExecution(opened(x=X, y=Y)), pad_to={"x": [0]})
    for rows in (8, 4):
        graphs.capture(AT, {"x": (rows, 2)}, stream=STREAM)
    steps()
    for rows, used in ((3, 4), (4, 4), (5, 8)):
        graphs.set_input_shapes({"x": (rows, 2)})
        assert graphs.get_tensor_shape("x") == (used, 2)
        graphs.enqueue(AT, stream=STREAM)
        assert steps() == ["cuGraphLaunch"]
    graphs.set_input_shapes({"x": (9, 2)}, stream=STREAM)  # nothing larger is captured
    assert graphs.get_tensor_shape("y") == (9, 3)
    with pytest.raises(ExecutionError, match="arrays are not padded"):
        graphs({"x": DevicePointer(256, (5, 2), "fp32")}, stream=STREAM)


def test_axes_are_sequences_of_integers_by_input(opened: Opener) -> None:
    execution = EngineExecution(opened(x=X, y=Y))
    cases: list[tuple[Any, str]] = [
        ({"x": 0}, "pad_to: axes of 'x' must be a sequence of integers, not 0"),
        ({"x": [0.0]}, "pad_to: axes of 'x' must be an integer, not 0.0"),
        ([0], "pad_to must be a mapping by tensor name, not [0]"),
    ]
    for pad_to, message in cases:
        with pytest.raises(TypeError, match=re.escape(message)):
            enable_cudagraphs(execution, pad_to=pad_to)


def test_a_handle_is_no_execution(opened: Opener) -> None:
    with pytest.raises(TypeError, match=r"takes an execution, as handle\.create_execution\(\) makes, not EngineHandle"):
        enable_cudagraphs(opened(x=X, y=Y))


@pytest.mark.parametrize("pad_to", [{"x": [1]}, {"y": [0]}, {"z": [0]}])
def test_only_axes_that_vary_are_padded(opened: Opener, pad_to: Any) -> None:
    with pytest.raises(ValueError, match=r"pad_to: axes .* do not vary"):
        enable_cudagraphs(EngineExecution(opened(x=X, y=Y)), pad_to=pad_to)


# Arrays


def test_arrays_are_executed_on_by_graphs(graphs: CudaGraphs) -> None:
    x, y = DevicePointer(256, (4, 2), "fp32"), DevicePointer(512, (4, 3), "fp32")
    for _ in range(2):
        assert graphs({"x": x}, {"y": y}, stream=STREAM) == {"y": y}
    assert steps() == [*WARMED, "cuGraphLaunch"]


# What cannot be captured


def test_outputs_of_any_size_are_refused(opened: Opener) -> None:
    growing = {"x": X, "y": tensor("OUTPUT", ("?6", 2))}
    graphs = CudaGraphs(EngineExecution(opened(**growing)))
    graphs.set_input_shapes({"x": (4, 2)})
    with pytest.raises(ExecutionError, match="no CUDA graph: the data decide the size of output 'y'"):
        graphs.enqueue({"x": 256}, stream=STREAM)
    with pytest.raises(ExecutionError, match=r"output 'y'\. Call set_output_allocator of the execution"):
        graphs.set_output_allocator("y", lambda *_: 4096)
    execution = EngineExecution(opened(**growing))
    execution.set_input_shapes({"x": (4, 2)})
    execution.set_output_allocator("y", lambda *_: 4096)
    with pytest.raises(ExecutionError, match="no CUDA graph: output 'y' has an allocator"):
        enable_cudagraphs(execution)
    with enable_cudagraphs(execution, fallback=True) as falling:
        JOURNAL.clear()
        falling.set_input_shapes({"x": (4, 2)})
        falling.enqueue({"x": 256}, stream=STREAM)
        assert steps() == ["execute_async_v3"]
        assert falling.get_tensor_shape("y") == (6, 2)
        assert falling.statistics.eager == 1


def test_lazily_specialised_shapes_are_refused(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    with pytest.raises(ExecutionError, match=r"replaces kernels of dynamic shapes in the background: set .*'eager'"):
        enable_cudagraphs(execution)
    CudaGraphs(EngineExecution(opened_rtx(**FIXED)))  # there are none
    execution.runtime_settings = EAGER
    graphs = CudaGraphs(execution)
    graphs.set_input_shapes({"x": (4, 2)})
    graphs.enqueue(AT, stream=STREAM)
    assert ("create_execution_context", "STATIC", "DISABLED", "EAGER", False) in JOURNAL
    assert ("is_stream_capturable", STREAM) in JOURNAL
    with (
        pytest.raises(ExecutionError, match="replaces kernels"),
        runtime_config(execution, dynamic_shapes_kernel_specialization_strategy="lazy"),
    ):
        graphs.enqueue(AT, stream=STREAM)


def test_what_tensorrt_says_is_not_capturable_is_refused(opened_rtx: Opener) -> None:
    graphs, falling = (
        CudaGraphs(EngineExecution(opened_rtx(**FIXED)), fallback=fallback) for fallback in (False, True)
    )
    FAILING.add(("is_stream_capturable",))
    for _ in range(2):
        with pytest.raises(ExecutionError, match="TensorRT says that the engine is not stream capturable"):
            graphs.enqueue(AT, stream=STREAM)
    assert steps() == []
    for _ in range(2):
        falling.enqueue(AT, stream=STREAM)
    assert steps() == ["execute_async_v3"] * 2


@pytest.mark.parametrize("default", [0, 1])
def test_the_default_stream_is_refused(opened: Opener, default: int) -> None:
    graphs = CudaGraphs(EngineExecution(opened(**FIXED)))
    with pytest.raises(ExecutionError, match="the default stream cannot be captured"):
        graphs.enqueue(AT, stream=default)
    with pytest.raises(ExecutionError, match="the default stream cannot be captured"):
        graphs.capture(AT, stream=default)
    assert steps() == []
    graphs.enqueue(AT, stream=STREAM)  # the refused ones have taken no stream
    steps()
    falling = CudaGraphs(EngineExecution(opened(**FIXED)), fallback=True)
    falling.enqueue(AT, stream=default)
    assert steps() == ["execute_async_v3"]
    assert falling.statistics.eager == 1


def test_a_broken_capture_is_an_error(graphs: CudaGraphs, driver: Driver) -> None:
    graphs.set_input_shapes({"x": (4, 2)})
    driver.failing["cuStreamEndCapture"] = 901
    with pytest.raises(ExecutionError, match=r"it was executed, and a capture of the same failed: .*error 901"):
        graphs.enqueue(AT, stream=STREAM)
    graphs.enqueue(AT, stream=STREAM)
    assert graphs.statistics.graphs == 1


def test_nothing_is_enqueued_before_there_are_shapes(graphs: CudaGraphs) -> None:
    for call in (lambda: graphs.enqueue(AT, stream=STREAM), lambda: graphs.get_tensor_shape("y")):
        with pytest.raises(ExecutionError, match="the engine has no shapes: set_input_shapes for 'x'"):
            call()


# Callers


def test_another_stream_is_refused_until_it_is_released(graphs: CudaGraphs) -> None:
    graphs.set_input_shapes({"x": (4, 2)})
    for _ in range(2):
        graphs.enqueue(AT, stream=STREAM)
        with pytest.raises(ExecutionError, match="the last work is on stream 0x7, this is for 0x8"):
            graphs.enqueue(AT, stream=8)
    graphs.release_stream()
    steps()
    graphs.enqueue(AT, stream=8)  # one graph is for all streams
    assert steps() == ["cuGraphLaunch"]


def test_another_thread_is_refused(graphs: CudaGraphs) -> None:
    graphs.set_input_shapes({"x": (4, 2)})
    graphs.enqueue(AT, stream=STREAM)
    raised: list[BaseException] = []

    def enqueue() -> None:
        try:
            graphs.enqueue(AT, stream=STREAM)
        except ExecutionError as error:
            raised.append(error)

    thread = threading.Thread(target=enqueue)
    thread.start()
    thread.join()
    assert "belongs to the thread" in str(raised[0])


def test_forgotten_graphs_go_with_their_contexts(opened: Opener) -> None:
    graphs = CudaGraphs(EngineExecution(opened(**FIXED)))
    graphs.enqueue(AT, stream=STREAM)
    JOURNAL.clear()
    del graphs
    gc.collect()
    assert [call[:2] for call in JOURNAL] == [
        ("cuGraphExecDestroy",),
        *(("del", name) for name in ("IExecutionContext", "ICudaEngine", "Runtime")),
    ]


# Settings


def test_other_settings_mean_other_graphs(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(**FIXED))
    graphs = CudaGraphs(execution)
    graphs.enqueue(AT, stream=STREAM)
    execution.runtime_settings = EAGER
    graphs.enqueue(AT, stream=STREAM)
    assert contexts() == 2
    assert graphs.statistics.captures == 2
    with runtime_config(execution, cuda_graph_strategy="whole_graph_capture"):
        for _ in range(2):
            with pytest.raises(ExecutionError, match="with which TensorRT-RTX has graphs of its own"):
                graphs.enqueue(AT, stream=STREAM)
    graphs.enqueue(AT, stream=STREAM)


def test_graphs_are_tensorrt_rtx_s_own_or_captured_here(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(**FIXED))
    with runtime_config(execution, cuda_graph_strategy="whole_graph_capture"):
        with pytest.raises(ExecutionError) as caught:
            enable_cudagraphs(execution)
        with enable_cudagraphs(execution, "whole_graph_capture") as same:
            same.enqueue(AT, stream=STREAM)
        execution.enqueue(AT, stream=STREAM)
    assert contexts() == 1
    assert str(caught.value) == (
        "no CUDA graph: cuda_graph_strategy is 'whole_graph_capture' in runtime_settings, with which TensorRT-RTX has "
        "graphs of its own: use the execution itself there, or leave the setting at 'disabled'"
    )


AGAIN = "executed without CUDA graphs, by another context .*: call set_input_shapes again"


def test_shapes_are_set_again_when_what_cannot_be_captured_begins_or_ends(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.runtime_settings = EAGER
    execution.set_input_shapes({"x": (2, 2)})
    graphs = CudaGraphs(execution, fallback=True)
    graphs.set_input_shapes({"x": (4, 2)})
    graphs.enqueue(AT, stream=STREAM)

    def refused() -> None:
        graphs.capture(AT, stream=STREAM)  # it sets no shapes
        steps()
        for call in (lambda: graphs.enqueue(AT, stream=STREAM), lambda: graphs.get_tensor_shape("y")):
            with pytest.raises(ExecutionError, match=AGAIN):
                call()
        assert steps() == []

    with runtime_config(execution, cuda_graph_strategy="whole_graph_capture"):
        refused()
        graphs.set_input_shapes({"x": (8, 2)})
        graphs.enqueue(AT, stream=STREAM)
        assert graphs.get_tensor_shape("y") == (8, 3)
    refused()
    graphs.set_input_shapes({"x": (8, 2)})
    graphs.enqueue(AT, stream=STREAM)
    execution.set_output_allocator("y", lambda *_: 4096)
    refused()
    graphs.set_input_shapes({"x": (6, 2)})
    graphs.enqueue({"x": 256}, stream=STREAM)
    assert graphs.get_tensor_shape("y") == (6, 3)


def test_arrays_set_shapes_whether_there_are_graphs_or_not(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    execution.runtime_settings = EAGER
    graphs = CudaGraphs(execution, fallback=True)

    def rows(count: int) -> int:
        arrays = DevicePointer(256, (count, 2), "fp32"), DevicePointer(768, (count, 3), "fp32")
        graphs({"x": arrays[0]}, {"y": arrays[1]}, stream=STREAM)
        graphs.enqueue(AT, stream=STREAM)
        return graphs.get_tensor_shape("y")[0]

    assert rows(4) == 4
    with runtime_config(execution, cuda_graph_strategy="whole_graph_capture"):
        assert rows(8) == 8
    assert rows(2) == 2


def test_fixed_shapes_are_captured_once_nothing_is_refused(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(**FIXED))
    execution.runtime_settings = RuntimeSettings(cuda_graph_strategy="whole_graph_capture")
    graphs = CudaGraphs(execution, fallback=True)
    graphs.enqueue(AT, stream=STREAM)
    execution.runtime_settings = RuntimeSettings()
    graphs.enqueue(AT, stream=STREAM)
    assert (graphs.statistics.eager, graphs.statistics.graphs) == (2, 1)


def test_a_strategy_is_tensorrt_rtx_s_own_for_the_block(opened_rtx: Opener) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    with enable_cudagraphs(execution, "whole_graph_capture") as inside:
        assert inside is execution
        execution.set_input_shapes({"x": (4, 2)})
        for _ in range(3):
            execution.enqueue(AT, stream=STREAM)
        assert contexts() == 1
        assert execution.runtime_settings.cuda_graph_strategy == "whole_graph_capture"
        with pytest.raises(ExecutionError, match="with which TensorRT-RTX has graphs of its own"):
            enable_cudagraphs(execution)
    assert steps() == ["execute_async_v3"] * 3  # nothing is captured here
    assert execution.runtime_settings == RuntimeSettings()


@pytest.mark.parametrize("outer", [True, False])
def test_blocks_of_both_kinds_make_one_context(opened_rtx: Opener, *, outer: bool) -> None:
    execution = EngineExecution(opened_rtx(x=X, y=Y))
    if outer:
        with (
            runtime_config(execution, dynamic_shapes_kernel_specialization_strategy="eager"),
            enable_cudagraphs(execution) as graphs,
        ):
            graphs.set_input_shapes({"x": (4, 2)})
            graphs.enqueue(AT, stream=STREAM)
    else:
        with enable_cudagraphs(execution, cuda_graph_strategy="whole_graph_capture") as same:
            same.set_input_shapes({"x": (4, 2)})
            same.enqueue(AT, stream=STREAM)
    assert contexts() == 1


def test_wrong_options_are_refused(opened: Opener, opened_rtx: Opener) -> None:
    standard, rtx = EngineExecution(opened(**FIXED)), EngineExecution(opened_rtx(**FIXED))
    with pytest.raises(RuntimeError, match="cuda_graph_strategy='whole_graph_capture' is TensorRT-RTX's"):
        enable_cudagraphs(standard, "whole_graph_capture")
    for execution in (standard, rtx):
        with pytest.raises(ValueError, match="cuda_graph_strategy must be one of disabled, whole_graph_capture"):
            enable_cudagraphs(execution, "yes")  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="limit is 0, must be at least 1"):
            enable_cudagraphs(execution, limit=0)
    with pytest.raises(ValueError, match="with a strategy the graphs are TensorRT-RTX's: leave out limit, pad_to"):
        enable_cudagraphs(rtx, "whole_graph_capture", fallback=True)  # type: ignore[call-overload]
