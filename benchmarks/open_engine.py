"""What opening a saved engine takes beyond its plan: `python benchmarks/open_engine.py [PLAN_MB [WEIGHTS_MB]]`.

TensorRT is the tests' stand-in, and the GPU's properties are given: loading its driver and deserialising the plan is
not measured. Files lie in the temporary directory and are in the page cache.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from runtime import stand_in
from runtime.opening import TENSORS, opened_example

from hatch_tensoracle.runtime import engine
from hatch_tensoracle.runtime.cache import EngineCache, SavedEngine
from hatch_tensoracle.runtime.digests import forget_digests, weight_digests

RUNS = 7
SHARDS = 5
PLAN = stand_in.plan(TENSORS)


def main(plan_mb: int = 1024, weights_mb: int = 5120) -> None:
    """Build once, then measure hits against reading and hashing the file, alternately."""
    print(describe_machine())
    with tempfile.TemporaryDirectory() as directory, patch.object(stand_in.Runtime, "deserialize_cuda_engine", parsed):
        os.environ["TENSORACLE_CACHE_DIR"] = f"{directory}/cache"
        sys.modules["tensorrt"] = stand_in
        weights = [written(Path(directory) / f"{shard}.safetensors", weights_mb // SHARDS) for shard in range(SHARDS)]
        measure_digests(weights)
        measure_opening(weights, PLAN + bytes(plan_mb << 20))


def measure_opening(weights: list[Path], plan: bytes) -> None:
    """Hits, against their plan alone; and how much is read."""
    path = opened_example(lambda network: setattr(network, "plan", plan), weights=weights).path
    before = bytes_read()
    assert not opened_example(weights=weights).was_built
    read = bytes_read() - before
    baseline, hits, rest = [], [], []
    for _ in range(RUNS):
        baseline.append(timed(lambda: hashlib.sha256(path.read_bytes()).digest()))
        hits.append(timed(lambda: opened_example(weights=weights)))
        with patch.object(engine, "EngineCache", WithoutPlan):
            rest.append(timed(lambda: opened_example(weights=weights)))
    alone, hit = statistics.median(baseline), statistics.median(hits)
    print(f"plan of {path.stat().st_size >> 20} MiB, weights of {sum(w.stat().st_size for w in weights) >> 20} MiB")
    print(f"read and hashed: {alone:.3f} s; open_engine on a hit: {hit:.3f} s, {hit / alone:.2f} times that")
    print(f"all but the plan: {statistics.median(rest) * 1e3:.1f} ms; bytes read beyond the plan's file: ", end="")
    print(read - path.stat().st_size)


def measure_digests(weights: list[Path]) -> None:
    """First digests, against one file after another; and other digests of the same bytes."""
    one, all_ = [], []
    for _ in range(3):
        forget_digests()
        one.append(timed(lambda: [weight_digests([file], refresh=True) for file in weights]))
        all_.append(timed(lambda: weight_digests(weights, refresh=True)))
    ratio = statistics.median(one) / statistics.median(all_)
    print(f"first digest of {len(weights)} files at once: {ratio:.2f} times as fast as one after another")
    block = weights[0].read_bytes()[: 256 << 20]
    names = ("sha256", "sha512", "sha1", "blake2b")
    seconds = {name: min(timed(partial(hashlib.new, name, block)) for _ in range(3)) for name in names}
    print(", ".join(f"{name} {len(block) / seconds[name] / 1e9:.2f} GB/s" for name in names))


class WithoutPlan(EngineCache):
    """As if nothing was to be read."""

    def load(self, conditions: Mapping[str, Any]) -> SavedEngine:
        """A small plan at once."""
        del conditions
        return SavedEngine(path=self.directory / "x.engine", plan=PLAN, creators=())


def parsed(self: stand_in.Runtime, serialized_engine: bytes) -> object:
    """Read the stand-in's plan, without what was put behind it."""
    return REAL(self, bytes(memoryview(serialized_engine)[: len(PLAN)]))


REAL = stand_in.Runtime.deserialize_cuda_engine


def written(path: Path, megabytes: int) -> Path:
    """A file of that size, changed long ago."""
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(block)
    os.utime(path, (1, 1))
    return path


def bytes_read() -> int:
    """What this process has read, from the page cache too."""
    return int(Path("/proc/self/io").read_text().split()[1])


def timed(call: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
