"""The example's plugins on torch's tensors, and the same kernels by Triton's own compiler."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from part import Setting

from hatch_tensoracle.bundle import Entry
from hatch_tensoracle.testing import DevicePointer, PluginHarness, RunningPlugin, Tensor

__all__ = ["DTYPES", "Example", "configuration_name", "use_ptxas"]

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Example:
    """The example's library in a harness."""

    def __init__(self, setting: Setting) -> None:
        torch.zeros(1, device="cuda")  # makes the context that plugins are attached in
        self._harness = PluginHarness(setting.example_library)
        self.is_quick = setting.is_quick
        self.bundle, self.bundle_directory = setting.bundle("example")

    def entries(self, kernel: str, variant: int = 0) -> list[Entry]:
        """Every configuration of a kernel."""
        return [each for each in self.bundle.entries if (each.kernel, each.variant) == (kernel, variant)]

    def plugin(
        self, name: str, fields: Mapping[str, Any], inputs: Sequence[torch.Tensor], tactic: int
    ) -> Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], None]:
        """Enqueues the plugin, for inputs of these types and shapes, on torch's current stream."""
        tensors = [Tensor(_NAMES[each.dtype], tuple(each.shape)) for each in inputs]
        running = self._harness.create(name, fields).build(tensors).run_time(tactic=tactic)
        return functools.partial(_enqueue, running)

    def add_rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor, epsilon: float, *, configuration: int | None = None
    ) -> Callable[..., None]:
        """Takes (x, residual, weight) and (y, r); in a configuration, or in that of the tactic "auto"."""
        return self.plugin("AddRmsNorm", {"epsilon": epsilon}, [x, x, weight], _tactic(configuration))

    def matmul(
        self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, *, is_tf32: bool, configuration: int | None = None
    ) -> Callable[..., None]:
        """Takes (x, w) and (y,); in a configuration, or in that of the tactic "auto"."""
        fields = {"bias": bias.float().cpu().numpy(), "tf32": np.int32(is_tf32)}
        return self.plugin("MatmulBiasGelu", fields, [x, w], _tactic(configuration))


def _tactic(configuration: int | None) -> int:
    return 1 if configuration is None else configuration + 2


def configuration_name(entry: Entry) -> str:
    """`BM=128 BN=64 BK=32 num_warps=4 num_stages=3`."""
    constants = [f"{each.name}={each.value}" for each in entry.constants if each.kind == "integer"]
    return " ".join([*constants, *(f"{name}={entry.options[name]}" for name in ("num_warps", "num_stages"))])


def use_ptxas(version: str) -> str:
    """Have Triton use a ptxas of that version if this machine has one, without line information, as the bundle has it.

    Says what Triton uses. Before Triton compiles anything.
    """
    from tensoracle_producer.toolchain import find_toolchain

    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    triton = importlib.util.find_spec("triton")
    directories = [
        Path(path) / "backends" / "nvidia" / "bin" for path in (triton and triton.submodule_search_locations) or ()
    ]
    found: dict[str, Path] = {}
    for path in (each / name for each in directories for name in ("ptxas", "ptxas-blackwell")):
        if path.is_file():
            found.setdefault(find_toolchain(path).ptxas_version, path)
    if version not in found:
        return f"Triton's own of {', '.join(found) or 'an unknown version'}; the bundle's is {version}"
    os.environ["TRITON_PTXAS_PATH"] = str(found[version])
    return f"{version}, as the bundle's"


def _enqueue(running: RunningPlugin, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    stream = torch.cuda.current_stream()
    running.enqueue(list(map(_pointer, inputs)), list(map(_pointer, outputs)), stream)


def _pointer(tensor: torch.Tensor) -> DevicePointer:
    return DevicePointer(tensor.data_ptr(), tuple(tensor.shape), _NAMES[tensor.dtype])
