"""Where a handle and an execution keep their runtime settings."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident

from hatch_tensoracle.runtime.errors import ExecutionError
from hatch_tensoracle.runtime.kernel_cache import RuntimeCache
from hatch_tensoracle.runtime.settings import RuntimeSettings

__all__ = ["CHANGING", "AppliedSettings", "SettingsSlot"]

CHANGING = threading.RLock()
"""Held while settings are changed, which is seldom: reading needs no lock."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AppliedSettings:
    """Settings with the cache that they stand for. A context made with one such object is good for it alone."""

    settings: RuntimeSettings
    cache: RuntimeCache | None

    @property
    def is_implicit(self) -> bool:
        """Whether nobody else has the cache: the settings name a path."""
        return self.cache is not None and self.cache is not self.settings.runtime_cache


class SettingsSlot:
    """Settings of its own, or those of the slot above: an execution has its handle's until it is given others."""

    def __init__(self, above: SettingsSlot | None = None) -> None:
        self._above = above
        self._own = AppliedSettings(settings=RuntimeSettings(), cache=None) if above is None else None
        self._below: weakref.WeakSet[SettingsSlot] = weakref.WeakSet()
        self._scopes: dict[object, AppliedSettings | None] = {}
        """Those that are open, in the order in which they began, with the own settings of before."""
        self._thread = 0
        """Of the scopes."""
        self._call_off: Callable[[], object] | None = None
        if above is not None:
            above._below.add(self)  # noqa: SLF001 - the same class

    @property
    def applied(self) -> AppliedSettings:
        """What holds now."""
        slot = self
        while slot._own is None and slot._above is not None:
            slot = slot._above
        assert slot._own is not None  # noqa: S101, SLF001 - the uppermost always has its own
        return slot._own  # noqa: SLF001

    def follow(self, above: SettingsSlot) -> None:
        """Have another slot above. It has no settings of its own."""
        self._above = above
        above._below.add(self)

    @property
    def own(self) -> AppliedSettings | None:
        """Its own settings."""
        return self._own

    def all_with_own(self) -> list[SettingsSlot]:
        """Return it and the slots below that have settings of their own."""
        with CHANGING:
            below = [slot for each in list(self._below) for slot in each.all_with_own()]
            return [self, *(slot for slot in below if slot.own is not None)]

    def assign(self, settings: RuntimeSettings) -> None:
        """Take settings, for slots below too. Raises TypeError, and ExecutionError inside another thread's scope."""
        if not isinstance(settings, RuntimeSettings):
            raise TypeError(f"runtime_settings must be RuntimeSettings, not {settings!r}")
        with CHANGING:
            slots = self.all_with_own()
            for slot in slots:
                slot.check_thread()
            for slot in slots[1:]:
                slot.put(None)
            self.put(self.made(settings))

    def made(self, settings: RuntimeSettings) -> AppliedSettings:
        """Return the settings as they would be applied here: what holds already if they are equal to it."""
        current, wanted = self.applied, settings.runtime_cache
        if settings == current.settings:
            return current
        if isinstance(wanted, RuntimeCache):
            cache: RuntimeCache | None = wanted
        elif current.is_implicit and wanted == current.settings.runtime_cache:
            cache = current.cache
        else:
            cache = None if wanted is None else RuntimeCache(wanted)
        return AppliedSettings(settings=settings, cache=cache)

    def put(self, applied: AppliedSettings | None) -> None:
        """Replace its own settings. An implicit cache that goes is saved first."""
        if self._call_off is not None:
            self._call_off()
            self._call_off = None
        old = self._own
        if old is not None and old.is_implicit and old.cache and (applied is None or applied.cache is not old.cache):
            old.cache.autosave()
        self._own = applied
        if applied is not None and applied.is_implicit and applied.cache:
            self._call_off = applied.cache.save_when_gone(self)

    def check_thread(self) -> None:
        """Raise ExecutionError if another thread has a scope open on it."""
        if self._scopes and self._thread != get_ident():
            raise ExecutionError(
                "the runtime settings are inside a runtime_config or runtime_cache block of another thread: it would "
                "restore others than these"
            )

    def enter(self, scope: object) -> None:
        """Let a scope of the calling thread begin, whose end restores the settings that are its own now."""
        self._scopes[scope] = self._own
        self._thread = get_ident()

    def leave(self, scope: object) -> None:
        """Let it end, wherever that happens. If a later one is still open, that one's end restores instead."""
        scopes = list(self._scopes)
        former, later = self._scopes.pop(scope), scopes[scopes.index(scope) + 1 :]
        if later:
            self._scopes[later[0]] = former
        else:
            self.put(former)
