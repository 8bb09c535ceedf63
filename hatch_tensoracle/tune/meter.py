"""Times the tactics of a plugin on the device of the current context."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from hatch_tensoracle.testing import (
    BuiltPlugin,
    Cuda,
    DevicePointer,
    Event,
    Graph,
    PluginFailedError,
    RunningPlugin,
    Stream,
)
from hatch_tensoracle.testing.tensors import byte_size
from hatch_tensoracle.tune.patterns import Patterns

__all__ = ["Meter"]

BUDGET = 30_000.0
"""Microseconds of the GPU's time for each tactic."""
ROUNDS = (7, 60)
"""How often each tactic is timed, at least and at most."""
STRETCH = 100.0
"""Microseconds that one timing is to take, for which it has more than one execution: what starting it takes, and the
resolution of events, are then of no account."""
EXECUTIONS = 16
"""The most executions of one timing."""


class Meter:
    """Holds what all timings share: a stream, events, random values, and memory that clears the L2 cache."""

    def __init__(self, cuda: Cuda) -> None:
        context = cuda.current_context()
        assert context is not None  # noqa: S101 - the caller has made one
        self._cuda = cuda
        self._stream = context.create_stream()
        self._patterns = Patterns(cuda, self._stream)
        self._cleared = 2 * cuda.current_device().l2
        self._clearing = cuda.allocate(self._cleared)
        self._events: list[tuple[Event, Event]] = []

    def measure(self, built: BuiltPlugin, tactics: Sequence[int]) -> list[float | None]:
        """Microseconds of one execution with each of the tactics, for inputs of fixed shapes; None if it fails.

        A timing is that of a CUDA graph of executions, each with tensors of its own, after the L2 cache was filled with
        something else: none finds its inputs there. Tactics are timed in turns; the median counts. Raises
        PluginFailedError if all fail, and CudaError.
        """
        tensors = _Tensors(self._cuda, built)
        with ExitStack() as stack:
            stack.callback(tensors.free)
            stack.callback(self._stream.synchronize)
            tensors.provide(1, self._patterns)
            plugins: dict[int, RunningPlugin] = {}
            failures = []
            for tactic in tactics:
                plugin = stack.enter_context(built.run_time(tactic=tactic))
                try:
                    tensors.enqueue(plugin, self._stream)  # which loads its kernels
                    plugins[tactic] = plugin
                except PluginFailedError as error:
                    failures.append(error)
            if not plugins:
                raise failures[0]
            times = dict(zip(plugins, self._times(tensors, list(plugins.values())), strict=True))
        return [times.get(tactic) for tactic in tactics]

    def _times(self, tensors: _Tensors, plugins: Sequence[RunningPlugin]) -> list[float]:
        while len(self._events) < len(plugins):
            self._events.append((self._cuda.create_event(), self._cuda.create_event()))
        alone = self._samples(tensors, plugins, 2)[-1]
        tensors.provide(max(1, min(EXECUTIONS, round(STRETCH / min(alone)))), self._patterns)
        spent = sum(alone) * len(tensors.sets)
        rounds = round(min(ROUNDS[1], max(ROUNDS[0], len(plugins) * BUDGET / spent)))
        samples = self._samples(tensors, plugins, rounds)
        return [statistics.median(each) / len(tensors.sets) for each in zip(*samples, strict=True)]

    def _samples(self, tensors: _Tensors, plugins: Sequence[RunningPlugin], rounds: int) -> list[list[float]]:
        with ExitStack() as stack:
            graphs = []
            for plugin in plugins:
                graphs.append(self._stream.graph_of(partial(tensors.enqueue, plugin, self._stream)))
                stack.callback(graphs[-1].destroy)
                graphs[-1].launch(self._stream)  # the first launch takes longer
            return [self._round(graphs) for _ in range(rounds)]

    def _round(self, graphs: Sequence[Graph]) -> list[float]:
        """Time every graph once. While the GPU clears, the host gets ahead of it, so that its own time has no part."""
        pairs = self._events[: len(graphs)]
        self._clear()
        for graph, (start, end) in zip(graphs, pairs, strict=True):
            self._clear()
            start.record(self._stream)
            graph.launch(self._stream)
            end.record(self._stream)
        self._stream.synchronize()
        return [end.microseconds_since(start) for start, end in pairs]

    def _clear(self) -> None:
        self._stream.fill(self._clearing, self._cleared)


class _Tensors:
    """Device memory for executions of a plugin, a set of inputs and outputs for each."""

    def __init__(self, cuda: Cuda, built: BuiltPlugin) -> None:
        self._cuda = cuda
        self._built = built
        shapes = [tensor.shape for tensor in built.inputs]
        self._shapes = [*shapes, *built.shapes.evaluate(shapes)]
        self._types = [tensor.type for tensor in (*built.inputs, *built.outputs)]
        self._sizes = [byte_size(*each) for each in zip(self._types, self._shapes, strict=True)]
        self._owned: list[int] = []
        self.sets: list[list[DevicePointer]] = []

    def provide(self, count: int, patterns: Patterns) -> None:
        """Have `count` sets, or what half of the memory that is free has room for, and one in any case."""
        room = self._cuda.free_memory() // 2
        while len(self.sets) < count and (not self.sets or sum(self._sizes) <= room):
            addresses: list[int] = []
            for i, (type_, size) in enumerate(zip(self._types, self._sizes, strict=True)):
                output = i - len(self._built.inputs)
                alias = self._built.aliases[output] if output >= 0 else None
                addresses.append(addresses[alias] if alias is not None else self._allocated(size))
                if size and output < 0:
                    patterns.fill(addresses[i], type_, size)
            self.sets.append([DevicePointer(*each) for each in zip(addresses, self._shapes, self._types, strict=True)])
            room -= sum(self._sizes)

    def enqueue(self, plugin: RunningPlugin, stream: Stream) -> None:
        """Enqueue an execution on every set."""
        count = len(self._built.inputs)
        for pointers in self.sets:
            plugin.enqueue(pointers[:count], pointers[count:], stream)

    def free(self) -> None:
        """Give the memory back."""
        for address in self._owned:
            self._cuda.free(address)

    def _allocated(self, size: int) -> int:
        if not size:
            return 0
        self._owned.append(self._cuda.allocate(size))
        return self._owned[-1]
