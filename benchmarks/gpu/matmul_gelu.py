"""MatmulBiasGelu, its best tactic and "auto", against cuBLAS with a separate GELU."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator

import torch
from compiled import compile_now
from example import DTYPES, Example, configuration_name
from part import Case, Setting, run
from records import Figure, Row
from timing import Call, buffer_sets, filled, relative_error, time_alternating

# Kernel, type of the tensors, bound of the relative error: far above rounding, far below a wrong kernel.
_PRECISIONS = (("fp16", "fp16", 2e-3), ("tf32", "fp32", 2e-3), ("fp32", "fp32", 1e-5))
_SHAPES = (
    (4096, 4096, 4096),
    (16, 4096, 4096),
    (128, 4096, 4096),
    (512, 4096, 4096),
    (2048, 4096, 4096),
    (8192, 4096, 4096),
    (1024, 14336, 4096),
    (1000, 1000, 1000),
    (1023, 1025, 1027),
)
_QUICK_SHAPES = ((2048, 2048, 2048), (16, 4096, 4096))


def cases(setting: Setting) -> Iterator[Case]:
    """Every shape (M, N, K) in every precision."""
    example = Example(setting)
    for shape in _QUICK_SHAPES if setting.is_quick else _SHAPES:
        for precision in _PRECISIONS:
            name = f"{precision[0]}, M={shape[0]} N={shape[1]} K={shape[2]}"
            yield name, functools.partial(_measure, example, precision, shape)


def _eager(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(torch.addmm(bias, x, w))


def _measure(example: Example, precision: tuple[str, str, float], shape: tuple[int, int, int]) -> Row:
    (kernel, type_, bound), (m, n, k) = precision, shape
    dtype, is_tf32 = DTYPES[type_], kernel == "tf32"
    torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
    bias = filled((n,), dtype)
    sets = buffer_sets((m * k + k * n + m * n) * dtype.itemsize)
    inputs = [(filled((m, k), dtype), filled((k, n), dtype, k**-0.5), bias) for _ in range(sets)]
    outputs = [torch.full((m, n), float("nan"), device="cuda", dtype=dtype) for _ in range(sets)]
    reference = _eager(*(each.double() for each in inputs[0]))
    entries = example.entries(f"matmul_bias_gelu_{kernel}")
    sides = {"auto": None} | {configuration_name(entry): entry.configuration for entry in entries}
    calls: dict[str, Call] = {}
    for side, configuration in sides.items():
        plugin = example.matmul(*inputs[0], is_tf32=is_tf32, configuration=configuration)
        outputs[0].fill_(float("nan"))
        plugin(inputs[0][:2], outputs[:1])
        error = relative_error(outputs[0], reference)
        assert error < bound, f"the relative error of {side} is {error:.2g}"
        calls[side] = functools.partial(_rotate, plugin, inputs, outputs)
    calls["eager"] = lambda i: _eager(*inputs[i])
    compiled, note = compile_now(_eager, inputs[0])
    if compiled is not None:
        calls["compile"] = lambda i: compiled(*inputs[i])
    times = time_alternating(calls, sets=sets, milliseconds=20 if example.is_quick else 50)
    return _row(times, list(sides), 2 * m * n * k, note)


def _rotate(
    plugin: Callable[..., None], inputs: list[tuple[torch.Tensor, ...]], outputs: list[torch.Tensor], i: int
) -> None:
    plugin(inputs[i][:2], outputs[i : i + 1])


def _row(times: dict[str, list[float]], sides: list[str], operations: int, note: str) -> Row:
    medians = {side: statistics.median(each) for side, each in times.items()}
    best = min(sides[1:], key=lambda side: medians[side])
    ratios = [Figure(name="auto / best tactic", value=medians["auto"] / medians[best])]
    for baseline, title in (("eager", "cuBLAS + GELU eager"), ("compile", "torch.compile")):
        if baseline in medians:
            ratios.append(Figure(name=f"{title} / best tactic", value=medians[baseline] / medians[best]))
            ratios.append(Figure(name=f"{title} / auto", value=medians[baseline] / medians["auto"]))
    absolutes = [
        Figure.median(title, times[side], "µs")
        for title, side in (("best", best), ("auto", "auto"), ("eager", "eager"), ("compile", "compile"))
        if side in times
    ]
    absolutes.append(Figure(name="best", value=operations / medians[best] / 1e6, unit="TFLOP/s"))
    return Row(
        ratios=tuple(ratios),
        absolutes=tuple(absolutes),
        note=f"best is {best}" + (f"; {note}" if note else ""),
    )


if __name__ == "__main__":
    run(cases)
