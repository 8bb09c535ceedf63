"""Runtime settings for the length of a block."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, TypeVar

from hatch_tensoracle.runtime.kernel_cache import RuntimeCache
from hatch_tensoracle.runtime.settings import RuntimeSettings
from hatch_tensoracle.runtime.settings_slot import CHANGING, SettingsSlot

__all__ = ["runtime_cache", "runtime_config"]


TargetsT = TypeVar("TargetsT")


def runtime_config(targets: TargetsT, **settings: Any) -> contextlib.AbstractContextManager[TargetsT]:
    """Change settings of a handle (and all its executions), an execution, or several, for the length of a block.

    Inside, it is the targets. At the end each has what it had before; where blocks overlap on one thread, as in asyncio
    tasks, once all have ended. Raises TypeError and ValueError as RuntimeSettings does, and when the block is entered
    ExecutionError if another thread has such a block on a target.
    """
    RuntimeSettings(**settings)
    return _changed(targets, settings)


def runtime_cache(
    targets: Any, path: RuntimeCache | str | os.PathLike[str] | BinaryIO | None = None
) -> contextlib.AbstractContextManager[RuntimeCache]:
    """Let all targets share one runtime cache for the length of a block, and save it once, at the end.

    In place of a path it may be a binary stream, which is read at the beginning and written from its start at the end,
    or a RuntimeCache; without any it is in memory only. Inside, it is the RuntimeCache. Raises as `runtime_config`,
    and nothing for a cache that cannot be read or saved.
    """
    if path is None or isinstance(path, str | os.PathLike):
        return _shared(targets, RuntimeCache(path or None))
    if isinstance(path, RuntimeCache):
        return _shared(targets, path)
    if not (hasattr(path, "read") and hasattr(path, "write")) or hasattr(path, "encoding"):  # as text streams have
        raise TypeError(f"runtime_cache takes a path, a binary stream or a RuntimeCache, not {path!r}")
    return _shared(targets, RuntimeCache(), path)


@contextlib.contextmanager
def _shared(targets: Any, cache: RuntimeCache, stream: BinaryIO | None = None) -> Iterator[RuntimeCache]:
    if stream is not None and stream.readable():
        cache.load(stream)
    try:
        with _changed(targets, {"runtime_cache": cache}):
            yield cache
    finally:
        cache.autosave(stream)


@contextlib.contextmanager
def _changed(targets: TargetsT, settings: dict[str, Any]) -> Iterator[TargetsT]:
    scope = object()
    with CHANGING:
        slots = _slots(targets)
        for slot in slots:
            slot.check_thread()
        made = [slot.made(slot.applied.settings.merge(**settings)) for slot in slots]
        for slot, applied in zip(slots, made, strict=True):
            slot.enter(scope)
            slot.put(applied)
    try:
        yield targets
    finally:
        with CHANGING:
            for slot in slots:
                slot.leave(scope)


def _slots(targets: Any) -> list[SettingsSlot]:
    """Each once, however it is reached."""
    listed = list(targets) if isinstance(targets, Iterable) else [targets]
    found: dict[SettingsSlot, None] = {}
    for target in listed:
        slot = getattr(target, "settings_slot", None)
        if not isinstance(slot, SettingsSlot):
            raise TypeError(f"runtime settings are of handles and executions, not of {target!r}")
        found |= dict.fromkeys(slot.all_with_own())
    if not found:
        raise ValueError("there is no engine to change runtime settings of")
    return list(found)
