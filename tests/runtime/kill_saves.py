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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hatch_tensoracle.runtime.cache import EngineCache
from runtime.conditions import conditions, plan_of

SIZE = 1_500_000
"""Bytes of a plan."""
CONDITIONS = conditions()


def main(runs: int) -> None:
    """Kill that many saves and print what was seen."""
    seen = {"killed before the first save": 0, "killed during a save": 0, "killed otherwise": 0}
    for run in range(runs):
        with tempfile.TemporaryDirectory() as directory:
            os.environ["TENSORACLE_CACHE_DIR"] = directory
            seen[kill_one(random.Random(run))] += 1  # noqa: S311 - a time
    print(f"{runs} runs, all well:", ", ".join(f"{count} {what}" for what, count in seen.items()))  # noqa: T201


def kill_one(chance: random.Random) -> str:
    """Kill one process, check what it left, and say when it was killed."""
    ready, is_ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(is_ready, b"x")
        save_for_ever()
    os.read(ready, 1)
    time.sleep(chance.expovariate(100))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(is_ready)

    cache = EngineCache()
    saved = cache.load(CONDITIONS)  # raises if it is damaged
    if saved is not None:
        assert saved.plan in {plan_of(seed, SIZE) for seed in range(2)}
    parts = list(cache.directory.glob(".*"))
    with cache.building(CONDITIONS):  # waits for ever if the lock is held
        cache.save(CONDITIONS, plan_of(2, SIZE), ())
    after = cache.load(CONDITIONS)
    assert after is not None
    assert after.plan == plan_of(2, SIZE)
    assert not list(cache.directory.glob(".*"))
    return "killed during a save" if parts else "killed otherwise" if saved else "killed before the first save"


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
