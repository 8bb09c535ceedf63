"""One CUDA graph: what was enqueued on a stream, to be launched as a whole, again and again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Self

from hatch_tensoracle.runtime.driver import driver
from hatch_tensoracle.runtime.errors import ExecutionError

__all__ = ["CudaGraph", "wait_for"]

_THREAD_LOCAL = 1
"""CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: what other threads do meanwhile breaks nothing."""
_UPDATE_FAILURE = "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"


class _UpdateResult(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = (("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from_node", ctypes.c_void_p))


class CudaGraph:
    """An executable graph, in the CUDA context that it was captured in.

    It may be closed while it executes: the driver keeps it until that is done. Methods raise ExecutionError with the
    driver's name for what is wrong, and what the captured function raises.
    """

    def __init__(self, executable: ctypes.c_void_p, size: int) -> None:
        self._executable = executable
        self._destroy = driver().function("cuGraphExecDestroy", ctypes.c_void_p)
        self._launch = driver().function("cuGraphLaunch", ctypes.c_void_p, ctypes.c_void_p)
        self.size = size
        """Bytes of device memory that were taken for it, by cuMemGetInfo: what else the process does counts as well."""

    @classmethod
    def capture(cls, stream: int, enqueue: Callable[[], object]) -> Self:
        """Capture what the function enqueues on the stream, which must not be the default one. Nothing is executed."""
        graph = _captured(stream, enqueue)
        try:
            return cls(*_instantiated(graph))
        finally:
            _call("a graph cannot be destroyed", "cuGraphDestroy", graph)

    def update(self, stream: int, enqueue: Callable[[], object]) -> bool:
        """Capture again, and return whether the executable graph could be changed in place; else there is another."""
        graph = _captured(stream, enqueue)
        try:
            code = driver().function("cuGraphExecUpdate_v2")(self._executable, graph, ctypes.byref(_UpdateResult()))
            if not code:
                return True
            if driver().error_name(code) != _UPDATE_FAILURE:
                raise _failed("the graph cannot be updated", "cuGraphExecUpdate", code)
            executable, size = _instantiated(graph)
            self.close()
            self._executable, self.size = executable, size
            return False
        finally:
            _call("a graph cannot be destroyed", "cuGraphDestroy", graph)

    def launch(self, stream: int) -> None:
        """Enqueue it."""
        if code := self._launch(self._executable, stream):
            raise _failed("the graph cannot be launched", "cuGraphLaunch", code)

    def close(self) -> None:
        """Let it go; again, it does nothing."""
        if self._executable:
            executable, self._executable = self._executable, ctypes.c_void_p()
            self._destroy(executable)  # fails where all of the context is gone already


def wait_for(stream: int) -> None:
    """Wait for the work on a stream. Raises ExecutionError."""
    _call("the stream cannot be waited for", "cuStreamSynchronize", ctypes.c_void_p(stream))


def _captured(stream: int, enqueue: Callable[[], object]) -> ctypes.c_void_p:
    graph = ctypes.c_void_p()
    end = ctypes.c_void_p(stream), ctypes.byref(graph)
    _call("the stream cannot be captured", "cuStreamBeginCapture_v2", ctypes.c_void_p(stream), _THREAD_LOCAL)
    try:
        enqueue()
    except BaseException:
        # Whatever it is, the stream must not be left capturing; the capture may be broken by what is on its way.
        if not driver().function("cuStreamEndCapture")(*end) and graph:
            _call("a graph cannot be destroyed", "cuGraphDestroy", graph)
        raise
    _call("what was enqueued cannot be captured", "cuStreamEndCapture", *end)
    return graph


def _instantiated(graph: ctypes.c_void_p) -> tuple[ctypes.c_void_p, int]:
    executable, before = ctypes.c_void_p(), _free_memory()
    arguments = ctypes.byref(executable), graph, ctypes.c_uint64(0)
    _call("the graph cannot be instantiated", "cuGraphInstantiateWithFlags", *arguments)
    return executable, max(0, before - _free_memory())


def _free_memory() -> int:
    available, total = ctypes.c_size_t(), ctypes.c_size_t()
    _call("the free memory cannot be read", "cuMemGetInfo_v2", ctypes.byref(available), ctypes.byref(total))
    return available.value


def _call(failure: str, name: str, *arguments: object) -> None:
    if code := driver().function(name)(*arguments):
        raise _failed(failure, name, code)


def _failed(failure: str, name: str, code: int) -> ExecutionError:
    return ExecutionError(f"{failure}: {name.partition('_')[0]} fails with {driver().error_name(code)}")
