"""What the checks share: a case with what it is checked on, and executions of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hatch_tensoracle.conformance.case import Case
from hatch_tensoracle.conformance.errors import ContractError
from hatch_tensoracle.testing import (
    BuiltPlugin,
    Creator,
    Cuda,
    DevicePointer,
    FakeDriver,
    Field,
    Plugin,
    PluginFailedError,
    PluginHarness,
    RunningPlugin,
    Stream,
    Tensor,
)
from hatch_tensoracle.testing.records import Launch
from hatch_tensoracle.testing.tensors import byte_size

__all__ = [
    "REPETITIONS",
    "Buffers",
    "OtherContext",
    "Subject",
    "Worker",
    "execute",
    "executed_or_refused",
    "refused",
    "shapes_of",
    "work_of",
]

REPETITIONS = 50
_MARGIN = 256  # bytes: where the next tensor may begin
_BACKED = 1 << 16  # bytes of a tensor that exist where no kernel runs: greatest shapes may be larger than the host


@dataclass(frozen=True, slots=True)
class Subject:
    """A case with what it is checked on."""

    case: Case
    harness: PluginHarness
    driver: Cuda

    @property
    def tensors(self) -> list[Tensor]:
        """The inputs."""
        return [given.tensor() for given in self.case.inputs]

    @property
    def creator(self) -> Creator:
        """The plugin's."""
        return self.harness.creator(self.case.plugin, version=self.case.version, namespace=self.case.namespace)

    def create(self, fields: Mapping[str, Any] | Sequence[Field] | None = None) -> Plugin:
        """The plugin with the case's fields, or others."""
        given = self.case.fields if fields is None else fields
        creator = self.creator
        return self.harness.create(creator.name, given, version=creator.version, namespace=creator.namespace)

    def build(self) -> BuiltPlugin:
        """The plugin in an engine for the case's inputs."""
        return self.create().build(self.tensors)

    def records(self, kind: type[Any]) -> tuple[Any, ...]:
        """What the fake driver recorded; nothing on a real one."""
        return self.driver.records(kind) if isinstance(self.driver, FakeDriver) else ()

    def forget(self) -> None:
        """Let records begin here."""
        if isinstance(self.driver, FakeDriver):
            self.driver.clear()

    def stream(self) -> Stream:
        """A stream in the current context."""
        context = self.driver.current_context()
        assert context is not None  # noqa: S101 - the process has made one
        return context.create_stream()


class Buffers:
    """Device memory for the inputs and outputs of one execution; empty tensors have null pointers."""

    def __init__(self, subject: Subject, built: BuiltPlugin, running: RunningPlugin, inputs: Sequence[Any]) -> None:
        shapes = [*inputs, *running.output_shapes(inputs)]
        types = [tensor.type for tensor in (*built.inputs, *built.outputs)]
        sizes = [byte_size(type_, shape) for type_, shape in zip(types, shapes, strict=True)]
        if isinstance(subject.driver, FakeDriver):
            sizes = [min(size, _BACKED) for size in sizes]
        self._addresses = [subject.driver.allocate(size + _MARGIN) if size else 0 for size in sizes]
        pointers = [DevicePointer(*each) for each in zip(self._addresses, shapes, types, strict=True)]
        self.inputs, self.outputs = pointers[: len(inputs)], pointers[len(inputs) :]
        self._driver = subject.driver

    def free(self) -> None:
        """Give the memory back."""
        for address in filter(None, self._addresses):
            self._driver.free(address)


class OtherContext(RunningPlugin):
    """A further execution context of the engine that a plugin runs in, which is left alive when this is closed."""

    def __init__(self, first: RunningPlugin, built: BuiltPlugin) -> None:
        super().__init__(first._engine, built, next(iter(built.tactics), 0))  # noqa: SLF001 - one engine, as in TensorRT

    def close(self) -> None:
        """Destroy the plugin."""
        self._plugin.close()


def shapes_of(built: BuiltPlugin, bound: str = "opt") -> list[Any]:
    """The inputs' `min`, `opt` or `max` shapes."""
    return [tensor.bound(bound) for tensor in built.inputs]


def execute(
    subject: Subject, built: BuiltPlugin, running: RunningPlugin, stream: Stream, *, bound: str = "opt"
) -> None:
    """Enqueue on inputs of these shapes and wait."""
    buffers = Buffers(subject, built, running, shapes_of(built, bound))
    running.enqueue(buffers.inputs, buffers.outputs, stream)
    stream.synchronize()
    buffers.free()


def work_of(launches: Sequence[Launch]) -> list[tuple[object, ...]]:
    """What launches do, wherever they do it."""
    return [(launch.kernel, launch.grid, launch.block, launch.shared, launch.arguments) for launch in launches]


def executed_or_refused(subject: Subject, what: str, inputs: Sequence[Tensor]) -> BuiltPlugin | None:
    """Inputs that the case does not name: they may be refused, with a reason, until the engine is built."""
    try:
        built = subject.create().build(inputs)
    except PluginFailedError as error:
        reasoned(what, error)
        return None
    with built.run_time() as running:
        subject.forget()
        try:
            execute(subject, built, running, subject.stream())
        except PluginFailedError as error:
            raise ContractError(
                f"{what}: accepted when the engine is built, and fails afterwards: {error}",
                remedy="Refuse it in checkShapes or configurePlugin, or execute it.",
            ) from error
    return built


def refused(what: str, act: Callable[[], object], *, mentions: str = "") -> None:
    """Let `act` be refused with a message in the log."""
    try:
        act()
    except PluginFailedError as error:
        reasoned(what, error)
        if mentions and not any(mentions in message for message in error.messages):
            raise ContractError(f"{what} is refused without naming {mentions}: {error}") from error
        return
    raise ContractError(f"{what} is accepted")


def reasoned(what: str, error: PluginFailedError) -> None:
    if not error.messages:
        message = f"{what} is refused by {error.method} without a message in the log"
        raise ContractError(message, remedy="Throw an Error that says what was found and expected.") from error


class Worker(threading.Thread):
    """A thread with a stream of its own, for a plugin that another thread has attached."""

    def __init__(self, subject: Subject, built: BuiltPlugin) -> None:
        super().__init__()
        context = subject.driver.current_context()
        assert context is not None  # noqa: S101 - the process has made one
        self.context = context
        self.subject, self.built = subject, built
        self.running, self.stream = built.run_time(), context.create_stream()
        self.buffers = Buffers(subject, built, self.running, shapes_of(built))
        self.failure: Exception | None = None
        self.alone = self._enqueue()

    def _enqueue(self) -> list[tuple[object, ...]]:
        """Execute once, and return what that launches if nothing else runs."""
        self.subject.forget()
        self.running.enqueue(self.buffers.inputs, self.buffers.outputs, self.stream)
        return self.work(self.subject.records(Launch))

    def work(self, launches: Sequence[Launch]) -> list[tuple[object, ...]]:
        """What was launched on the stream."""
        return work_of([launch for launch in launches if launch.stream == self.stream.handle])

    def run(self) -> None:
        """Execute again and again, then attach and execute."""
        try:
            self.context.make_current()
            for _ in range(REPETITIONS):
                self.running.enqueue(self.buffers.inputs, self.buffers.outputs, self.stream)
            other = self.context.create_stream()
            for _ in range(REPETITIONS):
                with self.built.run_time() as running:
                    execute(self.subject, self.built, running, other)
        except Exception as error:  # noqa: BLE001 - the check raises it
            self.failure = error
