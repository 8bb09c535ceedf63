"""Times work on the GPU, without the host's part in it: CUDA graphs of many launches, the sides taking turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

__all__ = ["Call", "buffer_sets", "filled", "relative_error", "time_alternating"]

Call = Callable[[int], Any]
"""Enqueues work on the current stream, on the buffers of that number."""

_GRAPH_MILLISECONDS = 3.0  # of work in a graph, as timed without one: its start weighs little then
_MOST_LAUNCHES = 200
_LEAST_ROUNDS, _MOST_ROUNDS = 7, 100
_MOST_SETS = 64
_CACHES = 3  # how many times the L2 cache all buffers together are


def buffer_sets(size: int) -> int:
    """How many sets of buffers of `size` bytes to take turns with, so that none is in the L2 cache when it is used."""
    cache: int = torch.cuda.get_device_properties(0).L2_cache_size
    return max(1, min(_MOST_SETS, math.ceil(_CACHES * cache / size)))


def time_alternating(calls: Mapping[str, Call], *, sets: int, milliseconds: float) -> dict[str, list[float]]:
    """Microseconds of one call of each side, once a round, for about so many milliseconds of rounds a side."""
    graphs = {name: _Graph(call, sets) for name, call in calls.items()}
    slowest = max(graph.milliseconds() for graph in graphs.values())
    rounds = max(_LEAST_ROUNDS, min(_MOST_ROUNDS, round(milliseconds / slowest)))
    brackets: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in graphs}
    for i in range(rounds):
        for name in reversed(graphs) if i % 2 else graphs:
            brackets[name].append(graphs[name].replay())
    torch.cuda.synchronize()
    return {
        name: [begin.elapsed_time(end) * 1000 / graphs[name].launches for begin, end in pairs]
        for name, pairs in brackets.items()
    }


def relative_error(output: torch.Tensor, reference: torch.Tensor) -> float:
    """The norm of the difference over the norm of the reference; infinite if anything is no number."""
    error = (output.double() - reference.double()).norm() / reference.double().norm()
    return float(error) if torch.isfinite(output).all() else math.inf


class _Graph:
    """Many calls, captured."""

    def __init__(self, call: Call, sets: int) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for i in range(max(sets, 3)):  # compiles, loads, and makes the libraries' handles
                call(i % sets)
            guess = statistics.median(_milliseconds(lambda: call(0)) for _ in range(3))
        torch.cuda.synchronize()
        self.launches = sets * max(1, math.ceil(min(_MOST_LAUNCHES, _GRAPH_MILLISECONDS / guess) / sets))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            for i in range(self.launches):
                call(i % sets)
        self.replay()

    def replay(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Enqueue it between two events."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self._graph.replay()
        end.record()
        return begin, end

    def milliseconds(self) -> float:
        """Of one replay."""
        begin, end = self.replay()
        end.synchronize()
        return float(begin.elapsed_time(end))


def _milliseconds(work: Callable[[], Any]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def filled(shape: Sequence[int], dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
    """Random values: of zeros, matrix products are faster."""
    return (torch.randn(*shape, device="cuda", dtype=torch.float32) * scale).to(dtype)
