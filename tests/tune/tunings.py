"""What the library `tuned` is built with: winners that no GPU had, so that each place can be told."""

from __future__ import annotations

import dataclasses
from typing import Any

from hatch_tensoracle.tuning import TunedRange, Tuning

__all__ = ["CONFIGURATIONS", "DEFAULTS", "TUNINGS", "tuning", "winner"]

CONFIGURATIONS = [{"BLOCK": block, "num_warps": warps} for block, warps in ((64, 1), (256, 2), (1024, 4))]
"""Of every kernel of tests/packages/tuned, in its order."""
DEFAULTS: dict[str, int | float | str] = {
    "factor": 1e-05,
    "mode": "plain",
    "flag": 0,
    "half": 0.1,
    "bfloat": 0.1,
    "double": 0.1,
    "dims": "(3, ?)",
}
"""The fields that are no arrays."""


def winner(configuration: int, *inputs: tuple[int | tuple[int, ...], ...]) -> TunedRange:
    """Shapes that a configuration is for."""
    return TunedRange(inputs=inputs, configuration=CONFIGURATIONS[configuration], us=10.0, runner_up_us=10.5)


def tuning(sm: int, *ranges: TunedRange, type_: str = "fp32", **fields: Any) -> Tuning:
    """What was measured on one SM."""
    return Tuning(
        plugin="Scale",
        version="2",
        namespace="tests",
        kernel=f"scale_{type_}",
        types=(type_,),
        sm=sm,
        gpu=f"GPU of sm_{sm}",
        driver="580.95.05",
        ranges=ranges,
        fields={**DEFAULTS, **fields},
    )


TUNINGS = [
    tuning(
        80,
        winner(1, ((2, 10), 64)),
        winner(2, ((5, 20), (1, 64))),  # where both are, the first counts
        winner(1, ((3, 3), 4, 5)),
    ),
    tuning(86, winner(2, (1, 64))),
    tuning(80, winner(0, ((2, 10), 64)), type_="fp16"),
    tuning(80, winner(0, ((2, 10), 64)), mode="other"),
    tuning(80, winner(0, ((2, 10), 64)), factor=0.5),
    tuning(100, winner(1, ((1, 100), 64))),
    # A plugin may launch another kernel for other shapes.
    dataclasses.replace(tuning(80, winner(0, ((21, 40), 64))), kernel="scale_fp16"),
]
