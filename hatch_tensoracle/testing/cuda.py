"""The CUDA driver API as far as tests need it, by ctypes: on a GPU and on the fake driver alike."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from types import TracebackType
from typing import Literal, Self, get_args

from hatch_tensoracle.testing.errors import CudaError

__all__ = ["CaptureMode", "Context", "Cuda", "Stream"]

CaptureMode = Literal["global", "thread_local", "relaxed"]
"""How strictly a capture forbids unsafe calls; see cuThreadExchangeStreamCaptureMode."""

_CAPTURE_STATUS = ("none", "active", "invalidated")
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING

# The driver exports these under another name than they are documented with.
_SECOND_VERSION = {
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuDevicePrimaryCtxRelease",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemGetInfo",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemcpyHtoDAsync",
    "cuStreamBeginCapture",
    "cuStreamDestroy",
}


class Cuda:
    """The process's driver, `libcuda.so.1`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
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

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes in the current context and return their address."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Free what was allocated."""
        self.call("cuMemFree", ctypes.c_uint64(address))

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        graph = ctypes.c_void_p()
        self._cuda.call("cuStreamEndCapture", ctypes.c_void_p(self.handle), ctypes.byref(graph))
        self._cuda.call("cuGraphDestroy", graph)

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
