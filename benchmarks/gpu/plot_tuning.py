"""Draws what was measured by `hatch-tensoracle tune`: each configuration's time over that of the fastest, by size.

`python benchmarks/gpu/plot_tuning.py tuning.journal.jsonl M --output tuning.svg`: along the variable M, a picture for
each case and each combination of its other variables. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

SLOWEST = 3.0
"""Times the fastest: what is above is cut off."""


def main() -> None:
    """Read the journal and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journal", type=Path)
    parser.add_argument("variable")
    parser.add_argument("--output", type=Path, default=Path("tuning.svg"), help="(default: tuning.svg)")
    options = parser.parse_args()
    header, *lines = (json.loads(line) for line in options.journal.read_text(encoding="utf-8").splitlines())
    draw(f"{header['gpu']}, driver {header['driver']}", grouped(lines, options.variable), options)


def grouped(lines: list[dict[str, Any]], variable: str) -> dict[str, dict[int, dict[str, float | None]]]:
    """Title of a picture -> value of the variable -> microseconds by configuration."""
    groups: dict[str, dict[int, dict[str, float | None]]] = {}
    for line in lines:
        if variable in line["sizes"]:
            others = ", ".join(f"{name} = {value}" for name, value in line["sizes"].items() if name != variable)
            title = ", ".join(filter(None, (line["kernel"], others)))
            groups.setdefault(title, {})[line["sizes"][variable]] = line["us"]
    return groups


def draw(title: str, groups: dict[str, dict[int, dict[str, float | None]]], options: argparse.Namespace) -> None:
    """Write the pictures, one below the other."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tuning"  # the same bytes for the same content
    mpl.rcParams["svg.fonttype"] = "none"  # text, which is smaller than the outlines of its letters
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(groups), squeeze=False, figsize=(9, 4 * len(groups)), layout="constrained")
    figure.suptitle(title)
    for axis, (name, times) in zip(axes[:, 0], groups.items(), strict=True):
        values = sorted(times)
        fastest = {value: min(us for us in times[value].values() if us is not None) for value in values}
        for configuration in times[values[0]]:
            known = [(value, us) for value in values if (us := times[value][configuration]) is not None]
            axis.plot([value for value, _ in known], [us / fastest[value] for value, us in known], label=configuration)
        axis.set(title=name, xlabel=options.variable, ylabel="time over the fastest", ylim=(0.95, SLOWEST))
        axis.set_xscale("log", base=2)
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize="small")
    figure.savefig(options.output, metadata={"Date": None})
    print(options.output)


if __name__ == "__main__":
    main()
