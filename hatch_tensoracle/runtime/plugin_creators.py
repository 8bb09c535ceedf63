"""Which plugins a registry has, and which a library creates: it is asked as TensorRT does when it loads one.

Slots and records are those of TensorRT's public headers, 10.0 to 11.1, where they never changed; the library is loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["CreatorKey", "creators_of", "registered_creators"]

_GET_INTERFACE_INFO, _GET_NAME, _GET_VERSION, _GET_NAMESPACE = 1, 6, 7, 8
_KIND = b"PLUGIN CREATOR_V3ONE"


class CreatorKey(NamedTuple):
    """What a registry knows a creator by."""

    name: str
    version: str
    namespace: str

    def __str__(self) -> str:
        """As in messages."""
        return f"plugin {self.name} version {self.version}" + (f" of {self.namespace}" if self.namespace else "")


def registered_creators(registry: Any) -> dict[CreatorKey, None]:
    """Return those that TensorRT's plugin registry has, in its order."""
    return {
        CreatorKey(creator.name, creator.plugin_version, creator.plugin_namespace): None
        for creator in registry.all_creators
    }


class _InterfaceInfo(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_char_p), ("major", ctypes.c_int32), ("minor", ctypes.c_int32))


def creators_of(library: Path) -> list[CreatorKey]:
    """Return the V3 creators of the library, which must export getCreators. Raises OSError if it cannot be loaded."""
    get_creators = ctypes.CDLL(str(library)).getCreators
    get_creators.restype = ctypes.POINTER(ctypes.c_void_p)
    count = ctypes.c_int32()
    objects = get_creators(ctypes.byref(count))
    return list(_keys(objects[: count.value] if objects else []))


def _keys(objects: list[int]) -> Iterator[CreatorKey]:
    for creator in filter(None, objects):
        if _call(creator, _GET_INTERFACE_INFO, _InterfaceInfo).kind == _KIND:
            texts = (_call(creator, slot, ctypes.c_char_p) for slot in (_GET_NAME, _GET_VERSION, _GET_NAMESPACE))
            yield CreatorKey(*((text or b"").decode(errors="replace") for text in texts))


def _call(creator: int, slot: int, result: Any) -> Any:
    table = ctypes.cast(creator, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    return ctypes.CFUNCTYPE(result, ctypes.c_void_p)(table[slot])(creator)
