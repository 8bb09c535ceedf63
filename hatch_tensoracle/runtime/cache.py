"""Saved engines below the user's cache directory, shared by all processes."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from hatch_tensoracle._paths import cache_directory
from hatch_tensoracle.runtime.engine_file import EngineHeader, read_header, read_plan, write_engine
from hatch_tensoracle.runtime.errors import CorruptEngineError, EngineCacheError, EngineConditionError
from hatch_tensoracle.runtime.identity import differences, identity_of
from hatch_tensoracle.runtime.plugin_creators import CreatorKey

__all__ = ["CachedEngine", "EngineCache", "SavedEngine"]

_SUFFIX = ".engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEngine:
    """A plan in memory, and what was saved with it."""

    path: Path
    plan: bytes | memoryview
    creators: tuple[CreatorKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedEngine:
    """A file in the cache."""

    path: Path
    size: int
    """Bytes."""
    last_used_ns: int
    """Since the epoch: when it was saved or opened last, by the clock of that time."""
    header: EngineHeader | None
    """None if it is damaged or cannot be read: `EngineCache.verify` says how."""

    @property
    def identity(self) -> str:
        """SHA-256 of the conditions, by which it was saved."""
        return self.path.name.removesuffix(_SUFFIX)


class EngineCache:
    """One file for each identity.

    A file is replaced or removed, never written to, so whoever has it open reads one engine to the end. Whoever builds
    or removes an engine holds its lock, which the system takes back from a process that dies.
    """

    def __init__(self) -> None:
        self.directory = cache_directory() / "engines"

    def load(self, conditions: Mapping[str, Any]) -> SavedEngine | None:
        """Return the engine built under the conditions, None if there is none.

        Raises CorruptEngineError, EngineConditionError, and EngineCacheError if it cannot be read.
        """
        path = self._path(identity_of(conditions))
        with _access(path, "read"), contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            header = read_header(file, path)
            for field, seen, expected in differences(header.conditions, conditions):
                raise EngineConditionError(
                    f"was saved with {field} {seen!r}, not {expected!r}",
                    field=field,
                    seen=seen,
                    expected=expected,
                    file=str(path),
                    remedy="Build it again: open_engine(force_rebuild=True)",
                )
            plan = read_plan(file, header, path)
            with contextlib.suppress(OSError):  # of a cache that can only be read
                os.utime(file.fileno())
            return SavedEngine(path=path, plan=plan, creators=header.creators)
        return None

    @contextlib.contextmanager
    def building(self, conditions: Mapping[str, Any]) -> Iterator[None]:
        """Wait until nobody else builds the engine, and let nobody else build it. Raises EngineCacheError."""
        lock = self._lock(identity_of(conditions))
        with _access(Path(lock.lock_file), "locked"):
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def save(self, conditions: Mapping[str, Any], plan: bytes, creators: tuple[CreatorKey, ...]) -> SavedEngine:
        """Save an engine, for good when this returns. Call it inside `building`. Raises EngineCacheError."""
        path = self._path(identity_of(conditions))
        with _access(path, "saved"):
            self._remove_parts(path)
            write_engine(path, plan, conditions=conditions, creators=creators)
        return SavedEngine(path=path, plan=plan, creators=creators)

    def engines(self) -> list[CachedEngine]:
        """List all, the one that was not used for longest first."""
        found = []
        for path in self.directory.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                found.append(_listed(path))
        return sorted(found, key=lambda engine: (engine.last_used_ns, engine.path))

    def verify(self, engine: CachedEngine) -> None:
        """Read it whole.

        Raises CorruptEngineError, EngineConditionError if it has another engine's name, and EngineCacheError if it
        cannot be read or is gone.
        """
        with _access(engine.path, "read"), _open(engine.path) as file:
            header = read_header(file, engine.path)
            read_plan(file, header, engine.path)
        if identity_of(header.conditions) != engine.identity:
            raise EngineConditionError(
                "is not the engine that its name says",
                field="identity",
                seen=identity_of(header.conditions),
                expected=engine.identity,
                file=str(engine.path),
                remedy="Remove it.",
            )

    def prune(self, limit: int) -> list[CachedEngine]:
        """Remove engines until those that are left have at most `limit` bytes together, and return the removed.

        Those that were not used for longest go first. One that is being built or was opened meanwhile stays; processes
        that have an engine open keep it. What was left of saves that did not end goes as well.
        """
        if not self.directory.is_dir():
            return []
        removed = []
        with self._lock("prune"):  # two at once would remove twice as much
            engines = self.engines()
            size = sum(engine.size for engine in engines)
            for engine in engines:
                if size > limit and self.remove(engine):
                    removed.append(engine)
                    size -= engine.size
            for part in self.directory.glob(f".*{_SUFFIX}-*"):
                with self._locked_now(part.name[1:].partition(_SUFFIX)[0]) as is_ours:
                    if is_ours:
                        part.unlink(missing_ok=True)
        return removed

    def remove(self, engine: CachedEngine) -> bool:
        """Remove an engine, and return whether it is gone.

        One that is being built, was opened since it was listed or may not be removed stays.
        """
        try:
            with self._locked_now(engine.identity) as is_ours:
                if is_ours and engine.path.stat().st_mtime_ns == engine.last_used_ns:
                    engine.path.unlink()
                    return True
        except FileNotFoundError:  # somebody else has removed it
            return True
        except OSError:  # a directory, or another user's
            return False
        return False

    def _remove_parts(self, path: Path) -> None:
        """Those of processes that died while they saved this engine."""
        for part in self.directory.glob(f".{path.name}-*"):
            part.unlink(missing_ok=True)

    def _path(self, identity: str) -> Path:
        return self.directory / f"{identity}{_SUFFIX}"

    def _lock(self, name: str) -> Any:
        from filelock import FileLock

        # Lock files stay: one that was removed can still be somebody's lock.
        locks = self.directory / "locks"
        with _access(locks, "made"):
            locks.mkdir(parents=True, exist_ok=True)
        return FileLock(locks / f"{name}.lock")

    @contextlib.contextmanager
    def _locked_now(self, name: str) -> Iterator[bool]:
        """Hold the lock, unless somebody else does."""
        from filelock import Timeout

        lock = self._lock(name)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def _listed(path: Path) -> CachedEngine:
    status, header = path.stat(), None
    try:
        with _open(path) as file:
            status = os.fstat(file.fileno())
            header = read_header(file, path)
    except FileNotFoundError:
        raise
    except (CorruptEngineError, OSError):
        pass
    return CachedEngine(path=path, size=status.st_size, last_used_ns=status.st_mtime_ns, header=header)


def _open(path: Path) -> BufferedReader:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
        raise CorruptEngineError("is not a file", file=str(path), remedy="Remove it.")
    return path.open("rb")


@contextlib.contextmanager
def _access(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EngineCacheError(
            f"cannot be {done}: {error.strerror or error}",
            file=str(path),
            remedy=f"The cache is in {cache_directory()}; the variable TENSORACLE_CACHE_DIR names another place.",
        ) from error
