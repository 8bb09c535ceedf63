"""The native side: functions that call TensorRT's methods, and the messages that plugins log."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatch_tensoracle.testing import abi, native
from hatch_tensoracle.testing.errors import PluginContractError, PluginTestError

__all__ = ["Message", "NativeHarness", "PluginLibrary"]

_POINTERS = (
    *("harnessLoggerFinder", "harnessCreatePlugin", "harnessGetCapabilityInterface", "harnessClone"),
    *("harnessResourceContext", "harnessAttachToContext", "harnessGetOutputShapes"),
)
_COLLECTIONS = ("harnessGetFieldNames", "harnessGetFieldsToSerialize")
_TEXTS = (
    *("harnessMessage", "harnessGetTimingCacheID", "harnessGetMetadataString"),
    *("harnessOutputExtent", "harnessEvaluateExtent"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a plugin logged."""

    severity: str
    """`INTERNAL_ERROR`, `ERROR`, `WARNING`, `INFO` or `VERBOSE`."""
    text: str
    thread: int
    """threading.get_native_id() of the thread that logged it."""


class NativeHarness:
    """The compiled harness: `harness.Xyz(...)` is its function harnessXyz. Pointers are ints, or None."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(native.build(native.HARNESS)))
        for name in _POINTERS:
            getattr(self._library, name).restype = ctypes.c_void_p
        for name in _COLLECTIONS:
            getattr(self._library, name).restype = ctypes.POINTER(abi.FieldCollection)
        for name in _TEXTS:
            getattr(self._library, name).restype = ctypes.c_char_p
        self._library.harnessSupportsFormatCombination.restype = ctypes.c_bool
        self._library.harnessGetWorkspaceSize.restype = ctypes.c_size_t

    def call(self, name: str, *arguments: Any) -> Any:
        """Call harness`name`. An int is passed as a pointer: numbers and ctypes arrays come as ctypes objects."""
        passed = [ctypes.c_void_p(each) if isinstance(each, int) else each for each in arguments]
        return getattr(self._library, f"harness{name}")(*passed)

    def messages(self, since: int = 0) -> tuple[Message, ...]:
        """All messages of the process from number `since` on."""
        severity, thread = ctypes.c_int32(), ctypes.c_int64()
        found = []
        for index in range(since, self.message_count()):
            text = self.call("Message", ctypes.c_int32(index), ctypes.byref(severity), ctypes.byref(thread))
            name = abi.SEVERITIES[severity.value]
            found.append(Message(severity=name, text=text.decode(errors="replace"), thread=thread.value))
        return tuple(found)

    def message_count(self) -> int:
        """How many messages there are."""
        return int(self._library.harnessMessageCount())

    def own_messages(self, since: int) -> tuple[str, ...]:
        """What the calling thread's calls logged from number `since` on."""
        own = threading.get_native_id()
        return tuple(message.text for message in self.messages(since) if message.thread == own)


class PluginLibrary:
    """A plugin library, loaded as TensorRT's loadLibrary does. Messages call it `label`."""

    def __init__(self, path: Path, harness: NativeHarness, version: int, label: str) -> None:
        self.label = label
        self._library = self._load(str(path.resolve()))
        for name in ("setLoggerFinder", "getCreators"):
            if not hasattr(self._library, name):
                message = f"{label} does not export {name}, without which TensorRT refuses it"
                raise PluginContractError(message)
        self._library.setLoggerFinder(ctypes.c_void_p(harness.call("LoggerFinder", ctypes.c_int32(version))))
        self._library.getCreators.restype = ctypes.POINTER(ctypes.c_void_p)

    def _load(self, path: str) -> ctypes.CDLL:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            cause = str(error).removeprefix(f"{path}: ")
            message = f"{self.label} cannot be loaded: {cause}"
            raise PluginTestError(message, remedy="Name a plugin library that was built for this machine.") from error

    def creators(self) -> tuple[int, ...]:
        """Addresses of the creators."""
        count = ctypes.c_int32()
        creators = self._library.getCreators(ctypes.byref(count))
        return tuple(creators[i] for i in range(count.value)) if creators else ()
