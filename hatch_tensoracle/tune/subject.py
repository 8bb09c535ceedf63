"""A case on a library: its plugins, their configurations by name, and their fields as the library knows them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.errors import ConfigurationError, TensoracleError
from hatch_tensoracle.testing import BuiltPlugin, CudaError, Field, PluginFailedError, PluginHarness
from hatch_tensoracle.testing.tensors import describe_shape
from hatch_tensoracle.tune.case import Case, Range, Sizes
from hatch_tensoracle.tune.errors import TuningError
from hatch_tensoracle.tune.journal import Times
from hatch_tensoracle.tune.meter import Meter
from hatch_tensoracle.tune.survey import Box
from hatch_tensoracle.tuning import Configuration, TunedRange, Tuning, format_configuration

__all__ = ["Subject"]

_AUTO = 1
"""Tactics that are no configurations: the launcher's plugins choose one by themselves."""
_OPTIONS = ("num_warps", "num_stages", "maxnreg")
"""What a configuration can have beside constants; the first two are always named."""
_FLOATS = {"FLOAT16": "e", "FLOAT32": "f", "FLOAT64": "d"}


class Subject:
    """Raises ConfigurationError if the case does not fit the library."""

    def __init__(self, case: Case, harness: PluginHarness, bundle: Bundle) -> None:
        self.case = case
        self._harness = harness
        try:
            self._creator = harness.creator(case.plugin, version=case.version, namespace=case.namespace)
            if case.kernel not in bundle.configurations:
                known = ", ".join(bundle.configurations)
                raise ConfigurationError(f"there is no kernel `{case.kernel}`; there are {known}")
            self.configurations = _named(bundle.configurations[case.kernel])
            with self.built(_first(case)) as built:
                self._check(built, bundle)
                self._fields = dict(self._scalars(built))
        except (LookupError, ValueError, TypeError) as error:
            raise ConfigurationError(f"case {case.label}: {error.args[0]}") from error
        except TensoracleError as error:
            raise ConfigurationError(f"case {case.label}: {error}", remedy=error.remedy) from error

    def measure(self, sizes: Sizes, meter: Meter) -> Times:
        """Time every configuration. Raises TuningError."""
        try:
            with self.built(sizes) as built:
                times = meter.measure(built, built.tactics[_AUTO:])
        except (PluginFailedError, CudaError) as error:
            shown = ", ".join(f"{name}={value}" for name, value in sizes.items())
            raise TuningError(f"case {self.case.label}, {shown}: {error}", remedy=error.remedy) from error
        return dict(zip(self.configurations, times, strict=True))

    def tuning(self, boxes: Sequence[Box], *, gpu: str, sm: int, driver: str) -> Tuning:
        """The entry of tuning.json."""
        return Tuning(
            plugin=self._creator.name,
            version=self._creator.version,
            namespace=self._creator.namespace,
            kernel=self.case.kernel,
            types=tuple(given.type for given in self.case.inputs),
            fields=self._fields,
            gpu=gpu,
            sm=sm,
            driver=driver,
            ranges=tuple(
                TunedRange(
                    inputs=box.extents(self.case),
                    configuration=self.configurations[box.run.configuration],
                    us=round(box.run.us, 2),
                    runner_up_us=None if box.run.runner_up_us is None else round(box.run.runner_up_us, 2),
                )
                for box in boxes
            ),
        )

    @contextmanager
    def built(self, sizes: Sizes) -> Iterator[BuiltPlugin]:
        """The plugin in an engine for inputs of these sizes."""
        creator = self._creator
        fields = self.case.field_values(sizes)
        plugin = self._harness.create(creator.name, fields, version=creator.version, namespace=creator.namespace)
        try:
            yield plugin.build(self.case.tensors(sizes))
        finally:
            plugin.close()

    def _check(self, built: BuiltPlugin, bundle: Bundle) -> None:
        if bundle.digest not in (built.timing_cache_id or ""):
            raise ConfigurationError("the library was not built from the manifest beside it")
        tactics, count = len(built.tactics) - _AUTO, len(self.configurations)
        if tactics != count:
            raise ConfigurationError(
                f"{self.case.plugin} has {max(tactics, 0)} configurations, its kernel {self.case.kernel} has {count}",
                remedy="Name the kernel that the plugin launches for these inputs, and let configurations() count its.",
            )

    def _scalars(self, built: BuiltPlugin) -> Iterator[tuple[str, int | float | str]]:
        arrays = {declared.name for declared in self._creator.fields if declared.length == 0}
        for field in built.fields:
            if field.name not in arrays:
                yield field.name, _scalar(field)


def _first(case: Case) -> dict[str, int]:
    """The least of each variable's values."""
    sizes = case.sizes.items()
    return {
        name: size.min if isinstance(size, Range) else min(size) if isinstance(size, tuple) else size
        for name, size in sizes
    }


def _named(configurations: Sequence[Configuration]) -> dict[str, Configuration]:
    """By name: constants and options that they differ in, and how many warps and stages they have."""
    first = configurations[0]
    names = [*(name for name in first if name not in _OPTIONS), *_OPTIONS]
    differing = [
        name for name in names if name in _OPTIONS[:2] or any(one[name] != first[name] for one in configurations)
    ]
    short: list[Configuration] = [{name: one[name] for name in differing} for one in configurations]
    named = {format_configuration(one): one for one in short}
    if len(named) != len(short):
        twice = next(one for i, one in enumerate(short) if one in short[:i])
        raise ValueError(f"the kernel has the configuration {format_configuration(twice)} twice")
    return named


def _scalar(field: Field) -> int | float | str:
    """The value in the shortest form that the declared type makes the same of."""
    value = field.value()
    if isinstance(value, tuple):  # of DIMS
        return describe_shape(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"field {field.name} is {value}, for which nothing can be tuned")
        return _shortest(value, _FLOATS.get(field.type, "d"))
    assert isinstance(value, int | str)  # noqa: S101 - there are no other types
    return value


def _shortest(value: float, code: str) -> float:
    """1e-05 for the fp32 number next to it."""
    shorter = (float(f"{value:.{digits}g}") for digits in range(1, 18))
    return next(one for one in shorter if struct.pack(f"<{code}", one) == struct.pack(f"<{code}", value))
