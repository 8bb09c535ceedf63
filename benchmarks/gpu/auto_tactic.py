"""How far the tactic "auto" of a tuned library is from the best, on a GPU.

`python benchmarks/gpu/auto_tactic.py LIBRARY --cases tune.toml --journal tuning.journal.jsonl`. Times all tactics in
turns on every shape of the journal, and on random ones between: log-uniform over the ranges of the cases. With the
library from before tuning, it says how far the plugin's own choice is.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path

from hatch_tensoracle.testing import Cuda, PluginHarness
from hatch_tensoracle.tune import Case, opened, read_cases
from hatch_tensoracle.tune.case import Range, Size
from hatch_tensoracle.tune.meter import Meter
from hatch_tensoracle.tune.subject import Subject

SEED = 11


def main() -> None:
    """Measure and print a line for each shape, and a summary for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--between", type=int, default=40, help="random shapes of each case (default: 40)")
    options = parser.parse_args()
    cuda = Cuda()
    cuda.create_context()
    print(f"{cuda.current_device().name}, driver {cuda.driver_version()}")
    meter, chance = Meter(cuda), random.Random(SEED)  # noqa: S311 - shapes, no secrets
    with opened(options.library) as (library, bundle, _), PluginHarness(library) as harness:
        for case in read_cases(options.cases):
            subject = Subject(case, harness, bundle)
            measured = measured_sizes(options.journal, case)
            between = [random_sizes(case, chance) for _ in range(options.between)]
            for what, shapes, goal in (("measured", measured, 1.05), ("between", between, 1.10)):
                summarise(f"{case.kernel}, {what}", [distance(subject, sizes, meter) for sizes in shapes], goal)


def measured_sizes(journal: Path, case: Case) -> list[Mapping[str, int]]:
    """The shapes of a case that its journal has."""
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [line["sizes"] for line in lines if line.get("case") == case.id]


def random_sizes(case: Case, chance: random.Random) -> dict[str, int]:
    """A shape inside the case."""

    def choose(size: Size) -> int:
        if isinstance(size, Range):
            return round(math.exp(chance.uniform(math.log(size.min), math.log(size.max))))
        return chance.choice(size) if isinstance(size, tuple) else size

    return {name: choose(size) for name, size in case.sizes.items()}


def distance(subject: Subject, sizes: Mapping[str, int], meter: Meter) -> float:
    """The time with "auto" over that with the best configuration."""
    with subject.built(sizes) as built:
        auto, *times = meter.measure(built, built.tactics)
    known = {name: us for name, us in zip(subject.configurations, times, strict=True) if us is not None}
    best = min(known, key=lambda name: known[name])
    assert auto is not None
    shown = " ".join(f"{name}={value}" for name, value in sizes.items())
    print(f"  {shown}: auto {auto:.2f} us, best {known[best]:.2f} us ({best}), {auto / known[best]:.3f}", flush=True)
    return auto / known[best]


def summarise(what: str, distances: list[float], goal: float) -> None:
    """The worst, and how many are as near as they should be."""
    if distances:
        near = sum(each <= goal for each in distances)
        mean = sum(distances) / len(distances)
        print(f"{what}: {near} of {len(distances)} within {goal:.2f}; mean {mean:.3f}, worst {max(distances):.3f}")


if __name__ == "__main__":
    main()
