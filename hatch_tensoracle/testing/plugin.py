"""A plugin at build time: what TensorRT asks it while it builds an engine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from hatch_tensoracle.testing import abi
from hatch_tensoracle.testing.built_plugin import BuiltPlugin
from hatch_tensoracle.testing.errors import FormatError, PluginContractError
from hatch_tensoracle.testing.execution import RunningPlugin
from hatch_tensoracle.testing.fields import Field, read_fields
from hatch_tensoracle.testing.library import NativeHarness
from hatch_tensoracle.testing.output_shapes import OutputShapes
from hatch_tensoracle.testing.plugin_object import PluginObject
from hatch_tensoracle.testing.signature import Signature
from hatch_tensoracle.testing.tensors import Tensor

__all__ = ["Plugin"]

Make = Callable[[Sequence[Field], int], PluginObject]

_BUILD_PHASE, _RUN_TIME_PHASE = 0, 1
_MOST_COMBINATIONS = 1000  # so that the search ends; TensorRT tries 100
_UNSET = -1  # what no plugin may read or leave: of no data type and no format

Combination = tuple[tuple[str, str], ...]
"""Data type and format of each input, then of each output."""


class Plugin:
    """A plugin in a network, created with some fields."""

    def __init__(self, harness: NativeHarness, make: Make, fields: Sequence[Field]) -> None:
        self._harness = harness
        self._make = make
        self._plugin = make(fields, _BUILD_PHASE)
        self.name, self.version, self.namespace = self._plugin.identity()
        self._running: list[RunningPlugin] = []

    def close(self) -> None:
        """Destroy it, and what was made of it."""
        for running in self._running:
            running.close()
        self._plugin.close()

    @property
    def output_count(self) -> int:
        """How many outputs it has."""
        return int(self._plugin.ask("build", "GetNbOutputs"))

    def output_types(self, inputs: Sequence[Tensor]) -> tuple[str, ...]:
        """The outputs' data types for inputs of theirs. Raises PluginFailedError."""
        numbers = (ctypes.c_int32 * self.output_count)(*[_UNSET] * self.output_count)
        given = (ctypes.c_int32 * len(inputs))(*(abi.DATA_TYPES.index(tensor.type) for tensor in inputs))
        self._plugin.do("build", "GetOutputDataTypes", numbers, _int(len(numbers)), given, _int(len(given)))
        for output, number in enumerate(numbers):
            if not 0 <= number < len(abi.DATA_TYPES):
                raise PluginContractError(f"{self.name}: getOutputDataTypes gave output {output} the type {number}")
        return tuple(abi.DATA_TYPES[number] for number in numbers)

    def output_shapes(self, inputs: Sequence[Tensor]) -> OutputShapes:
        """The outputs' shapes for inputs of theirs. Raises PluginFailedError."""
        return OutputShapes(self._harness, self._plugin, [tensor.shape for tensor in inputs], self.output_count)

    def format_combinations(self, inputs: Sequence[Tensor]) -> tuple[Combination, ...]:
        """All that the plugin supports, over all data types and formats; of `inputs` only number and shapes count.

        Raises PluginContractError if there are more than 1000; TensorRT tries 100.
        """
        candidates = [(type_, format_) for type_ in abi.DATA_TYPES for format_ in abi.FORMATS]
        tensors = [*inputs, *(Tensor("fp32", ()) for _ in range(self.output_count))]
        every = self._combinations(tensors, len(inputs), [candidates] * len(tensors))
        found = tuple(islice(every, _MOST_COMBINATIONS + 1))
        if len(found) > _MOST_COMBINATIONS:
            message = f"{self.name}: supports more than {_MOST_COMBINATIONS} combinations of data types and formats"
            raise PluginContractError(message)
        return found

    def build(self, inputs: Sequence[Tensor]) -> BuiltPlugin:
        """Build it into an engine for inputs of these data types, formats and shapes.

        Like TensorRT, works on a clone. Raises PluginFailedError, FormatError or PluginContractError.
        """
        clone = self._plugin.clone()
        shapes = self.output_shapes(inputs)
        outputs = self._negotiate(inputs, self._outputs(inputs, shapes))
        descs = (*_descs(inputs), *_descs(outputs))
        clone.do("build", "ConfigurePlugin", *descs)
        workspace = clone.ask("build", "GetWorkspaceSize", *descs)
        aliases = (clone.ask("build", "GetAliasedInput", _int(output)) for output in range(len(outputs)))
        built = BuiltPlugin(
            name=self.name,
            inputs=tuple(inputs),
            outputs=outputs,
            shapes=shapes,
            workspace=workspace,
            tactics=self._tactics(clone),
            timing_cache_id=_text(clone.ask("build", "GetTimingCacheID")),
            metadata=_text(clone.ask("build", "GetMetadataString")),
            aliases=tuple(None if alias < 0 else alias for alias in aliases),
            fields=read_fields(clone.get("runtime", "GetFieldsToSerialize").contents),
            _deserialize=self._deserialize,
        )
        clone.close()
        return built

    def _deserialize(self, signature: Signature, fields: Sequence[Field], tactic: int) -> RunningPlugin:
        self._plugin.check_alive()  # whose end is that of all that was made of it
        running = RunningPlugin(self._make(fields, _RUN_TIME_PHASE), signature, tactic)
        self._running.append(running)
        return running

    def _outputs(self, inputs: Sequence[Tensor], shapes: OutputShapes) -> tuple[Tensor, ...]:
        least, optimal, greatest = (
            shapes.evaluate([tensor.bound(name) for tensor in inputs]) for name in ("min", "opt", "max")
        )
        types = self.output_types(inputs)
        return tuple(
            Tensor(
                types[i],
                tuple(-1 if extent is None else extent for extent in shape),
                min=least[i],
                opt=optimal[i],
                max=greatest[i],
            )
            for i, shape in enumerate(shapes.constants)
        )

    def _negotiate(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The outputs in the first formats that the plugin supports after the inputs' own."""
        tensors = [*inputs, *outputs]
        candidates = [
            *([(tensor.type, tensor.format)] for tensor in inputs),
            *([(tensor.type, format_) for format_ in abi.FORMATS] for tensor in outputs),
        ]
        combination = next(self._combinations(tensors, len(inputs), candidates), None)
        if combination is None:
            wanted = ", ".join(f"{tensor.type} {tensor.format}" for tensor in inputs)
            supported = self.format_combinations(inputs)
            shown = "; ".join(", ".join(f"{type_} {format_}" for type_, format_ in row) for row in supported)
            raise FormatError(
                f"{self.name}: supports no output formats for inputs of {wanted} and outputs of "
                f"{', '.join(tensor.type for tensor in outputs)}; it supports {shown or 'nothing'}"
            )
        return tuple(
            tensor.with_format(format_)
            for tensor, (_, format_) in zip(outputs, combination[len(inputs) :], strict=True)
        )

    def _combinations(
        self, tensors: Sequence[Tensor], inputs: int, candidates: Sequence[Sequence[tuple[str, str]]]
    ) -> Iterator[Combination]:
        """Ask position by position, as TensorRT does: what follows the position is nothing a plugin may look at."""
        descs = (abi.DynamicTensorDesc * len(tensors))(*(tensor.dynamic_desc() for tensor in tensors))

        def extend(chosen: Combination) -> Iterator[Combination]:
            position = len(chosen)
            if position == len(tensors):
                yield chosen
                return
            for candidate in candidates[position]:
                for later in descs[position:]:
                    later.desc.type = later.desc.format = _UNSET
                descs[position].desc.type = abi.DATA_TYPES.index(candidate[0])
                descs[position].desc.format = abi.FORMATS.index(candidate[1])
                if self._plugin.ask(
                    "build",
                    "SupportsFormatCombination",
                    _int(position),
                    descs,
                    _int(inputs),
                    _int(len(tensors) - inputs),
                ):
                    yield from extend((*chosen, candidate))

        return extend(())

    def _tactics(self, clone: PluginObject) -> tuple[int, ...]:
        count = clone.ask("build", "GetNbTactics")
        tactics = (ctypes.c_int32 * count)()
        if count:
            clone.do("build", "GetValidTactics", tactics, _int(count))
        if len(set(tactics)) != count or any(tactic <= 0 for tactic in tactics):
            message = f"{self.name}: getValidTactics gave {list(tactics)}; they must be positive, each one once"
            raise PluginContractError(message)
        return tuple(tactics)


def _descs(tensors: Sequence[Tensor]) -> tuple[Any, ctypes.c_int32]:
    return (abi.DynamicTensorDesc * len(tensors))(*(tensor.dynamic_desc() for tensor in tensors)), _int(len(tensors))


def _int(value: int) -> ctypes.c_int32:
    return ctypes.c_int32(value)


def _text(answer: bytes | None) -> str | None:
    return None if answer is None else answer.decode()
