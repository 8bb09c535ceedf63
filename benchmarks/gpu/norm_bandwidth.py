"""Add + RMSNorm against a copy of as many bytes in the same run, with torch's own beside it."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator
from typing import Any

import torch
from compiled import compile_now
from example import DTYPES, Example
from part import Case, Setting, run
from records import Figure, Row
from timing import Call, buffer_sets, filled, relative_error, time_alternating

GOAL = 0.85
"""Of the copy's bandwidth, at sizes of at least _LARGE bytes."""
_LARGE = 1 << 29
_PIECE = 1 << 28
"""Bytes that the baseline copies at once: of a GB at once, an H200 copies a third fewer bytes a second."""
_EPSILON = 1e-5
_ERRORS = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}  # far above rounding, far below a wrong kernel
_SHAPES = (
    (128, 4096),
    (1024, 4096),
    (4096, 4096),
    (16384, 4096),
    (65536, 4096),
    (65536, 1024),
    (32768, 8192),
    (65536, 4100),
)
_QUICK_SHAPES = ((1024, 4096), (65536, 4096))


def cases(setting: Setting) -> Iterator[Case]:
    """A sweep of sizes in each type."""
    example = Example(setting)
    for type_ in DTYPES:
        for rows, columns in _QUICK_SHAPES if setting.is_quick else _SHAPES:
            name = f"{type_}, {rows} x {columns}"
            yield name, functools.partial(_measure, example, type_, rows, columns)


def _eager(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    r = x + residual
    return torch.nn.functional.rms_norm(r, (r.shape[-1],), weight, _EPSILON), r


def _measure(example: Example, type_: str, rows: int, columns: int) -> Row:
    dtype = DTYPES[type_]
    moved = 4 * rows * columns * dtype.itemsize  # x and residual are read, y and r written; the weight is little
    sets = buffer_sets(moved)
    weight = filled((columns,), dtype)
    inputs = [(filled((rows, columns), dtype), filled((rows, columns), dtype), weight) for _ in range(sets)]
    outputs = [tuple(torch.full_like(given[0], float("nan")) for _ in range(2)) for given in inputs]
    plugin = example.add_rms_norm(inputs[0][0], weight, _EPSILON)
    plugin(inputs[0], outputs[0])
    error = relative_error(outputs[0][0], _eager(*(each.double() for each in inputs[0]))[0])
    assert error < _ERRORS[type_], f"the relative error is {error:.2g}"
    pairs = [torch.stack(given[:2]).flatten().split(_PIECE // dtype.itemsize) for given in inputs]
    copies = [[torch.empty_like(piece) for piece in pieces] for pieces in pairs]
    calls: dict[str, Call] = {
        "plugin": lambda i: plugin(inputs[i], outputs[i]),
        "copy": lambda i: [to.copy_(piece) for to, piece in zip(copies[i], pairs[i], strict=True)],
        "eager": lambda i: _eager(*inputs[i]),
    }
    compiled, note = compile_now(_eager, inputs[0])
    if compiled is not None:
        calls["compile"] = lambda i: compiled(*inputs[i])
    times = time_alternating(calls, sets=sets, milliseconds=30 if example.is_quick else 80)
    return _row(times, moved, f"{moved / 1e6:,.0f} MB moved; relative error {error:.1e}; {note}")


def _row(times: dict[str, list[float]], moved: int, note: str) -> Row:
    medians = {side: statistics.median(each) for side, each in times.items()}
    goal = GOAL if moved >= _LARGE else None
    ratios = [
        Figure(name="share of the copy's bandwidth", value=medians["copy"] / medians["plugin"], at_least=goal),
        *(
            Figure(name=f"{title} / plugin", value=medians[side] / medians["plugin"])
            for side, title in (("eager", "torch eager"), ("compile", "torch.compile"))
            if side in medians
        ),
    ]
    absolutes: list[Any] = [Figure.median(side, each, "µs") for side, each in times.items()]
    absolutes.append(Figure(name="plugin", value=moved / medians["plugin"] / 1e6, unit="TB/s"))
    absolutes.append(Figure(name="copy", value=moved / medians["copy"] / 1e6, unit="TB/s"))
    return Row(ratios=tuple(ratios), absolutes=tuple(absolutes), note=note)


if __name__ == "__main__":
    run(cases)
