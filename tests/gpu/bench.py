"""Executions on torch's tensors, with margins in which nothing may be written and of which nothing may be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu.references import EPSILON
from hatch_tensoracle.testing import Cuda, PluginHarness, Tensor

__all__ = ["Bench", "Guarded"]

_MARGIN = 256  # elements
_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}


@dataclass(frozen=True, slots=True)
class Guarded:
    """A view into a larger buffer that was NaN all over: so is what is not written, and what is read from outside."""

    buffer: Any
    view: Any

    def check_margins(self, where: str) -> None:
        """Fail if something was written before or behind it."""
        first = self.view.storage_offset()
        margins = (self.buffer[:first], self.buffer[first + self.view.numel() :])
        assert all(bool(margin.isnan().all()) for margin in margins), f"{where}: written outside of a tensor"


@dataclass(frozen=True, slots=True)
class Bench:
    """torch and the library. Shapes begin `offset` elements behind an aligned address."""

    torch: Any
    harness: PluginHarness
    device: str = "cuda"

    def empty(self, shape: Sequence[int], type_: str, offset: int = 0) -> Guarded:
        """A tensor that is not written yet."""
        size, first = math.prod(shape), _MARGIN + offset
        dtype = getattr(self.torch, _DTYPES[type_])
        buffer = self.torch.full((first + size + _MARGIN,), math.nan, dtype=dtype, device=self.device)
        return Guarded(buffer, buffer[first : first + size].view(tuple(shape)))

    def normal(self, shape: Sequence[int], type_: str, offset: int = 0) -> Guarded:
        """Of the standard normal distribution."""
        made = self.empty(shape, type_, offset)
        made.view.normal_()
        return made

    def integers(self, shape: Sequence[int], type_: str, offset: int = 0) -> Guarded:
        """Of -1, 0, 1 and 2: sums of products are mostly positive, where gelu hides nothing."""
        made = self.empty(shape, type_, offset)
        made.view.random_(-1, 3)
        return made

    def norm(self, type_: str, inputs: Sequence[Guarded], outputs: Sequence[Guarded], *, tactic: int) -> None:
        """Execute AddRmsNorm on the default stream, which torch works on too, and wait.

        Tactic 1 is auto, and 2 the first configuration.
        """
        tensors = [Tensor(type_, tuple(each.view.shape)) for each in inputs]
        plugin = self.harness.create("AddRmsNorm", {"epsilon": EPSILON})
        built = plugin.build(tensors)
        running = built.run_time(tactic=built.tactics[tactic - 1])
        running.enqueue([each.view for each in inputs], [each.view for each in outputs])
        Cuda().synchronize(0)
        plugin.close()

    def matmul(self, precision: str, inputs: Sequence[Guarded], bias: Any, y: Guarded, *, tactic: int) -> None:
        """Execute MatmulBiasGelu so."""
        type_ = "fp16" if precision == "fp16" else "fp32"
        tensors = [Tensor(type_, tuple(each.view.shape)) for each in inputs]
        plugin = self.harness.create("MatmulBiasGelu", {"bias": bias.cpu().numpy(), "tf32": int(precision == "tf32")})
        built = plugin.build(tensors)
        built.run_time(tactic=built.tactics[tactic - 1]).enqueue([each.view for each in inputs], [y.view])
        Cuda().synchronize(0)
        plugin.close()
