"""The shapes of a plugin's outputs, as expressions over the extents of its inputs."""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Mapping, Sequence

from hatch_tensoracle.testing import abi
from hatch_tensoracle.testing.errors import PluginContractError
from hatch_tensoracle.testing.library import NativeHarness
from hatch_tensoracle.testing.plugin_object import PluginObject
from hatch_tensoracle.testing.tensors import Shape

__all__ = ["OutputShapes"]


class OutputShapes:
    """What getOutputShapes answered with for inputs of some shapes, whose dynamic extents stayed symbols."""

    def __init__(self, harness: NativeHarness, plugin: PluginObject, inputs: Sequence[Shape], count: int) -> None:
        self._harness = harness
        self._count = count
        self._plugin = plugin.name
        code = ctypes.c_int32()
        since = harness.message_count()
        shapes, number, outputs = _dims(inputs), ctypes.c_int32(len(inputs)), ctypes.c_int32(count)
        self._handle = plugin.ask("build", "GetOutputShapes", shapes, number, outputs, ctypes.byref(code))
        weakref.finalize(self, harness.call, "DeleteOutputShapes", self._handle)
        if code.value != 0:
            raise plugin.failed("getOutputShapes", code.value, since)
        self._ranks = [harness.call("OutputRank", self._handle, ctypes.c_int32(output)) for output in range(count)]
        for output, rank in enumerate(self._ranks):
            if rank < 0:
                message = f"{plugin.name}: getOutputShapes succeeded, but output {output} has no shape"
                raise PluginContractError(
                    message,
                    remedy=f"Set nbDims to 0 to {abi.MAX_DIMS}, and each extent to an expression of the builder.",
                )

    @property
    def expressions(self) -> tuple[tuple[str, ...], ...]:
        """Each extent as text: `64`, `inputs[0][1]`, `ceil_div(inputs[0][0], 2)`; `outputs[1]` is a size tensor."""
        return tuple(
            tuple(
                self._harness.call("OutputExtent", self._handle, ctypes.c_int32(output), ctypes.c_int32(axis)).decode()
                for axis in range(rank)
            )
            for output, rank in enumerate(self._ranks)
        )

    @property
    def constants(self) -> tuple[tuple[int | None, ...], ...]:
        """The value of each extent that is constant, None for the others."""
        return tuple(
            tuple(int(extent) if extent.lstrip("-").isdigit() else None for extent in shape)
            for shape in self.expressions
        )

    @property
    def size_tensors(self) -> tuple[int, ...]:
        """The outputs that hold an extent of another output."""
        found = re.findall(r"outputs\[(\d+)\]", " ".join(" ".join(shape) for shape in self.expressions))
        return tuple(sorted({int(output) for output in found}))

    def evaluate(self, inputs: Sequence[Shape], sizes: Mapping[int, int] | None = None) -> tuple[Shape, ...]:
        """The outputs' shapes for inputs of these. `sizes` are what size tensors hold; else their upper bounds count.

        Raises PluginContractError for an extent that has no value or a negative one.
        """
        given = (ctypes.c_int64 * self._count)(*((sizes or {}).get(output, -1) for output in range(self._count)))
        return tuple(
            tuple(self._extent(output, axis, inputs, given) for axis in range(rank))
            for output, rank in enumerate(self._ranks)
        )

    def _extent(self, output: int, axis: int, inputs: Sequence[Shape], sizes: ctypes.Array[ctypes.c_int64]) -> int:
        value = ctypes.c_int64()
        problem = self._harness.call(
            "EvaluateExtent",
            self._handle,
            ctypes.c_int32(output),
            ctypes.c_int32(axis),
            _dims(inputs),
            ctypes.c_int32(len(inputs)),
            sizes,
            ctypes.c_int32(self._count),
            ctypes.byref(value),
        )
        where = f"{self._plugin}: axis {axis} of output {output}, for inputs of {', '.join(map(str, inputs))}"
        if problem is not None:
            raise PluginContractError(f"{where}: {problem.decode()}")
        if value.value < 0:
            raise PluginContractError(f"{where}: is {value.value}")
        return value.value


def _dims(shapes: Sequence[Shape]) -> ctypes.Array[abi.Dims]:
    return (abi.Dims * len(shapes))(*(abi.Dims.of(shape) for shape in shapes))
