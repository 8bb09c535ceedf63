"""Each driver call that the launcher makes may fail: it is reported, nothing leaks, and the next attempt works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from testing.child import in_child

from hatch_tensoracle.testing import PluginFailedError
from hatch_tensoracle.testing.records import Allocation, Call, Free
from launcher.launching import Session, X, argument, session
from launcher.libraries import CPP

GIVEN = ["pointer:100", "pointer:100", argument("i32", 16), argument("i64", 1)]
QUESTIONS = {"cuGetErrorName", "cuGetErrorString", "cuMemGetInfo"}  # only asked when another call has failed

# Calls of a plugin that launches, the method that fails, and what the message says after the error.
LAUNCHING = [
    ("cuCtxGetCurrent", 1, "onShapeChange", "no CUDA context is current on this thread"),
    ("cuCtxGetDevice", 1, "onShapeChange", "asking for the current context's device"),
    ("cuDeviceGetAttribute", 1, "onShapeChange", "device 0, attribute 75"),
    ("cuDeviceGetAttribute", 2, "onShapeChange", "device 0, attribute 76"),
    ("cuDeviceGetAttribute", 3, "onShapeChange", "device 0, attribute 97"),
    ("cuThreadExchangeStreamCaptureMode", 1, "onShapeChange", "before loading kernels"),
    ("cuLibraryLoadData", 1, "onShapeChange", r"kernel shared#0, sm_86, \d+ bytes"),
    ("cuLibraryGetKernel", 1, "onShapeChange", "kernel shared#0, sm_86, symbol multiplied"),
    *(
        ("cuKernelGetAttribute", i + 1, "onShapeChange", f"kernel shared#0, sm_86, attribute {attribute}")
        for i, attribute in enumerate([0, 1, 4, 3])
    ),
    ("cuKernelSetAttribute", 1, "onShapeChange", "kernel shared#0, sm_86, 65536 bytes of dynamic shared memory"),
    ("cuThreadExchangeStreamCaptureMode", 3, "onShapeChange", "before loading kernels"),
    ("cuKernelGetFunction", 1, "onShapeChange", "kernel shared#0, sm_86"),
    (
        *("cuLaunchKernel", 1, "enqueue"),
        r"kernel shared#0, sm_86, grid \(3, 2, 1\), 256 threads, 65536 bytes of dynamic shared memory",
    ),
]

# The same of one that places device memory.
PLACING = [
    ("cuThreadExchangeStreamCaptureMode", 1, "before allocating device memory"),
    ("cuCtxGetCurrent", 1, "before allocating device memory"),
    *(
        each
        for i in (1, 2)  # it makes two buffers
        for each in (
            ("cuMemAlloc", i, "8 bytes of device memory"),
            ("cuPointerGetAttribute", i, "asking for the id of 8 bytes of device memory"),
            ("cuStreamCreate", i, "to fill device memory"),
            ("cuMemcpyHtoDAsync", i, "8 bytes"),
            ("cuStreamSynchronize", i, "after copying 8 bytes"),
        )
    ),
]


def leaked(at: Session) -> int:
    allocated = {allocation.address for allocation in at.driver.records(Allocation)}
    return len(allocated - {free.address for free in at.driver.records(Free)})


@pytest.mark.parametrize(
    ("call", "occurrence", "method", "text"), LAUNCHING, ids=[f"{call} {i}" for call, i, *_ in LAUNCHING]
)
@in_child
def test_failed_call_of_a_launch(library: Path, call: str, occurrence: int, method: str, text: str) -> None:
    with session(library) as at:
        running = at.make(kernel="shared", arguments="null null null", grid=[3, 2, 1])
        at.driver.fail(call, "CUDA_ERROR_NOT_PERMITTED", occurrence=occurrence)
        with pytest.raises(PluginFailedError) as caught:
            at.enqueue(running)
        assert caught.value.method == method
        message = caught.value.messages[-1]
        assert message.startswith(f"Launch: {method}: ")
        assert call in message
        assert "CUDA_ERROR_NOT_PERMITTED (800): operation not permitted" in message
        assert re.search(text, message), message
        at.enqueue(running)
        assert len(at.driver.launches) == 1
        assert len(
            [each for each in at.driver.records(Call) if each.name == "cuThreadExchangeStreamCaptureMode"]
        ) % 2 == (
            call == "cuThreadExchangeStreamCaptureMode"  # which is not restored where it failed
        )


@pytest.mark.parametrize(("call", "occurrence", "text"), PLACING, ids=[f"{call} {i}" for call, i, _ in PLACING])
@in_child
def test_failed_call_of_device_memory(library: Path, call: str, occurrence: int, text: str) -> None:
    with session(library) as at:
        built = at.harness.create("Weights", {"weights": [1.0, 2.0]})
        at.driver.clear()
        at.driver.fail(call, "CUDA_ERROR_OUT_OF_MEMORY", occurrence=occurrence + (call == "cuCtxGetCurrent"))
        with pytest.raises(PluginFailedError) as caught:
            built.build([X]).run_time()
        message = caught.value.messages[-1]
        assert message == (f"Weights: attachToContext: {call}: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; {text}")
        assert leaked(at) == 0
        running = built.build([X]).run_time()
        at.enqueue(running)
        running.close()
        assert leaked(at) == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("cuPointerGetAttribute", "to free 4 bytes"),
        ("cuCtxPushCurrent", "to free 4 bytes in their context"),
        ("cuMemFree", "4 bytes"),
        ("cuThreadExchangeStreamCaptureMode", "before freeing device memory"),
    ],
)
@in_child
def test_failed_call_while_device_memory_is_freed_is_logged(library: Path, call: str, text: str) -> None:
    with session(library) as at:
        running = at.make("Weights", weights=[1.0])
        at.driver.fail(call, "CUDA_ERROR_LAUNCH_FAILED")
        running.close()
        errors = [message.text for message in at.harness.messages if message.severity == "ERROR"]
        assert errors == [
            f"device memory: release: {call}: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure; {text}"
        ]
        at.make("Weights", weights=[1.0]).close()


# Calls that end what they belong to, when they come in the life of Weights, and what the warning says.
CLEANING = [
    ("cuStreamDestroy", 1, "after filling device memory"),
    ("cuCtxPopCurrent", 1, "the context that was current before device memory was freed is not again"),
    ("cuThreadExchangeStreamCaptureMode", 2, "this thread's capture mode could not be restored"),
]


@pytest.mark.parametrize(("call", "occurrence", "text"), CLEANING, ids=[call for call, *_ in CLEANING])
@in_child
def test_failed_call_that_ends_something_is_a_warning(library: Path, call: str, occurrence: int, text: str) -> None:
    with session(library) as at:
        at.driver.clear()
        at.driver.fail(call, "CUDA_ERROR_NOT_PERMITTED", occurrence=occurrence)
        running = at.make("Weights", weights=[1.0])
        at.enqueue(running)
        running.close()
        warnings = [message.text for message in at.harness.messages if message.severity != "INFO"]
        assert warnings == [f"{call}: CUDA_ERROR_NOT_PERMITTED (800): operation not permitted; {text}"]
        assert leaked(at) == 0


def test_every_call_of_the_launcher_is_among_these() -> None:
    source = (CPP / "src" / "driver.cpp").read_text()
    found = {name.removesuffix("_v2") for name in re.findall(r'find\(library, "(\w+)"', source)}
    tested = (
        {call for call, *_ in (*LAUNCHING, *PLACING)}
        | {call for call, *_ in CLEANING}
        | {"cuCtxPushCurrent", "cuMemFree"}
    )
    assert found == tested | QUESTIONS


def test_every_call_of_the_launcher_passes_through_the_counting_driver() -> None:
    source = (CPP / "src" / "driver.cpp").read_text()
    counted = (CPP.parent / "tests" / "gpu" / "counting_driver.cpp").read_text()
    assert set(re.findall(r'find\(library, "(\w+)"', source)) <= set(re.findall(r"CALL\((\w+)\)", counted))
