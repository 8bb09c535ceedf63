"""Executions of the example's plugins in processes without torch: inputs, device memory, and what must come of them."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu.references import EPSILON, matmul_bias_gelu, rms_norm, worst
from hatch_tensoracle.testing import Context, Cuda, DevicePointer, PluginHarness, RunningPlugin, Tensor
from hatch_tensoracle.testing.tensors import byte_size

__all__ = ["KINDS", "Execution", "Session", "session"]

KINDS = ("norm fp16", "norm fp32", "matmul fp16", "matmul tf32", "matmul fp32")
"""Plugin and kernel of an execution."""
_SECONDS = 100
"""What a process may take: then it shows where it hangs, and ends."""


@dataclass(frozen=True, slots=True)
class Session:
    """A process's driver, its first context, and the library."""

    cuda: Cuda
    context: Context
    harness: PluginHarness

    def complaints(self) -> list[str]:
        """What was logged as an error or a warning."""
        return [message.text for message in self.harness.messages if message.severity not in {"INFO", "VERBOSE"}]

    def free_memory(self) -> int:
        """Bytes of the current context's device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.call("cuMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value


@contextlib.contextmanager
def session(library: Path, *, complains: bool = False) -> Iterator[Session]:
    """Begin a process: a context is current inside, plugins are destroyed at the end, and complaints are a failure."""
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    cuda = Cuda()
    context = cuda.create_context()
    with PluginHarness(library) as harness:
        at = Session(cuda, context, harness)
        yield at
    assert complains or not at.complaints()


class Execution:
    """A plugin with inputs and outputs in the current context.

    A norm's shape is (rows, columns), a product's (m, n, k). The engine takes up to twice the rows.
    """

    def __init__(self, at: Session, kind: str, shape: Sequence[int], *, tactic: int | None = None) -> None:
        self._cuda = at.cuda
        self.kind, self.shape = kind, tuple(shape)
        plugin, self._type = kind.split()
        type_ = "fp32" if self._type == "tf32" else self._type
        rows, columns = shape[0], shape[-1]
        x = Tensor(type_, (-1, columns), min=(0, columns), opt=(rows, columns), max=(2 * rows, columns))
        fields: dict[str, Any]
        if plugin == "norm":
            name, fields, tensors = "AddRmsNorm", {"epsilon": EPSILON}, [x, x, Tensor(type_, (columns,))]
        else:
            self.bias = _random(0, (shape[1],), "fp32")
            fields = {"bias": self.bias, "tf32": int(self._type == "tf32")}
            name, tensors = "MatmulBiasGelu", [x, Tensor(type_, (columns, shape[1]))]
        self.running: RunningPlugin = at.harness.create(name, fields).build(tensors).run_time(tactic=tactic)
        self._shapes = [tensor.bound("opt") for tensor in tensors]
        self._types = [type_] * (len(tensors) + (2 if plugin == "norm" else 1))
        self.allocate()

    def allocate(self) -> None:
        """Take new memory, with new contents."""
        shapes = [*self._shapes, *self.running.output_shapes(self._shapes)]
        sizes = [byte_size(type_, shape) for type_, shape in zip(self._types, shapes, strict=True)]
        pointers = [
            DevicePointer(self._cuda.allocate(size), shape, type_)
            for size, shape, type_ in zip(sizes, shapes, self._types, strict=True)
        ]
        self.inputs, self.outputs = pointers[: len(self._shapes)], pointers[len(self._shapes) :]
        self.fill(1)

    def fill(self, seed: int) -> None:
        """Copy random inputs to the device, and NaN to the outputs."""
        self.values = [_random(seed + i, each.shape, each.type) for i, each in enumerate(self.inputs)]
        for pointer, value in zip(self.inputs, self.values, strict=True):
            self._cuda.copy_to_device(pointer.address, value.tobytes())
        for pointer in self.outputs:
            self._cuda.copy_to_device(pointer.address, b"\xff" * byte_size(pointer.type, pointer.shape))
        self._cuda.synchronize(0)  # a copy from pageable memory may return when it is staged

    def enqueue(self, stream: Any = None, *, rows: int | None = None) -> None:
        """Execute on all rows, or on the first ones."""
        outputs = [_first(pointer, rows) for pointer in self.outputs]
        norm = self.kind.startswith("norm")
        inputs = [_first(each, rows) if i == 0 or (norm and i == 1) else each for i, each in enumerate(self.inputs)]
        self.running.enqueue(inputs, outputs, stream)

    def check(self) -> None:
        """Compare the outputs, whose work is done, with the reference."""
        got = [self._read(pointer) for pointer in self.outputs]
        if self.kind.startswith("norm"):
            x, residual, weight = self.values
            r = (x.astype("float32") + residual.astype("float32")).astype(x.dtype)
            assert (got[1] == r).all(), f"{self.kind} {self.shape}: r differs"
            expected, bound = rms_norm(r, weight, self._type)
        else:
            x, w = self.values
            expected, bound = matmul_bias_gelu(x, w, self.bias, self._type)
        error = worst(got[0], expected, bound)
        assert error <= 1, f"{self.kind} {self.shape}: an error is {error} times its bound"

    def free(self) -> None:
        """Give the memory back."""
        for pointer in (*self.inputs, *self.outputs):
            self._cuda.free(pointer.address)

    def _read(self, pointer: DevicePointer) -> Any:
        import numpy as np

        data = self._cuda.copy_to_host(pointer.address, byte_size(pointer.type, pointer.shape))
        return np.frombuffer(data, _numpy(pointer.type)).reshape(pointer.shape)


def _first(pointer: DevicePointer, rows: int | None) -> DevicePointer:
    return pointer if rows is None else DevicePointer(pointer.address, (rows, *pointer.shape[1:]), pointer.type)


def _random(seed: int, shape: Sequence[int], type_: str) -> Any:
    import numpy as np

    return np.random.default_rng(seed).standard_normal(shape).astype(_numpy(type_))


def _numpy(type_: str) -> str:
    return {"fp16": "float16", "fp32": "float32"}[type_]
