"""The checks. Each plays a part of TensorRT for one case and raises ContractError, or what the harness raises."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

from hatch_tensoracle.conformance.case import Case
from hatch_tensoracle.conformance.errors import ContractError
from hatch_tensoracle.testing import (
    BuiltPlugin,
    Cuda,
    DevicePointer,
    FakeDriver,
    FormatError,
    Plugin,
    PluginFailedError,
    PluginHarness,
    RunningPlugin,
    Stream,
    Tensor,
)
from hatch_tensoracle.testing.cuda import CaptureMode
from hatch_tensoracle.testing.records import Allocation, Call, Free, Launch, LibraryLoad
from hatch_tensoracle.testing.tensors import byte_size

__all__ = ["CHECKS", "FAKE_DRIVER_CHECKS", "LOADING", "Subject"]

_MOST_COMBINATIONS = 100
"""IPluginV3OneBuild::kDEFAULT_FORMAT_COMBINATION_LIMIT."""
_REPETITIONS = 50
_THREADS = 4
_MARGIN = 256  # bytes: where the next tensor may begin

left_alive: list[RunningPlugin] = []
"""What the interpreter finds at its exit."""


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

    def create(self) -> Plugin:
        """The plugin with the case's fields."""
        return self.harness.create(self.case.plugin, self.case.fields)

    def build(self) -> BuiltPlugin:
        """The plugin in an engine for the case's inputs."""
        return self.create().build(self.tensors)

    def records(self, kind: type[Any]) -> tuple[Any, ...]:
        """What the fake driver recorded; nothing on a real one."""
        return self.driver.records(kind) if isinstance(self.driver, FakeDriver) else ()

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
        self._addresses = [subject.driver.allocate(size + _MARGIN) if size else 0 for size in sizes]
        pointers = [DevicePointer(*each) for each in zip(self._addresses, shapes, types, strict=True)]
        self.inputs, self.outputs = pointers[: len(inputs)], pointers[len(inputs) :]
        self._driver = subject.driver

    def free(self) -> None:
        """Give the memory back."""
        for address in filter(None, self._addresses):
            self._driver.free(address)


def _common(built: BuiltPlugin) -> list[Any]:
    return [tensor.bound("opt") for tensor in built.inputs]


def _execute(subject: Subject, built: BuiltPlugin, running: RunningPlugin, stream: Stream) -> None:
    buffers = Buffers(subject, built, running, _common(built))
    running.enqueue(buffers.inputs, buffers.outputs, stream)
    stream.synchronize()
    buffers.free()


def _refused(what: str, act: Callable[[], object], *, mentions: str = "") -> None:
    """Let `act` be refused with a message in the log."""
    try:
        act()
    except FormatError:
        return
    except PluginFailedError as error:
        _reasoned(what, error)
        if mentions and not any(mentions in message for message in error.messages):
            raise ContractError(f"{what} is refused without naming {mentions}: {error}") from error
        return
    raise ContractError(f"{what} is accepted")


def _reasoned(what: str, error: PluginFailedError) -> None:
    if not error.messages:
        message = f"{what} is refused by {error.method} without a message in the log"
        raise ContractError(message, remedy="Throw an Error that says what was found and expected.") from error


def check_identity(subject: Subject) -> None:
    """Creators have names of their own, and plugins those of their creators."""
    counts = Counter((creator.name, creator.version, creator.namespace) for creator in subject.harness.creators)
    for (name, version, namespace), count in counts.items():
        if not name or not version or count > 1:
            raise ContractError(f"{count} creators have name {name!r}, version {version!r}, namespace {namespace!r}")
    plugin, creator = subject.create(), subject.harness.creator(subject.case.plugin)
    if (plugin.name, plugin.version, plugin.namespace) != (creator.name, creator.version, creator.namespace):
        raise ContractError(
            f"the plugin is {plugin.name} {plugin.version}, its creator {creator.name} {creator.version}"
        )


def check_fields_listed(subject: Subject) -> None:
    """Every field is listed by the creator: parsers drop others."""
    listed = [field.name for field in subject.harness.creator(subject.case.plugin).fields]
    for name in subject.case.fields:
        if name not in listed:
            raise ContractError(f"the creator does not list field {name}, only {', '.join(listed) or 'none'}")


def check_unknown_field(subject: Subject) -> None:
    """A field that is not known is refused by name."""
    fields = {**subject.case.fields, "no_such_field": 1}
    _refused("an unknown field", partial(subject.harness.create, subject.case.plugin, fields), mentions="no_such_field")


def check_missing_field(subject: Subject) -> None:
    """A field that is left out has a default, or is named."""
    for name in subject.case.fields:
        rest = {key: value for key, value in subject.case.fields.items() if key != name}
        try:
            subject.harness.create(subject.case.plugin, rest)
        except PluginFailedError:
            _refused(f"a missing {name}", partial(subject.harness.create, subject.case.plugin, rest), mentions=name)


def check_wrong_field_type(subject: Subject) -> None:
    """A field of another type is refused by name."""
    for name, value in subject.case.fields.items():
        fields = {**subject.case.fields, name: 1.5 if isinstance(value, str) else "text"}
        _refused(
            f"{name} = {fields[name]!r}",
            partial(subject.harness.create, subject.case.plugin, fields),
            mentions=name,
        )


def check_fields_round_trip(subject: Subject) -> None:
    """What is serialised is all fields in the creator's order, and makes the same plugin again."""
    serialised = subject.build().fields
    listed = [field.name for field in subject.harness.creator(subject.case.plugin).fields]
    if [field.name for field in serialised] != listed:
        raise ContractError(f"serialises {[field.name for field in serialised]}, its creator lists {listed}")
    again = subject.harness.create(subject.case.plugin, serialised).build(subject.tensors).fields
    if again != serialised:
        raise ContractError(f"serialises {again} after it was made of {serialised}")


def check_clones(subject: Subject) -> None:
    """What is done with a clone does not reach the original, and its end neither."""
    plugin = subject.create()
    first, second = plugin.build(subject.tensors), plugin.build(subject.tensors)
    if (first.fields, first.outputs, first.tactics) != (second.fields, second.outputs, second.tactics):
        raise ContractError(f"a second clone is another plugin: {second}, the first was {first}")


def check_formats(subject: Subject) -> None:
    """Few combinations, all linear unless the case says otherwise."""
    combinations = subject.create().format_combinations(subject.tensors)
    if len(combinations) > _MOST_COMBINATIONS:
        raise ContractError(f"supports {len(combinations)} combinations; TensorRT tries {_MOST_COMBINATIONS} at most")
    declared = {"LINEAR", *(given.format for given in subject.case.inputs)}
    for format_ in {format_ for row in combinations for _, format_ in row} - declared:
        raise ContractError(f"supports the format {format_}, which the case does not name: do its kernels index so?")


def check_wrong_types(subject: Subject) -> None:
    """Inputs of data types that are not supported are refused with a reason."""
    plugin, tensors = subject.create(), subject.tensors
    supported = {tuple(type_ for type_, _ in row[: len(tensors)]) for row in plugin.format_combinations(tensors)}
    for i, tensor in enumerate(tensors):
        for type_ in ("i64", "bool", "fp32", "fp16"):
            changed = [replace(tensor, type=type_) if i == j else other for j, other in enumerate(tensors)]
            if tuple(other.type for other in changed) not in supported:
                _refused(f"input {i} of {type_}", partial(plugin.build, changed))


def check_wrong_ranks(subject: Subject) -> None:
    """Inputs of another rank are taken, or refused with a reason."""
    plugin, tensors = subject.create(), subject.tensors
    for i, tensor in enumerate(tensors):
        longer = Tensor(tensor.type, (*tensor.bound("opt"), 1))
        try:
            plugin.build([longer if i == j else other for j, other in enumerate(tensors)])
        except PluginFailedError as error:
            _reasoned(f"input {i} of rank {len(longer.shape)}", error)


def check_execution(subject: Subject) -> None:
    """Enqueue launches on the given stream and does nothing else."""
    built = subject.build()
    running, stream = built.run_time(), subject.stream()
    buffers = Buffers(subject, built, running, _common(built))
    running.enqueue(buffers.inputs, buffers.outputs, stream)  # the first is also told the shapes
    if isinstance(subject.driver, FakeDriver):
        subject.driver.clear()
    running.enqueue(buffers.inputs, buffers.outputs, stream)
    stream.synchronize()
    for call in subject.records(Call):
        if isinstance(call, Launch) and call.stream != stream.handle:
            raise ContractError(f"launches {call.kernel} on stream {call.stream:#x}, it is given {stream.handle:#x}")
        if not isinstance(call, Launch) and call.name != "cuStreamSynchronize":
            raise ContractError(f"enqueue calls {call.name}, which belongs to onShapeChange or attachToContext")


def check_capture(subject: Subject) -> None:
    """The first execution can be captured, in every mode."""
    built = subject.build()
    for mode in get_args(CaptureMode):
        running, stream = built.run_time(), subject.stream()
        buffers = Buffers(subject, built, running, _common(built))
        with stream.capture(mode):
            running.enqueue(buffers.inputs, buffers.outputs, stream)
        buffers.free()


def check_empty(subject: Subject) -> None:
    """Tensors without elements, which have null pointers, are executed, or refused before that with a reason."""
    first = subject.tensors[0].bound("opt")[:1]
    if not first:
        return
    inputs = [
        Tensor(tensor.type, (0, *tensor.bound("opt")[1:]) if tensor.bound("opt")[:1] == first else tensor.bound("opt"))
        for tensor in subject.tensors
    ]
    try:
        built = subject.create().build(inputs)
    except PluginFailedError as error:
        _reasoned("an empty input", error)
        return
    running, stream = built.run_time(), subject.stream()
    _execute(subject, built, running, stream)


def check_tactics(subject: Subject) -> None:
    """Every tactic executes."""
    built, stream = subject.build(), subject.stream()
    for tactic in built.tactics:
        with built.run_time(tactic=tactic) as running:
            _execute(subject, built, running, stream)


def check_repetition(subject: Subject) -> None:
    """Attaching and destroying again and again keeps neither memory nor code."""
    built, stream = subject.build(), subject.stream()
    with built.run_time() as running:
        _execute(subject, built, running, stream)
    if isinstance(subject.driver, FakeDriver):
        subject.driver.clear()
    for _ in range(_REPETITIONS):
        with built.run_time() as running:
            _execute(subject, built, running, stream)
    kept = sum(call.size for call in subject.records(Allocation)) - sum(call.size for call in subject.records(Free))
    if kept:
        raise ContractError(f"keeps {kept} bytes of device memory after {_REPETITIONS} times")
    if loaded := len(subject.records(LibraryLoad)):
        raise ContractError(f"loads code {loaded} times when it is attached {_REPETITIONS} times more")


def check_threads(subject: Subject) -> None:
    """Executions in several threads, each with a stream of its own, do not disturb each other."""
    built, context = subject.build(), subject.driver.current_context()
    assert context is not None  # noqa: S101 - the process has made one
    failures: list[Exception] = []

    def work() -> None:
        try:
            context.make_current()
            stream = context.create_stream()
            for _ in range(_REPETITIONS):
                with built.run_time() as running:
                    _execute(subject, built, running, stream)
        except Exception as error:  # noqa: BLE001 - it is raised below
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def check_failed_launch(subject: Subject) -> None:
    """A launch that fails is reported, and does not spoil the next."""
    assert isinstance(subject.driver, FakeDriver)  # noqa: S101 - FAKE_DRIVER_CHECKS says so
    built, stream = subject.build(), subject.stream()
    with built.run_time() as running:
        _execute(subject, built, running, stream)
        if not subject.records(Launch):
            return
        subject.driver.fail("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        _refused(
            "a launch that fails",
            lambda: _execute(subject, built, running, stream),
            mentions="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        )
        _execute(subject, built, running, stream)


def check_exit(subject: Subject) -> None:
    """The process may end with plugins alive: how it ends is seen from outside."""
    built, stream = subject.build(), subject.stream()
    running = built.run_time()
    _execute(subject, built, running, stream)
    left_alive.append(running)


CHECKS: dict[str, Callable[[Subject], None]] = {
    name.removeprefix("check_").replace("_", "-"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}
"""By id, in the order in which they are made."""
LOADING = "load"
"""What comes before all of them."""
FAKE_DRIVER_CHECKS = frozenset({"failed-launch"})
"""Those that let calls of the driver fail."""
