"""CUDA graphs by what they are of, the most recently used ones."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from hatch_tensoracle.runtime.addresses import checked_addresses
from hatch_tensoracle.runtime.cuda_graph import CudaGraph, wait_for
from hatch_tensoracle.runtime.errors import ExecutionError

__all__ = ["GraphPool", "GraphStatistics", "Work"]

Addresses = Mapping[str, int]

_PLAIN = frozenset({int})


class Work(Protocol):
    """What a graph is captured of: one execution context with its shapes, which nobody else changes."""

    @property
    def size(self) -> int:
        """Bytes of device memory that it has of its own."""

    def refusal(self, stream: int) -> str | None:
        """Return why it cannot be captured on that stream; None if it can."""

    def enqueue(self, addresses: Addresses, stream: int) -> None:
        """Put one execution on the stream."""

    def close(self) -> None:
        """Let go what it has. Its executions are complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStatistics:
    """What became of executions, since the beginning, and what there is now."""

    captures: int
    """Graphs that were made."""
    replays: int
    """Executions that were a launch of a graph."""
    updates: int
    """Graphs that were changed in place, to other addresses."""
    eager: int
    """Executions that were enqueued call by call: the first of each graph, and those of `fallback`."""
    evictions: int
    """Graphs that made room for others."""
    graphs: int
    """Graphs that there are."""
    bytes: int
    """Device memory of these, and of their contexts' own workspaces."""

    def with_eager(self, more: int) -> Self:
        """Return them with more executions that had no graph."""
        return dataclasses.replace(self, eager=self.eager + more)


KeyT = TypeVar("KeyT", bound=Hashable)
WorkT = TypeVar("WorkT", bound=Work)


@dataclass(slots=True, eq=False)
class _Entry(Generic[WorkT]):
    work: WorkT
    graph: CudaGraph | None = None
    addresses: Addresses | None = None
    """Those that the graph has."""
    refusal: str | None = None
    """Why there will be no graph."""
    stream: int | None = None
    """That of its last work."""


class GraphPool(Generic[KeyT, WorkT]):
    """At most `limit` works by key, each with a graph once it has been executed. It is for one thread at a time.

    Every call of `enqueue` is one execution. The first of a work is enqueued as it is, which TensorRT wants before a
    capture; then it is captured, which executes nothing. Later ones launch the graph, after an update if addresses are
    others. With `fallback`, what cannot be captured is enqueued as it is, always; else it is an ExecutionError.
    """

    def __init__(self, limit: int, *, fallback: bool = False) -> None:
        self._limit = limit
        self._fallback = fallback
        self._entries: OrderedDict[KeyT, _Entry[WorkT]] = OrderedDict()
        self._captures = self._replays = self._updates = self._eager = self._evictions = 0

    def keys(self) -> Iterator[KeyT]:
        """Yield those that have a graph."""
        return (key for key, entry in self._entries.items() if entry.graph is not None)

    def work(self, key: KeyT, make: Callable[[], WorkT], stream: int | None) -> WorkT:
        """Return the work of a key, made if there is none, in place of the one that was not used for longest.

        The stream that this one was last executed on is waited for. `stream` is what `make` may put work on.
        """
        return self._entry(key, make, stream).work

    def enqueue(self, key: KeyT, addresses: Addresses, stream: int, make: Callable[[], WorkT]) -> None:
        """Execute once. Raises ExecutionError, and what `make` and the work raise."""
        entry = self._entries.get(key)
        if entry is not None and entry.graph is not None and entry.addresses == addresses:
            # Equal is not enough: 256.0 is no address. NumPy's integers are.
            if not _PLAIN.issuperset(map(type, addresses.values())):
                checked_addresses(addresses, addresses)
            entry.stream = stream
            entry.graph.launch(stream)
            self._replays += 1
            self._entries.move_to_end(key)
            return
        entry = self._entry(key, make, stream)
        if entry.graph is not None:
            if self._update(entry, addresses, stream):
                entry.stream = stream
                entry.graph.launch(stream)
                self._replays += 1
                return
        elif self._may_capture(entry, stream):
            self._execute(entry, addresses, stream)
            self._capture(entry, addresses, stream)
            return
        self._execute(entry, addresses, stream)

    def execute(self, key: KeyT, addresses: Addresses, stream: int, make: Callable[[], WorkT]) -> None:
        """Execute once, call by call."""
        self._execute(self._entry(key, make, stream), addresses, stream)

    def capture(self, key: KeyT, addresses: Addresses, stream: int, make: Callable[[], WorkT]) -> None:
        """Have a graph of these addresses ready. It is executed once if it never was."""
        entry = self._entry(key, make, stream)
        if entry.graph is not None:
            if entry.addresses != addresses:
                self._update(entry, addresses, stream)
        elif self._may_capture(entry, stream):
            self._execute(entry, addresses, stream)
            self._capture(entry, addresses, stream)

    def clear(self) -> None:
        """Let all go. Their executions are complete."""
        while self._entries:
            _close(self._entries.popitem()[1])

    @property
    def statistics(self) -> GraphStatistics:
        """What has happened."""
        graphs = [entry.graph for entry in self._entries.values() if entry.graph is not None]
        return GraphStatistics(
            captures=self._captures,
            replays=self._replays,
            updates=self._updates,
            eager=self._eager,
            evictions=self._evictions,
            graphs=len(graphs),
            bytes=sum(graph.size for graph in graphs) + sum(entry.work.size for entry in self._entries.values()),
        )

    def _entry(self, key: KeyT, make: Callable[[], WorkT], stream: int | None) -> _Entry[WorkT]:
        entry = self._entries.get(key)
        if entry is None:
            while len(self._entries) >= self._limit:
                oldest = next(iter(self._entries.values()))
                if oldest.stream is not None:
                    wait_for(oldest.stream)
                self._evictions += 1
                _close(self._entries.popitem(last=False)[1])
            entry = self._entries[key] = _Entry(make(), stream=stream)
        self._entries.move_to_end(key)
        return entry

    def _may_capture(self, entry: _Entry[WorkT], stream: int) -> bool:
        if entry.refusal is None:
            entry.refusal = entry.work.refusal(stream)
        return entry.refusal is None or self._refused(entry)

    def _execute(self, entry: _Entry[WorkT], addresses: Addresses, stream: int) -> None:
        before, entry.stream = entry.stream, stream
        try:
            entry.work.enqueue(addresses, stream)
        except (TypeError, ValueError):  # before TensorRT has seen anything
            entry.stream = before
            raise
        self._eager += 1

    def _capture(self, entry: _Entry[WorkT], addresses: Addresses, stream: int) -> None:
        try:
            entry.graph = CudaGraph.capture(stream, lambda: entry.work.enqueue(addresses, stream))
        except ExecutionError as error:
            entry.refusal = f"it was executed, and a capture of the same failed: {error}"
            self._refused(entry, error)
        else:
            entry.addresses = dict(addresses)
            self._captures += 1

    def _update(self, entry: _Entry[WorkT], addresses: Addresses, stream: int) -> bool:
        """Return whether the graph has these addresses now."""
        assert entry.graph is not None  # noqa: S101 - the callers have looked
        try:
            is_in_place = entry.graph.update(stream, lambda: entry.work.enqueue(addresses, stream))
        except ExecutionError as error:
            entry.graph.close()
            entry.graph = entry.addresses = None
            entry.refusal = f"a capture of it with other addresses failed: {error}"
            return self._refused(entry, error)
        entry.addresses = dict(addresses)
        if is_in_place:
            self._updates += 1
        else:
            self._captures += 1
        return True

    def _refused(self, entry: _Entry[WorkT], cause: Exception | None = None) -> bool:
        """Raise, or return False where it may be executed as it is."""
        if not self._fallback:
            refusal, entry.refusal = entry.refusal, None  # the next call may try again
            raise ExecutionError(f"no CUDA graph: {refusal}") from cause
        return False


def _close(entry: _Entry[WorkT]) -> None:
    if entry.graph is not None:
        entry.graph.close()
    entry.work.close()
