"""Kills processes while they save an engine, and looks at what is left: `python tests/runtime/kill_saves.py 1000`.

A child saves one engine after another under the same identity. It is killed at a random time; then the engine must be
one of those, whole, or none before the first, its lock must be free, and the next save must tidy up.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hatch_tensoracle.runtime.cache import EngineCache
from runtime.conditions import conditions, plan_of

SIZE = 1_500_000
"""Bytes of a plan."""
CONDITIONS = conditions()


def main(runs: int) -> None:
    """Kill that many saves and print what was seen."""
    import filelock  # noqa: F401 - as long as it takes is no part of a save

    seen: Counter[str] = Counter()
    for run in range(runs):
        with tempfile.TemporaryDirectory() as directory:
            os.environ["TENSORACLE_CACHE_DIR"] = directory
            seen[kill_one(random.Random(run))] += 1  # noqa: S311 - a time
    print(f"{runs} runs, all well; killed", ", ".join(f"{what}: {count}" for what, count in seen.items()))  # noqa: T201


def kill_one(chance: random.Random) -> str:
    """Kill one process, check what it left, and say when it was killed."""
    cache = EngineCache()
    begun = time.perf_counter()
    with cache.building(CONDITIONS):
        cache.save(CONDITIONS, plan_of(2, SIZE), ())
    one_save = time.perf_counter() - begun
    if is_first := chance.random() < 0.5:
        cache.prune(0)
    child = os.fork()
    if child == 0:
        try:
            save_for_ever()
        finally:
            os._exit(1)
    time.sleep(chance.uniform(0, 1.5 if is_first else 5) * one_save)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    saved = cache.load(CONDITIONS)  # raises if it is damaged
    assert is_first or saved is not None
    if saved is not None:
        assert saved.plan in {plan_of(seed, SIZE) for seed in range(3)}
    parts = list(cache.directory.glob(".*"))
    with cache.building(CONDITIONS):  # waits for ever if the lock is held
        cache.save(CONDITIONS, plan_of(3, SIZE), ())
    after = cache.load(CONDITIONS)
    assert after is not None
    assert after.plan == plan_of(3, SIZE)
    assert not list(cache.directory.glob(".*"))
    return "during a write" if parts else "between" if saved else "before the first was in its place"


def save_for_ever() -> None:
    """Save two engines in turn."""
    cache = EngineCache()
    seed = 0
    while True:
        with cache.building(CONDITIONS):
            cache.save(CONDITIONS, plan_of(seed, SIZE), ())
        seed = 1 - seed


if __name__ == "__main__":
    main(int(sys.argv[1]))
