"""compare_outputs against the plain expression of the same five results in NumPy's float64: time and memory.

`python benchmarks/compare_outputs.py`. First compare_outputs alone on two arrays of 10**9 float32, which take 8 GB;
--elements says fewer. Memory is the largest resident size less what there was with the arrays in place. Then arrays of
10**8, the sides taking turns, and the medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hatch_tensoracle.runtime import compare_outputs  # noqa: E402

TIMED = 10**8


def plain(candidate: np.ndarray, reference: np.ndarray) -> tuple[float, ...]:
    """The counts of what is not finite, largest error, relative L2 error, and cosine similarity."""
    candidate, reference = candidate.astype(np.float64), reference.astype(np.float64)
    difference = candidate - reference
    norm = np.linalg.norm(reference)
    return (
        int((~np.isfinite(candidate)).sum()),
        int((~np.isfinite(reference)).sum()),
        float(np.abs(difference).max()),
        float(np.linalg.norm(difference) / norm),
        float(candidate @ reference / (np.linalg.norm(candidate) * norm)),
    )


def ours(candidate: np.ndarray, reference: np.ndarray) -> tuple[float | None, ...]:
    """The same."""
    found = compare_outputs(candidate, reference)
    return (
        found.candidate_nonfinite_count,
        found.reference_nonfinite_count,
        found.max_absolute_error,
        found.relative_l2_error,
        found.cosine_similarity,
    )


def made(elements: int) -> tuple[np.ndarray, np.ndarray]:
    """A candidate and a reference, filled piece by piece."""
    random = np.random.default_rng(0)
    candidate, reference = np.empty(elements, np.float32), np.empty(elements, np.float32)
    for begin in range(0, elements, 1 << 20):
        piece = slice(begin, begin + (1 << 20))
        random.standard_normal(dtype=np.float32, out=reference[piece])
        random.standard_normal(dtype=np.float32, out=candidate[piece])
        candidate[piece] *= 1e-3
        candidate[piece] += reference[piece]
    return candidate, reference


def seconds(call: Callable[[], object]) -> float:
    """Of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def resident(name: str) -> int:
    """VmRSS, the resident size, or VmHWM, the largest so far, in bytes."""
    return int(Path("/proc/self/status").read_text(encoding="utf-8").partition(f"{name}:")[2].split()[0]) * 1024


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--elements", type=int, default=10**9, help="for the figure of memory")
    options = parser.parse_args()
    print(describe_machine(), f"numpy {np.__version__}", sep="; ")
    # Memory first: the largest size so far counts.
    arrays = made(options.elements)
    compare_outputs(arrays[0][:100], arrays[1][:100])
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the largest size so far is this one
    taken = seconds(lambda: compare_outputs(*arrays, atol=1e-3, rtol=1e-3))
    print(f"{options.elements:.0e} float32: {(resident('VmHWM') - before) / 1e6:.1f} MB beyond them, {taken:.1f} s")
    del arrays

    arrays = made(TIMED)
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(options.rounds):
        times["plain"].append(seconds(lambda: plain(*arrays)))
        times["ours"].append(seconds(lambda: ours(*arrays)))
    assert np.allclose(plain(*arrays), np.array(ours(*arrays), float), rtol=1e-9, atol=0)
    theirs, mine = (statistics.median(times[side]) for side in ("plain", "ours"))
    print(f"{TIMED:.0e} float32: {mine:.2f} s, plain NumPy {theirs:.2f} s, {theirs / mine:.1f} times as long")


if __name__ == "__main__":
    main()
