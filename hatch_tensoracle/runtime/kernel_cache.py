"""Kernels that TensorRT-RTX has compiled, kept for later processes."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Self

from hatch_tensoracle._paths import cache_directory
from hatch_tensoracle.runtime.distribution import distribution
from hatch_tensoracle.runtime.errors import GpuError
from hatch_tensoracle.runtime.gpu import current_gpu
from hatch_tensoracle.runtime.kernel_cache_file import KernelCacheFile
from hatch_tensoracle.runtime.values import checked_path

__all__ = ["RuntimeCache"]

_LOG = logging.getLogger(__name__)
_PRIVATE = 0o700


class RuntimeCache:
    """A cache for any number of engines, in a file or in memory only. TensorRT's own is made with the first use of it.

    What was loaded before is held until then. `tensorrt` has no such cache: nothing is read or saved for it. Two caches
    of one path are two; each saves what it has.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, autosave_on_del: bool = False) -> None:
        """Without a path it is in memory only. With `autosave_on_del` it is saved when it goes, and at exit."""
        self._kernels = _Kernels(None if path is None else Path(checked_path("RuntimeCache: path", path)))
        self._autosave = autosave_on_del
        if autosave_on_del:
            self.save_when_gone(self)

    @classmethod
    def default(cls) -> Self:
        """Return the cache of this user, below the user's cache directory, which only the user can read or write.

        It is for the TensorRT-RTX that is installed and the GPU that is current: other kinds have files of their own.
        Where that cannot be had it is in memory only, and a warning is logged.
        """
        directory = cache_directory() / "kernels"
        try:
            version, gpu = distribution("tensorrt_rtx").version, current_gpu()
            directory.mkdir(_PRIVATE, parents=True, exist_ok=True)
            directory.chmod(_PRIVATE)  # raises for another user's, whose code it could be
        except (GpuError, ImportError, OSError, ValueError) as error:
            _LOG.warning("the runtime cache is in memory only: %s", error)
            return cls()
        # TensorRT-RTX refuses kernels of another version or GPU: in one file each would set the other's aside.
        kind = re.sub(r"[^\w.]+", "-", f"{version} {gpu.name} {gpu.compute_capability}", flags=re.ASCII)
        return cls(directory / f"{kind}.cache")

    @property
    def path(self) -> Path | None:
        """Of its file."""
        return None if self._kernels.file is None else self._kernels.file.path

    def load(self, stream: BinaryIO | None = None) -> int:
        """Read a binary stream, or the file, and return how many bytes there were: 0 for a file that is not there.

        An error of the file is logged. What is read is added once TensorRT's cache is there, or at once if it is.
        Raises TypeError for a text stream.
        """
        if stream is None:
            return self._kernels.read()
        data: object = stream.read()
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(
                f"RuntimeCache.load: {stream!r} is no binary stream: it gave {type(data).__name__}, not bytes"
            )
        return self._kernels.add(bytes(data))

    def save(self, stream: BinaryIO | None = None) -> int:
        """Write to a binary stream, or to the file, and return how many bytes: 0 if there is nothing, or nothing new.

        A stream gets all there is: before the first use what was loaded, unless that was several, which only TensorRT
        can make one. The file is written whole, durably, and by one process at a time, with what others have saved
        meanwhile; an error is logged, not raised. Raises ValueError for a cache in memory only that is given no stream,
        and for several that were loaded, TypeError for a text stream, and what else the stream raises.
        """
        if stream is not None:
            contents = self._kernels.contents()
            if len(contents) > 1:
                raise ValueError(
                    f"the runtime cache holds {len(contents)} that were loaded: save it after its first use"
                )
            data = b"".join(contents)
            try:
                stream.write(data)
            except TypeError as error:
                raise TypeError(f"RuntimeCache.save: {stream!r} is no binary stream: {error}") from error
            return len(data)
        if self._kernels.file is None:
            raise ValueError("the runtime cache is in memory only: give the stream to save it to")
        return self._kernels.save()

    def autosave(self, stream: BinaryIO | None = None) -> None:
        """Save it to its file, if it has one, or to a stream from its start, if there is something to save.

        An error is logged, not raised.
        """
        if stream is None:
            self._kernels.save()
            return
        try:
            if data := self._kernels.serialized():
                if stream.seekable():
                    stream.seek(0)
                    stream.truncate()
                stream.write(data)
        except Exception as error:  # noqa: BLE001 - a cache is not worth an execution
            _LOG.warning("the runtime cache cannot be saved: %s", error)

    def save_when_gone(self, owner: object) -> Callable[[], object]:
        """Save it when the owner is collected or the process exits. Returns what calls that off."""
        return weakref.finalize(owner, self._kernels.save).detach

    def materialized(self, config: Any) -> Any:
        """Return TensorRT's IRuntimeCache, made from an IRuntimeConfig the first time; None if there is none."""
        return self._kernels.materialized(config)

    def __repr__(self) -> str:
        return f"RuntimeCache({str(self.path)!r})" if self.path else "RuntimeCache()"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path and contents, without TensorRT's cache."""
        return _restored, (self.path, self._autosave, self._kernels.contents())


def _restored(path: Path | None, autosave: bool, contents: tuple[bytes, ...]) -> RuntimeCache:  # noqa: FBT001
    cache = RuntimeCache(path, autosave_on_del=autosave)
    for data in contents:
        cache._kernels.add(data)  # noqa: SLF001 - this module's
    return cache


class _Kernels:
    """What a RuntimeCache has: it outlives it where it is to be saved, and is the one part that threads share."""

    def __init__(self, path: Path | None) -> None:
        self.file = None if path is None else KernelCacheFile(path)
        # The garbage collector may save a cache in the middle of a call on the same thread.
        self._lock = threading.RLock()
        self._live: Any = None
        self._held: list[bytes] = []
        """Loaded, and not yet given to TensorRT."""
        self._is_read = False
        self._known = b""
        """SHA-256 of what was last read from or written to the file."""

    def add(self, data: bytes) -> int:
        with self._lock:
            if self._live is None:
                self._held += [data] if data else []
            elif data and not self._live.deserialize(data):
                _LOG.warning("TensorRT refuses %d bytes of a runtime cache", len(data))
        return len(data)

    def read(self) -> int:
        with self._lock:
            self._is_read = True
            try:
                data = b"" if self.file is None else self.file.read()
            except OSError as error:
                _LOG.warning("the runtime cache cannot be read: %s", error)
                return 0
            self._known = _digest(data)
            return self.add(data)

    def materialized(self, config: Any) -> Any:
        with self._lock:
            if self._live is None:
                if not self._is_read:
                    self.read()
                self._live = config.create_runtime_cache()
                if self._live is not None:
                    held, self._held = self._held, []
                    for data in held:
                        if not self._live.deserialize(data):
                            self._set_aside(data)
            return self._live

    def serialized(self) -> bytes:
        with self._lock:
            host = None if self._live is None else self._live.serialize()
            return b"" if host is None else bytes(host)

    def contents(self) -> tuple[bytes, ...]:
        with self._lock:
            return tuple(self._held) if self._live is None else (self.serialized(),)

    def save(self) -> int:
        """Never raises: a cache is not worth an execution."""
        try:
            with self._lock:
                data = self.serialized()
                if self.file is None or not data or _digest(data) == self._known:
                    return 0
                with self.file.locked():
                    data = self._with_others(data, self.file.read())
                    self.file.write(data)
                self._known = _digest(data)
                return len(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, at exit too
            _LOG.warning("the runtime cache cannot be saved: %s", error)
            return 0

    def _with_others(self, ours: bytes, theirs: bytes) -> bytes:
        """Add what another process has saved since.

        TensorRT-RTX does not document whether `deserialize` adds to what a cache has or replaces it. In this order ours
        is all there in either case.
        """
        if not theirs or _digest(theirs) in {_digest(ours), self._known} or not self._live.deserialize(theirs):
            return ours
        self._live.deserialize(ours)
        return self.serialized() or ours

    def _set_aside(self, data: bytes) -> None:
        """TensorRT has told its logger why: another GPU, version or driver, or damage."""
        refused = None
        if self.file is not None:
            try:
                refused = self.file.set_aside(data)
            except (OSError, RuntimeError) as error:
                _LOG.warning("the runtime cache cannot be set aside: %s", error)
        if self.file is None or refused is None:
            _LOG.warning("TensorRT refuses %d bytes of a runtime cache", len(data))
        else:
            _LOG.warning("TensorRT refuses the runtime cache %s, which is now %s", self.file.path, refused)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
