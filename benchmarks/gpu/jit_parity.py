"""The shipped kernels against the same source, options and ptxas compiled by Triton on this machine."""

from __future__ import annotations

import functools
import importlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from example import DTYPES, Example, configuration_name, use_ptxas
from part import Case, Setting, run
from records import Figure, Row
from timing import filled, time_alternating

from hatch_tensoracle.bundle import Entry

GOAL = 1.02
_EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """The same work by both, into tensors of their own."""

    plugin: Callable[[], None]
    jit: Callable[[], Any]
    """Returns Triton's compiled kernel."""
    outputs: tuple[torch.Tensor, torch.Tensor]


def cases(setting: Setting) -> Iterator[Case]:
    """Add + RMSNorm in its types and variants, then every configuration of the matrix product."""
    example = Example(setting)
    note = f"ptxas {use_ptxas(example.bundle.tools['ptxas'])}"
    for type_ in DTYPES:
        for variant, columns in ((0, 4096),) if setting.is_quick else ((0, 4096), (1, 4100)):
            for entry in example.entries(f"add_rms_norm_{type_}", variant):
                name = f"add_rms_norm {type_}, 16384 x {columns}, {configuration_name(entry)}"
                yield name, functools.partial(_norm, example, note, entry, type_, columns)
    for kernel, type_, extent in (("fp16", "fp16", 4096), ("tf32", "fp32", 4096), ("fp32", "fp32", 2048)):
        for entry in example.entries(f"matmul_bias_gelu_{kernel}")[: 1 if setting.is_quick else None]:
            name = f"{entry.kernel}, {extent} cubed, {configuration_name(entry)}"
            yield name, functools.partial(_matmul, example, note, entry, type_, extent)


def _norm(example: Example, note: str, entry: Entry, type_: str, columns: int) -> Row:
    rows, dtype = 16384, DTYPES[type_]
    x, residual = filled((rows, columns), dtype), filled((rows, columns), dtype)
    weight = filled((columns,), dtype)
    mine, theirs = ((torch.empty_like(x), torch.empty_like(x)) for _ in range(2))
    plugin = example.add_rms_norm(x, weight, _EPSILON, configuration=entry.configuration)
    kernel = importlib.import_module("kernels").add_rms_norm

    def jit() -> Any:
        arguments = (x, residual, weight, *theirs, columns, _EPSILON)
        return kernel[(rows,)](*arguments, **_constants(entry))

    sides = _Sides(plugin=lambda: plugin([x, residual, weight], mine), jit=jit, outputs=(mine[0], theirs[0]))
    return _row(example, note, entry, sides)


def _matmul(example: Example, note: str, entry: Entry, type_: str, extent: int) -> Row:
    dtype = DTYPES[type_]
    x, w = filled((extent, extent), dtype), filled((extent, extent), dtype, extent**-0.5)
    bias = filled((extent,), torch.float32)
    mine, theirs = torch.empty_like(x), torch.empty_like(x)
    is_tf32 = entry.kernel.endswith("tf32")
    plugin = example.matmul(x, w, bias, is_tf32=is_tf32, configuration=entry.configuration)
    kernel = importlib.import_module("kernels").matmul_bias_gelu
    constants = _constants(entry)
    blocks = -(-extent // constants["BM"]) * -(-extent // constants["BN"])

    def jit() -> Any:
        return kernel[(blocks,)](x, w, bias, theirs, extent, extent, extent, **constants)

    sides = _Sides(plugin=lambda: plugin([x, w], [mine]), jit=jit, outputs=(mine, theirs))
    return _row(example, note, entry, sides)


def _row(example: Example, note: str, entry: Entry, sides: _Sides) -> Row:
    for output in sides.outputs:
        output.fill_(float("nan"))
    sides.plugin()
    code = sides.jit().asm["cubin"]
    torch.cuda.synchronize()
    is_same_output = torch.equal(*sides.outputs)
    shipped = {(example.bundle_directory / cubin.file).read_bytes() for cubin in entry.cubins}
    assert not bool(sides.outputs[0].isnan().any()), "the plugin left elements of its output unwritten"
    times = time_alternating(
        {"plugin": lambda _: sides.plugin(), "jit": lambda _: sides.jit()},
        sets=1,
        milliseconds=60 if example.is_quick else 150,
    )
    ratio = statistics.median(times["plugin"]) / statistics.median(times["jit"])
    return Row(
        ratios=(Figure(name="plugin / Triton's JIT", value=ratio, at_most=GOAL),),
        absolutes=(Figure.median("plugin", times["plugin"], "µs"), Figure.median("JIT", times["jit"], "µs")),
        note=f"{note}; cubins {'equal' if code in shipped else 'differ'}; "
        f"outputs {'equal' if is_same_output else 'differ'} bit for bit",
    )


def _constants(entry: Entry) -> dict[str, Any]:
    """Constants and options, as a launch by Triton takes them."""
    given = {name: value for name, value in entry.options.items() if value is not None}
    return {each.name: each.value for each in entry.constants} | given


if __name__ == "__main__":
    run(cases)
