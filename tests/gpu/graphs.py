"""CUDA graphs, as far as tests replay what they captured."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

from hatch_tensoracle.testing import Cuda, CudaError, Stream
from hatch_tensoracle.testing.cuda import CaptureMode

__all__ = ["Graph"]


class _UpdateResult(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = (("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from_node", ctypes.c_void_p))


class Graph:
    """What a stream captured, ready to be launched."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._executable = ctypes.c_void_p()

    @contextlib.contextmanager
    def capture(self, stream: Stream, mode: CaptureMode) -> Iterator[None]:
        """Capture what is enqueued inside. A second capture updates the executable graph that the first made."""
        stream.begin_capture(mode)
        graph = ctypes.c_void_p()
        end = ("cuStreamEndCapture", ctypes.c_void_p(stream.handle), ctypes.byref(graph))
        try:
            yield
        except BaseException:
            with contextlib.suppress(CudaError):  # broken by the error that is on its way
                self._cuda.call(*end)
            raise
        self._cuda.call(*end)
        if self._executable:
            self._cuda.call("cuGraphExecUpdate_v2", self._executable, graph, ctypes.byref(_UpdateResult()))
        else:
            flags = ctypes.c_uint64(0)
            self._cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(self._executable), graph, flags)
        self._cuda.call("cuGraphDestroy", graph)

    def launch(self, stream: Stream) -> None:
        """Enqueue it."""
        self._cuda.call("cuGraphLaunch", self._executable, ctypes.c_void_p(stream.handle))

    def destroy(self) -> None:
        """Destroy it."""
        self._cuda.call("cuGraphExecDestroy", self._executable)
