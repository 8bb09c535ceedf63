"""The CUDA driver API as far as tests need it, by ctypes: on a GPU and on the fake driver alike."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Self, get_args

from hatch_tensoracle.testing.errors import CudaError, PluginTestError

__all__ = ["CaptureMode", "Context", "Cuda", "Device", "Event", "Graph", "Stream"]

CaptureMode = Literal["global", "thread_local", "relaxed"]
"""How strictly a capture forbids unsafe calls; see cuThreadExchangeStreamCaptureMode."""

_CAPTURE_STATUS = ("none", "active", "invalidated")
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_BUFFER_ID = 7  # CU_POINTER_ATTRIBUTE_BUFFER_ID
_L2_SIZE, _MAJOR, _MINOR = 38, 75, 76  # CUdevice_attribute

# The driver exports these under another name than they are documented with.
_SECOND_VERSION = {
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuDevicePrimaryCtxRelease",
    "cuEventDestroy",
    "cuGraphExecUpdate",
    "cuMemAlloc",
    "cuMemcpyDtoDAsync",
    "cuMemFree",
    "cuMemGetInfo",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemcpyHtoDAsync",
    "cuStreamBeginCapture",
    "cuStreamDestroy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU."""

    name: str
    sm: int
    """86 for compute capability 8.6."""
    l2: int
    """Bytes of the L2 cache."""


class Cuda:
    """The process's driver, `libcuda.so.1`. Raises PluginTestError if there is none."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            message = f"the CUDA driver cannot be loaded: {error}"
            raise PluginTestError(message, remedy="Create a FakeDriver first, or use a machine with a GPU.") from error
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function by its documented name; pointers and sizes are ctypes objects. Raises CudaError."""
        code = getattr(self._library, self.exported(name))(*arguments)
        if code:
            raise CudaError(name, code, self._text("cuGetErrorName", code), self._text("cuGetErrorString", code))

    @staticmethod
    def exported(name: str) -> str:
        """The symbol of a documented function."""
        return f"{name}_v2" if name in _SECOND_VERSION else name

    def create_context(self, device: int = 0) -> Context:
        """Create a context, which becomes the calling thread's current one."""
        return Context(self, self._made("cuCtxCreate", 0, device))

    def current_context(self) -> Context | None:
        """The calling thread's current context."""
        handle = self._made("cuCtxGetCurrent")
        return Context(self, handle) if handle else None

    def current_device(self) -> Device:
        """The device of the current context."""
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        self.call("cuCtxGetDevice", ctypes.byref(device))
        self.call("cuDeviceGetName", name, len(name), device)
        values = [ctypes.c_int() for _ in range(3)]
        for value, attribute in zip(values, (_L2_SIZE, _MAJOR, _MINOR), strict=True):
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        l2, major, minor = (value.value for value in values)
        return Device(name=name.value.decode(), sm=10 * major + minor, l2=l2)

    def driver_version(self) -> str:
        """`580.95.05`; where only the API's version can be told, `CUDA 13.0`."""
        try:
            management, version = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.create_string_buffer(96)
            if management.nvmlInit_v2() == 0 and management.nvmlSystemGetDriverVersion(version, len(version)) == 0:
                return version.value.decode()
        except OSError:
            pass
        api = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(api))
        return f"CUDA {api.value // 1000}.{api.value % 1000 // 10}"

    def free_memory(self) -> int:
        """Bytes that can be allocated on the current context's device."""
        available, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo", ctypes.byref(available), ctypes.byref(total))
        return available.value

    def create_event(self) -> Event:
        """Create an event in the current context."""
        return Event(self, self._made("cuEventCreate", 0))

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes in the current context and return their address."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Free what was allocated."""
        self.call("cuMemFree", ctypes.c_uint64(address))

    def buffer_id(self, address: int) -> int:
        """What no other allocation of the process has; 0 if there is none, which may be asked of any address.

        An allocation goes with its context, of which the driver must not be asked: it may read freed memory then.
        """
        number = ctypes.c_uint64()
        try:
            self.call("cuPointerGetAttribute", ctypes.byref(number), _BUFFER_ID, ctypes.c_uint64(address))
        except CudaError as error:
            if error.name != "CUDA_ERROR_INVALID_VALUE":
                raise
        return number.value

    def copy_to_device(self, address: int, data: bytes) -> None:
        """Copy from the host; complete on return."""
        self.call("cuMemcpyHtoD", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def copy_to_host(self, address: int, size: int) -> bytes:
        """Copy `size` bytes to the host."""
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH", buffer, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return buffer.raw

    def synchronize(self, stream: int) -> None:
        """Wait for the work on a stream."""
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def _made(self, name: str, *arguments: object) -> int:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value or 0

    def _text(self, name: str, code: int) -> str:
        text = ctypes.c_char_p()
        getattr(self._library, name)(code, ctypes.byref(text))
        return text.value.decode() if text.value else "unknown"


class Context:
    """A CUDA context. As a context manager it is current inside, and what was current before is current again."""

    def __init__(self, cuda: Cuda, handle: int) -> None:
        self._cuda = cuda
        self.handle = handle

    def __enter__(self) -> Self:
        self._cuda.call("cuCtxPushCurrent", ctypes.c_void_p(self.handle))
        return self

    def __exit__(self, *_: object) -> None:
        self._cuda.call("cuCtxPopCurrent", ctypes.byref(ctypes.c_void_p()))

    def make_current(self) -> None:
        """Make it the calling thread's current context."""
        self._cuda.call("cuCtxSetCurrent", ctypes.c_void_p(self.handle))

    def create_stream(self, *, blocking: bool = False) -> Stream:
        """Create a stream in it; a blocking one and the legacy default stream wait for each other."""
        handle = ctypes.c_void_p()
        with self:
            self._cuda.call("cuStreamCreate", ctypes.byref(handle), 0 if blocking else _NON_BLOCKING)
        return Stream(self._cuda, handle.value or 0)

    def is_alive(self) -> bool:
        """Whether it has not been destroyed."""
        try:
            self._cuda.call("cuCtxGetId", ctypes.c_void_p(self.handle), ctypes.byref(ctypes.c_uint64()))
        except CudaError as error:
            if error.name != "CUDA_ERROR_CONTEXT_IS_DESTROYED":
                raise
            return False
        return True

    def destroy(self) -> None:
        """Destroy it, with its streams and memory."""
        self._cuda.call("cuCtxDestroy", ctypes.c_void_p(self.handle))


class Stream:
    """A CUDA stream."""

    def __init__(self, cuda: Cuda, handle: int) -> None:
        self._cuda = cuda
        self.handle = handle

    def synchronize(self) -> None:
        """Wait for its work."""
        self._cuda.synchronize(self.handle)

    def begin_capture(self, mode: CaptureMode = "global") -> None:
        """Capture what is enqueued from now on, instead of running it."""
        self._cuda.call("cuStreamBeginCapture", ctypes.c_void_p(self.handle), get_args(CaptureMode).index(mode))

    def end_capture(self) -> None:
        """End the capture. The graph is destroyed: a test wants to know whether the capture holds. Raises CudaError."""
        self._cuda.call("cuGraphDestroy", self._end())

    def graph_of(self, enqueue: Callable[[], object], mode: CaptureMode = "thread_local") -> Graph:
        """Capture what `enqueue` does on this stream into a graph. Raises CudaError if the capture was broken."""
        executable = ctypes.c_void_p()
        with self._captured(enqueue, mode) as graph:
            self._cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
        return Graph(self._cuda, executable.value or 0)

    def update(self, graph: Graph, enqueue: Callable[[], object], mode: CaptureMode = "thread_local") -> None:
        """Capture again, into a graph that differs in arguments and grids alone. Raises CudaError for others."""
        with self._captured(enqueue, mode) as captured:
            result = (ctypes.c_void_p * 3)()  # CUgraphExecUpdateResultInfo
            self._cuda.call("cuGraphExecUpdate", ctypes.c_void_p(graph.handle), captured, result)

    @contextlib.contextmanager
    def _captured(self, enqueue: Callable[[], object], mode: CaptureMode) -> Iterator[ctypes.c_void_p]:
        self.begin_capture(mode)
        try:
            enqueue()
        except BaseException:
            with contextlib.suppress(CudaError):
                self.end_capture()
            raise
        graph = self._end()
        try:
            yield graph
        finally:
            self._cuda.call("cuGraphDestroy", graph)

    def _end(self) -> ctypes.c_void_p:
        graph = ctypes.c_void_p()
        self._cuda.call("cuStreamEndCapture", ctypes.c_void_p(self.handle), ctypes.byref(graph))
        return graph

    def copy(self, to: int, source: int, size: int) -> None:
        """Enqueue copying `size` bytes in device memory."""
        addresses = ctypes.c_uint64(to), ctypes.c_uint64(source)
        self._cuda.call("cuMemcpyDtoDAsync", *addresses, ctypes.c_size_t(size), ctypes.c_void_p(self.handle))

    def fill(self, address: int, size: int) -> None:
        """Enqueue writing `size` zero bytes."""
        self._cuda.call(
            "cuMemsetD8Async", ctypes.c_uint64(address), 0, ctypes.c_size_t(size), ctypes.c_void_p(self.handle)
        )

    @contextlib.contextmanager
    def capture(self, mode: CaptureMode = "global") -> Iterator[Self]:
        """Capture what is enqueued inside. Raises CudaError at the end if the capture was broken."""
        self.begin_capture(mode)
        try:
            yield self
        except BaseException:
            with contextlib.suppress(CudaError):  # broken by the error that is on its way
                self.end_capture()
            raise
        self.end_capture()

    def capture_status(self) -> str:
        """`none`, `active` or `invalidated`."""
        status = ctypes.c_int()
        self._cuda.call("cuStreamIsCapturing", ctypes.c_void_p(self.handle), ctypes.byref(status))
        return _CAPTURE_STATUS[status.value]

    def destroy(self) -> None:
        """Destroy it."""
        self._cuda.call("cuStreamDestroy", ctypes.c_void_p(self.handle))


class Graph:
    """An executable CUDA graph."""

    def __init__(self, cuda: Cuda, handle: int) -> None:
        self._cuda = cuda
        self.handle = handle

    def launch(self, stream: Stream) -> None:
        """Enqueue it."""
        self._cuda.call("cuGraphLaunch", ctypes.c_void_p(self.handle), ctypes.c_void_p(stream.handle))

    def destroy(self) -> None:
        """Destroy it."""
        self._cuda.call("cuGraphExecDestroy", ctypes.c_void_p(self.handle))


class Event:
    """A CUDA event that keeps the time."""

    def __init__(self, cuda: Cuda, handle: int) -> None:
        self._cuda = cuda
        self.handle = handle

    def record(self, stream: Stream) -> None:
        """Let it be the moment at which the work before it is done."""
        self._cuda.call("cuEventRecord", ctypes.c_void_p(self.handle), ctypes.c_void_p(stream.handle))

    def microseconds_since(self, start: Event) -> float:
        """The time between two moments that have come. Raises CudaError for others."""
        milliseconds = ctypes.c_float()
        handles = ctypes.c_void_p(start.handle), ctypes.c_void_p(self.handle)
        self._cuda.call("cuEventElapsedTime", ctypes.byref(milliseconds), *handles)
        return 1000 * milliseconds.value

    def destroy(self) -> None:
        """Destroy it."""
        self._cuda.call("cuEventDestroy", ctypes.c_void_p(self.handle))
