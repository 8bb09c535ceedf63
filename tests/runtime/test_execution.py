"""Executions, on the stand-in: what is asked of TensorRT, in which order, and what is refused before it is."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np  # noqa: TID253 - whose integers callers hand over
import pytest

from hatch_tensoracle.runtime import ExecutionError, enable_cudagraphs
from hatch_tensoracle.runtime.execution import EngineExecution
from runtime import stand_in
from runtime.conftest import Opener
from runtime.stand_in import FAILING, JOURNAL, tensor

SMALL, LARGE = [[1, 2], [4, 2], [8, 2]], [[9, 2], [16, 2], [64, 2]]
X = tensor("INPUT", (-1, 2), profiles=[SMALL, LARGE])
Y = tensor("OUTPUT", ("x.0", 3), dtype="HALF")
FIXED = tensor("INPUT", (5,))


def calls(*methods: str) -> list[tuple[Any, ...]]:
    return [call for call in JOURNAL if call[0] in methods]


@pytest.fixture
def execution(opened: Opener) -> EngineExecution:
    """One input that varies, in two profiles, one that does not, and one output."""
    return EngineExecution(opened(x=X, fixed=FIXED, y=Y))


@pytest.fixture
def ready(execution: EngineExecution) -> EngineExecution:
    """The same with shapes."""
    execution.set_input_shapes({"x": (4, 2)})
    JOURNAL.clear()
    return execution


GOOD = {"x": 256, "fixed": 512, "y": 768}


def test_the_context_is_made_with_the_first_use(execution: EngineExecution) -> None:
    assert calls("create_execution_context") == []
    execution.set_input_shapes({"x": (4, 2)})
    execution.enqueue(GOOD, stream=5)
    assert calls("create_execution_context") == [("create_execution_context", "STATIC")]


def test_shapes_are_set_together_and_then_known(execution: EngineExecution) -> None:
    execution.set_input_shapes({"x": [np.int64(4), 2]})
    assert execution.get_tensor_shape("x") == (4, 2)
    assert execution.get_tensor_shape("fixed") == (5,)
    assert execution.get_tensor_shape("y") == (4, 3)
    assert execution.get_tensor_dtype("y") is stand_in.float16
    assert calls("set_input_shape", "infer_shapes") == [("set_input_shape", "x", (4, 2)), ("infer_shapes",)]


def test_the_same_shapes_again_cost_tensorrt_nothing(ready: EngineExecution) -> None:
    ready.set_input_shapes({"x": (4, 2), "fixed": (5,)})
    assert JOURNAL == []


@pytest.mark.parametrize("shape", [(True, 2), (1, 2.0), (np.True_, 2)])
def test_the_same_shapes_again_must_be_integers_too(ready: EngineExecution, shape: Any) -> None:
    ready.set_input_shapes({"x": (1, 2), "fixed": (5,)})
    with pytest.raises(TypeError, match=r"the shape of input 'x', .*, must be an integer"):
        ready.set_input_shapes({"x": shape, "fixed": (5,)})


def test_an_engine_without_ranges_needs_no_shapes(opened: Opener) -> None:
    execution = EngineExecution(opened(fixed=FIXED, y=tensor("OUTPUT", (3,))))
    assert execution.get_tensor_shape("y") == (3,)
    execution.enqueue({"fixed": 256, "y": 512}, stream=0)
    assert calls("execute_async_v3") == [("execute_async_v3", 0)]


def test_a_profile_of_one_shape_needs_none_either(opened: Opener) -> None:
    single = tensor("INPUT", (-1, 2), profiles=[[[4, 2]] * 3])
    assert EngineExecution(opened(x=single, y=Y)).get_tensor_shape("y") == (4, 3)


def test_nothing_is_known_or_enqueued_before_shapes_are(execution: EngineExecution) -> None:
    with pytest.raises(ExecutionError, match="the engine has no shapes: set_input_shapes for 'x' has not succeeded"):
        execution.get_tensor_shape("y")
    with pytest.raises(ExecutionError, match="set_input_shapes"):
        execution.enqueue(GOOD, stream=0)
    assert calls("execute_async_v3") == []


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ({}, ValueError, "shapes: missing 'x'; expected are 'x'"),
        ({"x": (4, 2), "z": (1,)}, ValueError, "shapes: unexpected 'z'"),
        ({"x": (4, 2), "y": (4, 3)}, ValueError, "shapes: unexpected 'y'"),
        ({"x": (4, 3)}, ValueError, r"input 'x' is \(4, 3\), profile 0 takes \(1, 2\) to \(8, 2\); .* profile 1"),
        ({"x": (4,)}, ValueError, r"input 'x' is \(4,\)"),
        ({"x": (4, 2), "fixed": (6,)}, ValueError, r"input 'fixed' is \(6,\), profile 0 takes \(5,\)"),
        ({"x": (True, 2)}, TypeError, "the shape of input 'x', .*, must be an integer, not True"),
        ({"x": (4.0, 2)}, TypeError, "must be an integer, not 4.0"),
        ({"x": 4}, TypeError, "the shape of input 'x' must be a sequence of integers, not 4"),
        ({"x": np.array(4)}, TypeError, r"the shape of input 'x' must be a sequence of integers, not array\(4\)"),
        ({"x": "42"}, TypeError, "must be a sequence of integers"),
    ],
)
def test_shapes_that_no_profile_takes_are_refused_and_the_former_hold(
    ready: EngineExecution, shapes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ready.set_input_shapes(shapes)
    assert JOURNAL == []
    ready.enqueue(GOOD, stream=0)


@pytest.mark.parametrize("failing", [("set_input_shape", "z"), ("infer_shapes",)])
def test_a_partial_failure_blocks_until_all_succeeds(opened: Opener, failing: tuple[str, ...]) -> None:
    execution = EngineExecution(opened(x=X, z=X, y=Y))
    execution.set_input_shapes({"x": (4, 2), "z": (4, 2)})
    FAILING.add(failing)
    with pytest.raises(ExecutionError, match="TensorRT refuses"):
        execution.set_input_shapes({"x": (2, 2), "z": (2, 2)})
    for blocked in (
        lambda: execution.get_tensor_shape("x"),
        lambda: execution.enqueue({"x": 256, "z": 256, "y": 512}, stream=0),
    ):
        with pytest.raises(ExecutionError, match="set_input_shapes for 'x', 'z' has not succeeded"):
            blocked()
    assert calls("execute_async_v3") == []
    FAILING.clear()
    execution.set_input_shapes({"x": (4, 2), "z": (4, 2)})  # the very shapes of before are set again
    assert calls("set_input_shape")[-2:] == [("set_input_shape", "x", (4, 2)), ("set_input_shape", "z", (4, 2))]
    execution.enqueue({"x": 256, "z": 256, "y": 512}, stream=0)


def test_what_tensorrt_logged_is_in_the_error(execution: EngineExecution) -> None:
    FAILING.add(("set_input_shape", "x"))
    with pytest.raises(
        ExecutionError, match=r"shape \(4, 2\) of input 'x'; TensorRT logged:\n  x is no input whose shape"
    ):
        execution.set_input_shapes({"x": (4, 2)})


# Profiles


def test_the_profile_stays_while_the_shapes_fit(execution: EngineExecution) -> None:
    execution.set_input_shapes({"x": (8, 2)})
    assert execution.profile == 0
    execution.set_input_shapes({"x": (9, 2)}, stream=7)
    assert execution.profile == 1
    execution.set_input_shapes({"x": (64, 2)})
    execution.enqueue(GOOD, stream=7)
    execution.set_input_shapes({"x": (1, 2)})  # on the stream of the last work
    assert calls("set_optimization_profile_async") == [
        ("set_optimization_profile_async", 1, 7),
        ("set_optimization_profile_async", 0, 7),
    ]


def test_a_profile_can_be_chosen(opened: Opener) -> None:
    wide = [[1, 2], [32, 2], [64, 2]]
    execution = EngineExecution(opened(x=tensor("INPUT", (-1, 2), profiles=[SMALL, wide]), y=Y))
    execution.set_input_shapes({"x": (4, 2)}, profile=1, stream=3)
    assert execution.profile == 1
    execution.set_input_shapes({"x": (5, 2)})
    assert execution.profile == 1
    with pytest.raises(ValueError, match=r"input 'x' is \(9, 2\), profile 0 takes \(1, 2\) to \(8, 2\)$"):
        execution.set_input_shapes({"x": (9, 2)}, profile=0)
    with pytest.raises(ValueError, match="there is no profile 2: the engine has 2"):
        execution.set_input_shapes({"x": (4, 2)}, profile=2)
    for no_index in (False, 1.0, "1"):
        with pytest.raises(TypeError, match="the profile must be an integer, not"):
            execution.set_input_shapes({"x": (4, 2)}, profile=no_index)  # type: ignore[arg-type]


def test_a_first_change_of_profile_needs_a_stream(execution: EngineExecution) -> None:
    with pytest.raises(ValueError, match="the shapes need profile 1: give the stream"):
        execution.set_input_shapes({"x": (64, 2)})


# Addresses and streams


@pytest.mark.parametrize("address", [1, 2**63, np.int64(1024), np.uint64(2**63)])
def test_positive_integers_are_addresses(ready: EngineExecution, address: Any) -> None:
    ready.enqueue(GOOD | {"y": address}, stream=np.int32(9))
    assert [
        ("set_tensor_address", "x", 256),
        ("set_tensor_address", "fixed", 512),
        ("set_tensor_address", "y", int(address)),
        ("execute_async_v3", 9),
    ] == JOURNAL
    assert all(type(call[-1]) is int for call in JOURNAL)


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (True, TypeError),
        (False, TypeError),
        (np.True_, TypeError),
        (None, TypeError),
        (1.0, TypeError),
        (np.float32(1), TypeError),
        ("256", TypeError),
        (np.array([256, 256]), TypeError),
        (0, ValueError),
        (-256, ValueError),
        (np.int64(-256), ValueError),
        (2**64 + 256, ValueError),
    ],
)
@pytest.mark.parametrize("name", GOOD)
def test_other_addresses_are_refused_by_name(
    ready: EngineExecution, name: str, address: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=f"the address of tensor '{name}'"):
        ready.enqueue(GOOD | {name: address}, stream=0)
    assert JOURNAL == []


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ({"x": 256, "fixed": 256}, "addresses: missing 'y'; expected are 'x', 'fixed', 'y'"),
        (GOOD | {"z": 256}, "addresses: unexpected 'z'"),
        ({"x": 256, "fixed": 256, "z": 256}, "addresses: missing 'y'; unexpected 'z'"),
        ({}, "addresses: missing 'x', 'fixed', 'y'"),
    ],
)
def test_every_tensor_has_exactly_one_address(ready: EngineExecution, addresses: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ready.enqueue(addresses, stream=0)
    assert JOURNAL == []


@pytest.mark.parametrize("wrong", [[256, 512, 768], 256, "x"], ids=repr)
def test_what_is_no_mapping_by_name_is_named(ready: EngineExecution, wrong: Any) -> None:
    calls: dict[str, Callable[[], object]] = {
        "addresses": lambda: ready.enqueue(wrong, stream=0),
        "shapes": lambda: ready.set_input_shapes(wrong),
        "inputs": lambda: ready(wrong, stream=0),
        "out": lambda: ready({"x": None, "fixed": None}, out=wrong, stream=0),
    }
    for what, call in calls.items():
        with pytest.raises(TypeError, match=re.escape(f"{what} must be a mapping by tensor name, not {wrong!r}")):
            call()
    graphs = enable_cudagraphs(ready)
    with pytest.raises(TypeError, match=re.escape(f"shapes must be a mapping by tensor name, not {wrong!r}")):
        graphs.set_input_shapes(wrong)


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (True, TypeError),
        (None, TypeError),
        (0.0, TypeError),
        (-1, ValueError),
        (np.int64(-1), ValueError),
        (2**64, ValueError),
    ],
)
def test_other_streams_are_refused(ready: EngineExecution, stream: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="the stream's handle"):
        ready.enqueue(GOOD, stream=stream)
    assert JOURNAL == []


def test_another_stream_is_refused_until_the_caller_says_that_work_is_complete(ready: EngineExecution) -> None:
    ready.enqueue(GOOD, stream=0)
    ready.enqueue(GOOD, stream=0)
    with pytest.raises(ExecutionError, match=r"the last work is on stream 0x0, this is for 0x10, .* release_stream"):
        ready.enqueue(GOOD, stream=16)
    with pytest.raises(ExecutionError, match="release_stream"):
        ready.set_input_shapes({"x": (64, 2)}, stream=16)
    ready.release_stream()
    ready.set_input_shapes({"x": (4, 2)})
    ready.enqueue(GOOD, stream=16)
    assert calls("execute_async_v3")[-1] == ("execute_async_v3", 16)


def test_a_refused_enqueue_takes_no_stream(ready: EngineExecution) -> None:
    with pytest.raises(ValueError, match="address"):
        ready.enqueue(GOOD | {"x": 0}, stream=16)
    ready.enqueue(GOOD, stream=17)


def test_what_tensorrt_refuses_to_execute_is_an_error(ready: EngineExecution) -> None:
    FAILING.add(("execute_async_v3",))
    with pytest.raises(ExecutionError, match=r"TensorRT refuses to execute; TensorRT logged:\n  not all is set"):
        ready.enqueue(GOOD, stream=0)
    FAILING.clear()
    FAILING.add(("set_tensor_address", "y"))
    with pytest.raises(ExecutionError, match="TensorRT refuses the address of tensor 'y'"):
        ready.enqueue(GOOD, stream=0)


def test_a_context_that_cannot_be_made_is_an_error(execution: EngineExecution) -> None:
    FAILING.add(("create_execution_context",))
    with pytest.raises(
        ExecutionError, match="to create an execution context; TensorRT logged:\n  the stand-in was told"
    ):
        execution.set_input_shapes({"x": (4, 2)})


# One caller at a time


def on_another_thread(call: Callable[[], object]) -> BaseException | None:
    raised: list[BaseException | None] = [None]

    def target() -> None:
        try:
            call()
        except ExecutionError as error:
            raised[0] = error

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    return raised[0]


def test_another_thread_is_refused(ready: EngineExecution) -> None:
    ready.enqueue(GOOD, stream=0)
    for call in (lambda: ready.enqueue(GOOD, stream=0), lambda: ready.get_tensor_shape("y")):
        assert "belongs to the thread that used it first" in str(on_another_thread(call))
    ready.enqueue(GOOD, stream=0)


def test_another_cuda_context_is_refused(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    current = [0x10]
    monkeypatch.setattr("hatch_tensoracle.runtime.sole_use.current_context_reader", lambda: lambda: current[0])
    execution = EngineExecution(opened(x=FIXED))
    execution.enqueue({"x": 256}, stream=0)
    current[0] = 0x20
    for call in (lambda: execution.enqueue({"x": 256}, stream=0), lambda: execution.get_tensor_shape("x")):
        with pytest.raises(ExecutionError, match="in the CUDA context 0x10 and belongs to it; the current one is 0x20"):
            call()
    assert len(calls("execute_async_v3")) == 1
    current[0] = 0x10
    execution.enqueue({"x": 256}, stream=0)


def test_the_thread_that_uses_it_first_has_it(execution: EngineExecution) -> None:
    assert on_another_thread(lambda: execution.set_input_shapes({"x": (4, 2)})) is None
    with pytest.raises(ExecutionError, match="belongs to the thread"):
        execution.enqueue(GOOD, stream=0)


def test_two_calls_at_once_are_refused(opened: Opener) -> None:
    execution = EngineExecution(opened(x=FIXED, y=tensor("OUTPUT", ("?8",))))
    seen: list[BaseException | None] = []

    def allocate(_size: int, _alignment: int, _stream: int) -> int:
        calls_ = (
            lambda: execution.enqueue({"x": 256}, stream=0),
            lambda: execution.get_tensor_shape("x"),
            execution.close,
        )
        seen.extend(map(on_another_thread, calls_))
        return 4096

    execution.set_output_allocator("y", allocate)
    execution.enqueue({"x": 256}, stream=0)
    assert ["in use by another call" in str(error) for error in seen] == [True] * 3
    execution.enqueue({"x": 256}, stream=0)


# Shape tensors

TARGET = tensor("INPUT", (2,), dtype="INT64", values=[[[1, 1], [4, 4], [8, 8]]])


def test_contents_of_shape_tensors_are_set_like_shapes(opened: Opener) -> None:
    size = tensor("OUTPUT", (2,), dtype="INT32", contents=("target[1]", "x.0"))
    resized = tensor("OUTPUT", ("target[0]", "target[1]"))
    execution = EngineExecution(opened(x=FIXED, target=TARGET, y=resized, size=size))
    execution.set_input_shapes({"target": (3, 7)})
    assert execution.get_tensor_shape("y") == (3, 7)
    assert execution.get_tensor_values("target") == (3, 7)
    assert execution.get_tensor_values("size") == (7, 5)
    assert execution.get_tensor_shape("size") == (2,)
    assert execution.buffers == ("x", "y")
    execution.enqueue({"x": 256, "y": 512}, stream=0)
    execution.set_input_shapes({"target": (8, 1)})
    assert execution.get_tensor_shape("y") == (8, 1)
    with pytest.raises(ValueError, match=r"input 'target' is \(9, 1\), profile 0 takes \(1, 1\) to \(8, 8\)"):
        execution.set_input_shapes({"target": (9, 1)})
    with pytest.raises(ValueError, match="tensor 'x' is no shape tensor"):
        execution.get_tensor_values("x")


def test_shape_tensors_may_have_no_element(opened: Opener) -> None:
    nothing = tensor("INPUT", (0,), dtype="INT64", values=[[[], [], []]] * 2)  # in two profiles
    execution = EngineExecution(opened(x=X, nothing=nothing, y=Y))
    execution.set_input_shapes({"x": (4, 2), "nothing": ()})
    assert execution.get_tensor_values("nothing") == ()
    execution.enqueue({"x": 256, "y": 512}, stream=0)
    with pytest.raises(ValueError, match=r"input 'nothing' is \(1,\)"):
        execution.set_input_shapes({"x": (4, 2), "nothing": (1,)})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (tensor("OUTPUT", (2,), dtype="FLOAT", contents=(1, 2)), "is a shape tensor of FLOAT"),
        (tensor("OUTPUT", ("x.0",), dtype="INT64", contents=(1, 2)), "its length must be known"),
        (tensor("OUTPUT", (2,), dtype="INT64", location="HOST"), "is on the host and no shape tensor"),
        (
            tensor("OUTPUT", (2,), dtype="INT64", contents=(1, 2)) | {"location": "DEVICE"},
            "shape tensor in device memory",
        ),
    ],
)
def test_tensors_that_would_crash_are_refused_before_there_is_a_context(
    opened: Opener, bad: dict[str, Any], message: str
) -> None:
    with pytest.raises(ExecutionError, match=f"tensor 'bad' .*{message}"):
        EngineExecution(opened(x=X, bad=bad))
    assert calls("create_execution_context") == []


# Outputs of a size that the data decide, and over inputs


@pytest.fixture
def filtering(opened: Opener) -> EngineExecution:
    """At most as many rows as x has come out."""
    return EngineExecution(opened(x=X, y=tensor("OUTPUT", ("?6", 2))))


def test_the_caller_s_function_allocates(filtering: EngineExecution) -> None:
    wanted: list[tuple[int, ...]] = []
    filtering.set_input_shapes({"x": (4, 2)})
    assert filtering.get_tensor_shape("y") == (-1, 2)
    with pytest.raises(ExecutionError, match="the data decide the size of output 'y': call set_output_allocator"):
        filtering.enqueue({"x": 256, "y": 512}, stream=3)

    def allocate(*request: int) -> int:
        wanted.append(request)
        return 4096

    filtering.set_output_allocator("y", allocate)
    assert filtering.buffers == ("x",)
    filtering.enqueue({"x": 256}, stream=3)
    assert wanted == [(48, 256, 3)]
    assert filtering.get_tensor_shape("y") == (6, 2)
    filtering.set_input_shapes({"x": (5, 2)})
    assert filtering.get_tensor_shape("y") == (-1, 2)
    with pytest.raises(ValueError, match="addresses: unexpected 'y'"):
        filtering.enqueue({"x": 256, "y": 512}, stream=3)


def test_an_allocator_of_the_binding_is_taken(filtering: EngineExecution) -> None:
    class Allocator(stand_in.IOutputAllocator):
        def __init__(self) -> None:
            stand_in.IOutputAllocator.__init__(self)
            self.seen: list[Any] = []

        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            self.seen.append((tensor_name, memory, size, alignment))
            return 4096

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.seen.append((tensor_name, tuple(shape)))

    allocator = Allocator()
    filtering.set_input_shapes({"x": (4, 2)})
    filtering.set_output_allocator("y", allocator)
    filtering.enqueue({"x": 256}, stream=3)
    assert allocator.seen == [("y", 0, 48, 256), ("y", (6, 2))]
    assert filtering.get_tensor_shape("y") == (6, 2)


def test_an_allocator_that_fails_is_the_cause(filtering: EngineExecution) -> None:
    filtering.set_input_shapes({"x": (4, 2)})
    filtering.set_output_allocator("y", lambda *_: 1 // 0)
    with pytest.raises(ExecutionError, match="no memory for y") as caught:
        filtering.enqueue({"x": 256}, stream=3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    filtering.set_output_allocator("y", lambda *_: 0)
    with pytest.raises(ExecutionError, match="no memory for y"):
        filtering.enqueue({"x": 256}, stream=3)


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (True, TypeError),
        (4096.5, TypeError),
        (None, TypeError),
        ("4096", TypeError),
        (-1, ValueError),
        (2**64, ValueError),
    ],
)
def test_what_an_allocator_gives_must_be_an_address(
    filtering: EngineExecution, address: Any, error: type[Exception]
) -> None:
    filtering.set_input_shapes({"x": (4, 2)})
    filtering.set_output_allocator("y", lambda *_: address)
    with pytest.raises(ExecutionError, match="no memory for y") as caught:
        filtering.enqueue({"x": 256}, stream=3)
    assert isinstance(caught.value.__cause__, error)
    assert "the address that the allocator of output 'y' gave" in str(caught.value.__cause__)


def test_an_allocator_that_fails_to_be_told_the_shape_is_not_passed_over(filtering: EngineExecution) -> None:
    """TensorRT's binding prints what it raises, and goes on."""

    class Allocator(stand_in.IOutputAllocator):
        def reallocate_output(self, *_: Any) -> int:
            return 4096

        def notify_shape(self, *_: Any) -> None:
            raise LookupError("nowhere")

    filtering.set_input_shapes({"x": (4, 2)})
    filtering.set_output_allocator("y", Allocator())
    for _ in range(2):
        with pytest.raises(ExecutionError, match="is enqueued, but notify_shape of an output's allocator") as caught:
            filtering.enqueue({"x": 256}, stream=3)
        assert isinstance(caught.value.__cause__, LookupError)


def test_an_earlier_failure_is_not_the_cause(filtering: EngineExecution) -> None:
    filtering.set_input_shapes({"x": (4, 2)})
    filtering.set_output_allocator("y", lambda *_: 1 // 0)
    with pytest.raises(ExecutionError, match="no memory for y"):
        filtering.enqueue({"x": 256}, stream=3)
    FAILING.add(("execute_async_v3",))  # before it allocates
    with pytest.raises(ExecutionError, match="not all is set") as caught:
        filtering.enqueue({"x": 256}, stream=3)
    assert caught.value.__cause__ is None


def test_messages_may_arrive_while_an_error_is_made(filtering: EngineExecution) -> None:
    """On other threads, which collect for all executions; here in the middle of reading one."""
    logger = filtering.distribution.logger

    class Message(str):
        __slots__ = ()

        def __format__(self, _specification: str) -> str:
            logger.log(stand_in.ILogger.ERROR, "another")
            return "the first"

    filtering.set_input_shapes({"x": (4, 2)})
    filtering.set_output_allocator("y", lambda *_: logger.log(stand_in.ILogger.ERROR, Message()) or 0)
    with pytest.raises(ExecutionError, match=r"TensorRT logged:\n  the first\n  no memory for y"):
        filtering.enqueue({"x": 256}, stream=3)


def test_an_allocator_that_is_replaced_is_let_go(filtering: EngineExecution) -> None:
    """TensorRT's binding keeps what it is given as long as the context."""

    class Allocate:
        def __init__(self, address: int) -> None:
            self.address = address

        def __call__(self, *_: int) -> int:
            return self.address

    filtering.set_input_shapes({"x": (4, 2)})
    first = Allocate(4096)
    filtering.set_output_allocator("y", first)
    is_gone = weakref.ref(first)
    del first
    filtering.enqueue({"x": 256}, stream=3)
    filtering.set_output_allocator("y", Allocate(8192))
    gc.collect()
    assert is_gone() is None
    assert filtering.get_tensor_shape("y") == (-1, 2)
    filtering.enqueue({"x": 256}, stream=3)
    assert filtering.allocators["y"].address == 8192
    with pytest.raises(TypeError, match="must be a function or an IOutputAllocator, not 4096"):
        filtering.set_output_allocator("y", 4096)
    is_gone = weakref.ref(filtering.allocators["y"].given)
    filtering.set_output_allocator("y", None)
    gc.collect()
    assert is_gone() is None


def test_without_its_allocator_an_output_needs_an_address_again(ready: EngineExecution) -> None:
    ready.set_output_allocator("y", None)  # there is none: nothing changes
    assert JOURNAL == []
    ready.set_output_allocator("y", lambda *_: 4096)
    assert "y" not in ready.buffers
    ready.set_output_allocator("y", None)
    assert ready.buffers == ("x", "fixed", "y")
    assert calls("set_output_allocator")[-1] == ("set_output_allocator", "y", False)
    ready.enqueue(GOOD, stream=0)


def test_only_outputs_have_allocators(filtering: EngineExecution) -> None:
    with pytest.raises(ValueError, match="tensor 'x' is no output in device memory"):
        filtering.set_output_allocator("x", lambda *_: 4096)
    with pytest.raises(ValueError, match="there is no tensor 'z'; the engine has 'x', 'y'"):
        filtering.set_output_allocator("z", lambda *_: 4096)
    with pytest.raises(TypeError, match="must be a function or an IOutputAllocator, not 4096"):
        filtering.set_output_allocator("y", 4096)


def test_an_output_over_an_input_has_its_address(opened: Opener) -> None:
    execution = EngineExecution(opened(x=FIXED, y=tensor("OUTPUT", (5,), aliased="x")))
    execution.enqueue({"x": 256, "y": 256}, stream=0)
    with pytest.raises(ValueError, match="output 'y' is written over input 'x': its address must be 0x100, not 0x200"):
        execution.enqueue({"x": 256, "y": 512}, stream=0)


@pytest.mark.parametrize("places", [{}, {"y": 256}, {"y": 256 + 31}, {"y": 256 - 23}, {"y": 512, "z": 512 + 23}])
def test_no_output_is_where_another_tensor_is(opened: Opener, places: dict[str, int]) -> None:
    """Even where it was enqueued to other memory, or with smaller shapes, before."""
    execution = EngineExecution(opened(x=X, w=X, y=Y, z=Y))
    apart = {"x": 256, "w": 256 + 16, "y": 4096, "z": 8192}  # inputs may overlap
    execution.set_input_shapes({"x": (4, 2), "w": (4, 2)})
    execution.enqueue(apart, stream=0)
    JOURNAL.clear()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"tensors '.' and '.' overlap, .* give every output memory of its own"):
            execution.enqueue(apart | (places or dict.fromkeys(apart, 256)), stream=0)
    assert JOURNAL == []
    execution.enqueue(apart | {"y": 256 + 16 + 32, "z": 256 - 24}, stream=0)  # side by side


def test_tensors_that_grow_into_one_another_are_refused(ready: EngineExecution) -> None:
    near = {"x": 256, "fixed": 1024, "y": 256 + 4 * 8}
    ready.enqueue(near, stream=0)
    ready.set_input_shapes({"x": (5, 2)})
    with pytest.raises(ValueError, match="'x' and 'y' overlap, 40 bytes at 0x100 and 30 at 0x120"):
        ready.enqueue(near, stream=0)


def test_an_input_that_is_written_over_is_no_other_s_memory(opened: Opener) -> None:
    execution = EngineExecution(opened(x=FIXED, w=FIXED, y=tensor("OUTPUT", (5,), aliased="x")))
    with pytest.raises(ValueError, match="tensors 'w' and 'x' overlap"):
        execution.enqueue({"x": 256, "w": 256, "y": 256}, stream=0)
    execution.enqueue({"x": 256, "w": 512, "y": 256}, stream=0)


def test_elements_may_be_smaller_than_a_byte(opened: Opener) -> None:
    execution = EngineExecution(opened(x=FIXED, y=tensor("OUTPUT", (5,), dtype="FP4")))
    execution.enqueue({"x": 256 + 3, "y": 256}, stream=0)
    with pytest.raises(ValueError, match="'y' and 'x' overlap, 3 bytes at 0x100 and 20 at 0x102"):
        execution.enqueue({"x": 256 + 2, "y": 256}, stream=0)


# The caller's workspace


def test_the_caller_s_workspace_is_used(opened: Opener) -> None:
    execution = EngineExecution(opened(workspace=100, x=X, y=Y), caller_workspace=True)
    assert execution.workspace_size == 100 * 8 * 2  # of the profile's largest shape
    assert calls("create_execution_context") == [("create_execution_context", "USER_MANAGED")]
    execution.set_input_shapes({"x": (4, 2)})
    assert execution.workspace_size == 800
    with pytest.raises(ExecutionError, match="the workspace has 0 bytes; 800 are needed"):
        execution.enqueue({"x": 256, "y": 512}, stream=0)
    execution.set_workspace(0x1000, 800)
    execution.enqueue({"x": 256, "y": 512}, stream=0)
    execution.set_input_shapes({"x": (2, 2)})
    execution.enqueue({"x": 256, "y": 512}, stream=0)
    execution.set_input_shapes({"x": (8, 2)})
    with pytest.raises(ExecutionError, match="the workspace has 800 bytes; 1600 are needed"):
        execution.enqueue({"x": 256, "y": 512}, stream=0)


@pytest.mark.parametrize(
    ("address", "size", "error", "message"),
    [
        (0x1001, 1600, ValueError, "address 0x1001 is not aligned to 256 bytes"),
        (True, 1600, TypeError, "the address of the workspace"),
        (0x1000, -1, ValueError, "the workspace's size is -1"),
        (0x1000, 1599, ValueError, "the workspace has 1599 bytes; 1600 are needed"),
    ],
)
def test_other_workspaces_are_refused(
    opened: Opener, address: Any, size: int, error: type[Exception], message: str
) -> None:
    execution = EngineExecution(opened(workspace=100, x=X, y=Y), caller_workspace=True)
    with pytest.raises(error, match=message):
        execution.set_workspace(address, size)
    assert calls("set_device_memory") == []


def test_a_workspace_that_is_not_wanted_is_refused(execution: EngineExecution) -> None:
    with pytest.raises(ExecutionError, match="create the execution with caller_workspace=True"):
        execution.set_workspace(0x1000, 4096)


# Warming up and closing


def test_warming_up_makes_the_context_and_infers(execution: EngineExecution) -> None:
    execution.warm_up([{"x": (1, 2)}, {"x": (8, 2)}])
    assert [call[0] for call in JOURNAL if call[0] != "set_input_shape"] == [
        "create_execution_context",
        "infer_shapes",
        "infer_shapes",
    ]
    assert execution.get_tensor_shape("x") == (8, 2)


def test_warming_up_takes_several_shapes(execution: EngineExecution) -> None:
    shapes: Any = {"x": (4, 2)}
    with pytest.raises(TypeError, match=re.escape("must be a sequence, of mappings by tensor name: [{'x': (4, 2)}]")):
        execution.warm_up(shapes)


def test_warming_up_executes_on_the_caller_s_buffers(execution: EngineExecution) -> None:
    execution.warm_up([{"x": (1, 2)}, {"x": (64, 2)}], GOOD, stream=4)
    assert calls("execute_async_v3", "set_optimization_profile_async") == [
        ("execute_async_v3", 4),
        ("set_optimization_profile_async", 1, 4),
        ("execute_async_v3", 4),
    ]
    with pytest.raises(ValueError, match="warm_up needs the stream to enqueue on"):
        execution.warm_up([], GOOD)


def test_the_context_goes_before_the_engine(opened: Opener) -> None:
    handle = opened(x=FIXED)
    with EngineExecution(handle) as execution:
        execution.enqueue({"x": 256}, stream=0)
        del handle
        gc.collect()
        assert calls("del") == []  # the execution keeps both
    assert calls("del") == [("del", "IExecutionContext"), ("del", "ICudaEngine"), ("del", "Runtime")]


def test_an_execution_that_is_forgotten_goes_in_the_same_order(opened: Opener) -> None:
    execution = EngineExecution(opened(x=FIXED))
    execution.enqueue({"x": 256}, stream=0)
    JOURNAL.clear()
    del execution
    assert calls("del") == [("del", "IExecutionContext"), ("del", "ICudaEngine"), ("del", "Runtime")]


def test_closing_again_does_nothing_and_all_else_is_refused(ready: EngineExecution) -> None:
    ready.close()
    ready.close()
    for call in (
        lambda: ready.enqueue(GOOD, stream=0),
        lambda: ready.set_input_shapes({"x": (4, 2)}),
        lambda: ready.get_tensor_shape("x"),
        lambda: ready.get_tensor_dtype("x"),
        lambda: ready.profile,
        lambda: ready.workspace_size,
        lambda: ready.warm_up([]),
        ready.release_stream,
    ):
        with pytest.raises(ExecutionError, match="the execution is closed"):
            call()


def test_closing_needs_no_context(execution: EngineExecution) -> None:
    execution.close()
    assert calls("create_execution_context") == []


def test_nothing_waits_allocates_or_copies(ready: EngineExecution) -> None:
    """Enqueue calls two methods of the binding and no other."""
    for _ in range(3):
        ready.enqueue(GOOD, stream=1)
    assert {call[0] for call in JOURNAL} == {"set_tensor_address", "execute_async_v3"}
