"""The engine cache: what it keeps, for whom, and what happens when something goes wrong meanwhile."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import filelock
import pytest
from helpers.tools import run, tool

from hatch_tensoracle.runtime.cache import EngineCache
from hatch_tensoracle.runtime.errors import CorruptEngineError, EngineCacheError, EngineConditionError
from hatch_tensoracle.runtime.identity import identity_of
from hatch_tensoracle.runtime.plugin_creators import CreatorKey
from runtime.conditions import conditions, plan_of

CONDITIONS = conditions()
IDENTITY = identity_of(CONDITIONS)
CREATORS = (CreatorKey("AddRmsNorm", "1", ""),)
PLAN = plan_of(1, 100_000)


def save(cache: EngineCache, plan: bytes = PLAN, *, age: float = 0, **changed: object) -> str:
    """Save an engine that was used last `age` seconds ago, and return its identity."""
    wanted = conditions(**changed)
    with cache.building(wanted):
        path = cache.save(wanted, plan, CREATORS).path
    os.utime(path, (time.time() - age,) * 2)
    return identity_of(wanted)


def kept(cache: EngineCache) -> list[str]:
    return [engine.identity for engine in cache.engines()]


def test_an_engine_is_found_by_its_conditions(cache: EngineCache) -> None:
    assert cache.load(CONDITIONS) is None
    save(cache)
    saved = cache.load(conditions())
    assert saved is not None
    assert (saved.plan, saved.creators, saved.path.stem) == (PLAN, CREATORS, IDENTITY)
    assert cache.load(conditions(graph_version="2")) is None


def test_files_are_in_the_users_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORACLE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert EngineCache().directory == Path("/somewhere/hatch-tensoracle/engines")


def test_looking_for_an_engine_makes_no_directory(cache: EngineCache) -> None:
    cache.load(CONDITIONS)
    assert cache.engines() == cache.prune(0) == []
    assert not cache.directory.parent.exists()


def test_an_engine_is_replaced_under_those_who_read_the_old_one(cache: EngineCache) -> None:
    save(cache)
    with (cache.directory / f"{IDENTITY}.engine").open("rb") as old:
        save(cache, plan_of(2, 100_000))
        assert old.read().endswith(PLAN)
    saved = cache.load(CONDITIONS)
    assert saved is not None
    assert saved.plan == plan_of(2, 100_000)


def test_an_engine_under_anothers_name_is_an_error(cache: EngineCache) -> None:
    other = save(cache, graph_version="2")
    (cache.directory / f"{other}.engine").rename(cache.directory / f"{IDENTITY}.engine")
    with pytest.raises(EngineConditionError, match="was saved with graph_version '2', not '1'") as caught:
        cache.load(CONDITIONS)
    assert (caught.value.field, caught.value.seen, caught.value.expected) == ("graph_version", "2", "1")
    assert caught.value.file == str(cache.directory / f"{IDENTITY}.engine")
    (engine,) = cache.engines()
    with pytest.raises(EngineConditionError, match="is not the engine that its name says"):
        cache.verify(engine)


def test_a_damaged_engine_is_an_error_and_stays_listed(cache: EngineCache) -> None:
    save(cache)
    path = cache.directory / f"{IDENTITY}.engine"
    path.write_bytes(path.read_bytes()[:-1])
    (engine,) = cache.engines()
    assert engine.header is not None
    with pytest.raises(CorruptEngineError, match="is not as long as it was"):
        cache.verify(engine)
    with pytest.raises(CorruptEngineError, match="is not as long as it was"):
        cache.load(CONDITIONS)
    path.write_bytes(b"")
    (engine,) = cache.engines()
    assert engine.header is None


# Locks


def test_one_at_a_time_builds_an_engine(cache: EngineCache) -> None:
    order = []

    def second() -> None:
        with EngineCache().building(CONDITIONS):
            order.append("second")

    with cache.building(CONDITIONS):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.3)
        order.append("first")
        with cache.building(conditions(graph_version="2")):  # another engine
            pass
    thread.join()
    assert order == ["first", "second"]


def test_an_engine_that_opens_itself_while_it_is_built_is_an_error(cache: EngineCache) -> None:
    with (
        cache.building(CONDITIONS),
        pytest.raises(RuntimeError, match="Deadlock"),
        EngineCache().building(CONDITIONS),
    ):
        pass


def test_a_failed_build_frees_the_lock(cache: EngineCache) -> None:
    with pytest.raises(ZeroDivisionError), cache.building(CONDITIONS):
        raise ZeroDivisionError
    save(cache)


# What goes wrong


def test_processes_that_are_killed_leave_no_wrong_engine_and_no_lock() -> None:
    """More of it: python tests/runtime/kill_saves.py 1000."""
    assert "20 runs, all well" in run(sys.executable, Path(__file__).with_name("kill_saves.py"), "20")


def test_a_part_of_a_save_that_did_not_end_goes_with_the_next_or_a_prune(cache: EngineCache) -> None:
    save(cache)
    for name in (f".{IDENTITY}.engine-0123", ".other.engine-4567"):
        (cache.directory / name).write_bytes(b"part")
    save(cache)
    assert [part.name for part in cache.directory.glob(".*")] == [".other.engine-4567"]
    cache.prune(1 << 40)
    assert list(cache.directory.glob(".*")) == []


def test_a_part_of_a_save_that_goes_on_stays(cache: EngineCache) -> None:
    part = cache.directory / f".{IDENTITY}.engine-0123"
    with cache.building(CONDITIONS):
        part.write_bytes(b"part")
        in_thread = threading.Thread(target=EngineCache().prune, args=(0,))
        in_thread.start()
        in_thread.join()
        assert part.exists()


@contextlib.contextmanager
def size_limit() -> Iterator[None]:
    """No file may grow beyond 64 KiB: not that of pytest's output either, so it is no fixture."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_save_that_fails_keeps_the_old_engine_and_leaves_nothing(cache: EngineCache) -> None:
    save(cache, plan_of(2, 10_000))
    with size_limit(), pytest.raises(EngineCacheError, match="cannot be saved: File too large") as caught:
        save(cache)
    assert "TENSORACLE_CACHE_DIR" in str(caught.value)
    assert [path.name for path in cache.directory.iterdir() if path.is_file()] == [f"{IDENTITY}.engine"]
    saved = cache.load(CONDITIONS)
    assert saved is not None
    assert saved.plan == plan_of(2, 10_000)


FULL = """
import os, sys
sys.path.insert(0, sys.argv[1])
from hatch_tensoracle.runtime.cache import EngineCache
from hatch_tensoracle.runtime.errors import EngineCacheError
from runtime.conditions import conditions, plan_of
cache, left = EngineCache(), 0
for version in range(100):
    wanted = conditions(graph_version=str(version + 1))
    try:
        with cache.building(wanted):
            cache.save(wanted, plan_of(1, 300_000), ())
    except EngineCacheError as error:
        print(error)
        break
for engine in cache.engines():
    cache.verify(engine)
    left += 1
print(left, *(path.name for path in cache.directory.glob(".*")))
cache.prune(0)
with cache.building(wanted):
    cache.save(wanted, plan_of(1, 300_000), ())
"""


def test_a_full_disk_keeps_what_is_saved_and_can_be_pruned(tmp_path: Path) -> None:
    """On a file system of 1 MiB, in a mount namespace of the child's own."""
    mounted = f'mount -t tmpfs -o size=1m none {tmp_path} && exec "$@"'
    inside: list[str | Path] = [tool("unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces")
    tests = str(Path(__file__).parents[1])
    environment = {"TENSORACLE_CACHE_DIR": str(tmp_path / "cache")}
    message, left = run(*inside, sys.executable, "-c", FULL, tests, env=environment).splitlines()
    assert "cannot be saved: No space left on device" in message
    assert left == "3"  # and no part


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory for a cache, which `closed` makes one that this process cannot write to."""
    directory = Path(tempfile.mkdtemp())  # pytest's own cannot be reached by another user
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Root may write everywhere."""
    if is_root := os.geteuid() == 0:
        os.seteuid(65534)
    yield
    if is_root:
        os.seteuid(0)


def test_a_cache_that_can_only_be_read_is_read(
    read_only: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(read_only))
    cache = EngineCache()
    save(cache)
    cache.load(CONDITIONS)  # which imports what the other user may be kept from
    save(cache, age=1000)
    before = cache.engines()
    for path in (read_only, *read_only.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    request.getfixturevalue("unprivileged")
    saved = cache.load(CONDITIONS)
    assert saved is not None
    assert saved.plan == PLAN
    if os.getuid() == 0:  # the owner of a file may always say that it was used
        assert cache.engines() == before
    with pytest.raises(EngineCacheError, match="cannot be locked: Permission denied"):
        save(cache, graph_version="2")


def test_a_cache_that_cannot_be_made_is_an_error(cache: EngineCache) -> None:
    cache.directory.parent.parent.mkdir(exist_ok=True)
    cache.directory.parent.write_bytes(b"in the way")
    with pytest.raises(EngineCacheError, match="Not a directory"):
        cache.load(CONDITIONS)
    with pytest.raises(EngineCacheError, match="cannot be made: Not a directory"):
        save(cache)


# Pruning


def test_the_engines_that_were_not_used_for_longest_go_first(cache: EngineCache) -> None:
    old, used, new = (save(cache, age=age, graph_version=str(age)) for age in (3000, 2000, 1000))
    cache.load(conditions(graph_version="2000"))
    assert kept(cache) == [old, new, used]
    size = sum(engine.size for engine in cache.engines())
    assert cache.prune(size) == []
    assert [engine.identity for engine in cache.prune(size - 1)] == [old]
    assert [engine.identity for engine in cache.prune(0)] == [new, used]
    assert kept(cache) == []


def test_an_engine_that_is_being_built_again_is_not_removed(cache: EngineCache) -> None:
    save(cache)
    removed = []
    with cache.building(CONDITIONS):
        thread = threading.Thread(target=lambda: removed.extend(EngineCache().prune(0)))
        thread.start()
        thread.join()
    assert removed == []
    assert kept(cache) == [IDENTITY]


def test_an_engine_that_was_opened_since_it_was_listed_is_not_removed(cache: EngineCache) -> None:
    save(cache, age=1000)
    (engine,) = cache.engines()
    cache.load(CONDITIONS)
    assert not cache.remove(engine)
    (engine,) = cache.engines()
    assert cache.remove(engine)
    assert cache.remove(engine)  # it is gone


def test_two_prunes_at_once_remove_no_more_than_one(cache: EngineCache) -> None:
    for age in range(20, 0, -1):
        save(cache, age=age * 100, graph_version=str(age))
    limit = sum(engine.size for engine in cache.engines()[10:])
    threads = [threading.Thread(target=EngineCache().prune, args=(limit,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept(cache)) == 10


def test_a_clock_that_jumps_changes_the_order_only(cache: EngineCache) -> None:
    ahead, now = save(cache, age=-(10**8), graph_version="1"), save(cache, graph_version="2")
    assert kept(cache) == [now, ahead]
    assert cache.load(conditions(graph_version="1")) is not None
    assert set(kept(cache)) == {now, ahead}


def test_locks_stay(cache: EngineCache) -> None:
    """One that was removed could still be somebody's, and another process would make, and hold, a new one."""
    save(cache)
    cache.prune(0)
    assert (cache.directory / "locks" / f"{IDENTITY}.lock").exists()
    with filelock.FileLock(cache.directory / "locks" / f"{IDENTITY}.lock", timeout=0):
        pass
