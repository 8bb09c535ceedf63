"""The checks. Each plays a part of TensorRT for one case and raises ContractError, or what the harness raises."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import get_args

from hatch_tensoracle.conformance.errors import ContractError
from hatch_tensoracle.conformance.subject import (
    REPETITIONS,
    Buffers,
    OtherContext,
    Subject,
    Worker,
    execute,
    executed_or_refused,
    refused,
    shapes_of,
    work_of,
)
from hatch_tensoracle.testing import (
    FakeDriver,
    Field,
    FormatError,
    Plugin,
    PluginFailedError,
    Tensor,
)
from hatch_tensoracle.testing.abi import MAX_DIMS
from hatch_tensoracle.testing.cuda import CaptureMode
from hatch_tensoracle.testing.fields import fields_of
from hatch_tensoracle.testing.records import Allocation, Call, Free, Launch, LibraryLoad

__all__ = ["CHECKS", "FAKE_DRIVER_CHECKS"]

_MOST_COMBINATIONS = 100
"""IPluginV3OneBuild::kDEFAULT_FORMAT_COMBINATION_LIMIT."""
_LINEAR = "LINEAR"
_HARMLESS = frozenset({"cuCtxGetCurrent", "cuCtxGetDevice", "cuStreamIsCapturing"})
"""Queries that enqueue may make, under capture too."""
_THREADS = 4
_NUMBER = Field(name="", type="FLOAT64", data=struct.pack("<d", 1.5), length=1)
_TEXT = Field(name="", type="CHAR", data=b"text\0", length=5)


def check_identity(subject: Subject) -> None:
    """Creators have names of their own, and plugins those of their creators."""
    counts = Counter((creator.name, creator.version, creator.namespace) for creator in subject.harness.creators)
    for (name, version, namespace), count in counts.items():
        if not name or not version or count > 1:
            raise ContractError(f"{count} creators have name {name!r}, version {version!r}, namespace {namespace!r}")
    plugin, creator = subject.create(), subject.creator
    if (plugin.name, plugin.version, plugin.namespace) != (creator.name, creator.version, creator.namespace):
        names = [f"{each.name!r} {each.version!r} of {each.namespace!r}" for each in (plugin, creator)]
        raise ContractError(f"the plugin is {names[0]}, its creator {names[1]}: engines do not find it again")


def check_fields_listed(subject: Subject) -> None:
    """Every field is listed by the creator: parsers drop others."""
    listed = [field.name for field in subject.creator.fields]
    for name in subject.case.fields:
        if name not in listed:
            raise ContractError(f"the creator does not list field {name}, only {', '.join(listed) or 'none'}")


def check_unknown_field(subject: Subject) -> None:
    """A field that is not known is refused by name."""
    fields = {**subject.case.fields, "no_such_field": 1}
    refused("an unknown field", partial(subject.create, fields), mentions="no_such_field")


def check_missing_field(subject: Subject) -> None:
    """A field that is left out has a default, or is named."""
    for name in subject.case.fields:
        rest = {key: value for key, value in subject.case.fields.items() if key != name}
        try:
            subject.create(rest)
        except PluginFailedError:
            refused(f"a missing {name}", partial(subject.create, rest), mentions=name)


def check_wrong_field_type(subject: Subject) -> None:
    """A field of another type is refused by name."""
    given = fields_of(subject.case.fields, subject.creator.fields)
    for field in given:
        other = _NUMBER if field.type == "CHAR" else _TEXT
        fields = [replace(other, name=field.name) if each is field else each for each in given]
        refused(f"{field.name} = {other.value()!r}", partial(subject.create, fields), mentions=field.name)


def check_fields_round_trip(subject: Subject) -> None:
    """What is serialised is all fields in the creator's order, and makes the same plugin again."""
    serialised = subject.build().fields
    listed = [field.name for field in subject.creator.fields]
    if [field.name for field in serialised] != listed:
        raise ContractError(f"serialises {[field.name for field in serialised]}, its creator lists {listed}")
    kept = {field.name: field.value() for field in serialised}
    for field in fields_of(subject.case.fields, subject.creator.fields):
        if kept[field.name] != field.value():
            raise ContractError(f"serialises {field.name} = {kept[field.name]!r}, it is given {field.value()!r}")
    again = subject.create(serialised).build(subject.tensors).fields
    if again != serialised:
        raise ContractError(f"serialises {again} after it was made of {serialised}")


def check_clones(subject: Subject) -> None:
    """What is done with a clone does not reach the original, and its end neither."""
    plugin = subject.create()
    first, second = plugin.build(subject.tensors), plugin.build(subject.tensors)
    for what in ("fields", "outputs", "tactics", "workspace"):
        found, expected = getattr(second, what), getattr(first, what)
        if found != expected:
            raise ContractError(f"{what} of a second clone are {found}, those of the first were {expected}")


def check_formats(subject: Subject) -> None:
    """Few combinations, all linear unless the case says otherwise."""
    combinations = subject.create().format_combinations(subject.tensors)
    if len(combinations) > _MOST_COMBINATIONS:
        raise ContractError(f"supports {len(combinations)} combinations; TensorRT tries {_MOST_COMBINATIONS} at most")
    declared = {_LINEAR, *(given.format for given in subject.case.inputs)}
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
                _reasonably_refused(f"input {i} of {type_}", plugin, changed)


def _reasonably_refused(what: str, plugin: Plugin, inputs: Sequence[Tensor]) -> None:
    try:
        refused(what, partial(plugin.build, inputs))
    except FormatError as error:  # which TensorRT reports without a reason
        raise ContractError(
            f"{what} is supported in no format, and getOutputDataTypes accepts it",
            remedy="Let getOutputDataTypes refuse it with a message: TensorRT has none for formats.",
        ) from error


def check_capture(subject: Subject) -> None:
    """The first execution can be captured, in every mode.

    The first in the process: this check comes before all that execute. What is loaded once stays loaded.
    """
    built = subject.build()
    for mode in get_args(CaptureMode):
        running, stream = built.run_time(), subject.stream()
        buffers = Buffers(subject, built, running, shapes_of(built))
        with stream.capture(mode):
            running.enqueue(buffers.inputs, buffers.outputs, stream)
        buffers.free()


def check_supported_types(subject: Subject) -> None:
    """Inputs of all data types that are supported execute."""
    tensors = subject.tensors
    rows = subject.create().format_combinations(tensors)
    linear = [row[: len(tensors)] for row in rows if {format_ for _, format_ in row} == {_LINEAR}]
    for row in dict.fromkeys(linear):
        changed = [replace(tensor, type=type_) for tensor, (type_, _) in zip(tensors, row, strict=True)]
        executed_or_refused(subject, f"inputs of {', '.join(tensor.type for tensor in changed)}", changed)


def check_wrong_ranks(subject: Subject) -> None:
    """Inputs of another rank are taken, or refused with a reason."""
    tensors = subject.tensors
    for i, tensor in enumerate(tensors):
        shape = tensor.bound("opt")
        for other in [shape[:-1]] * bool(shape) + [(*shape, 1)] * (len(shape) < MAX_DIMS):
            changed = [
                Tensor(each.type, other if i == j else each.bound("opt"), format=each.format)
                for j, each in enumerate(tensors)
            ]
            executed_or_refused(subject, f"input {i} of rank {len(other)}", changed)


def check_execution(subject: Subject) -> None:
    """Enqueue launches on the given stream and does nothing else."""
    built = subject.build()
    running, stream = built.run_time(), subject.stream()
    buffers = Buffers(subject, built, running, shapes_of(built))
    running.enqueue(buffers.inputs, buffers.outputs, stream)  # the first is also told the shapes
    subject.forget()
    running.enqueue(buffers.inputs, buffers.outputs, stream)
    calls = subject.records(Call)
    stream.synchronize()
    for call in calls:
        if isinstance(call, Launch) and call.stream != stream.handle:
            raise ContractError(f"launches {call.kernel} on stream {call.stream:#x}, it is given {stream.handle:#x}")
        if not isinstance(call, Launch) and call.name not in _HARMLESS:
            raise ContractError(f"enqueue calls {call.name}, which belongs to onShapeChange or attachToContext")
    filled = any(0 not in pointer.shape for pointer in buffers.outputs)
    if isinstance(subject.driver, FakeDriver) and filled and not calls:
        raise ContractError("enqueue succeeds and launches nothing, though outputs have elements")


def check_shapes(subject: Subject) -> None:
    """One plugin executes the least, the greatest and the most common shapes in turn."""
    built, stream = subject.build(), subject.stream()
    with built.run_time() as running:
        for bound in ("min", "max", "opt"):
            execute(subject, built, running, stream, bound=bound)


def check_contexts(subject: Subject) -> None:
    """Execution contexts of one engine do not disturb each other, and neither does the end of one."""
    built, stream = subject.build(), subject.stream()
    first = built.run_time()
    buffers = Buffers(subject, built, first, shapes_of(built))
    work = []
    for _ in range(2):
        subject.forget()
        first.enqueue(buffers.inputs, buffers.outputs, stream)
        work.append(work_of(subject.records(Launch)))
        second = OtherContext(first, built)
        execute(subject, built, second, stream, bound="min")
        second.close()
    stream.synchronize()
    if work[0] != work[1]:
        raise ContractError(
            f"launches {work[1]} after another execution context has worked, before that {work[0]}",
            remedy="Keep what onShapeChange tells in the object that attachToContext returns.",
        )


def check_empty(subject: Subject) -> None:
    """Tensors without elements, which have null pointers, are executed, or refused before that with a reason.

    Each extent of the case in turn becomes 0, wherever it occurs: a matrix product's rows, columns and sum.
    """
    common = [tensor.bound("opt") for tensor in subject.tensors]
    for extent in dict.fromkeys(extent for shape in common for extent in shape):
        shapes = [tuple(0 if each == extent else each for each in shape) for shape in common]
        inputs = [
            Tensor(tensor.type, shape, format=tensor.format)
            for tensor, shape in zip(subject.tensors, shapes, strict=True)
        ]
        built = executed_or_refused(subject, f"empty input of {', '.join(map(str, shapes))}", inputs)
        launches = subject.records(Launch)
        if built and launches and all(0 in output.shape for output in built.outputs):
            raise ContractError(
                f"launches {launches[0].kernel} for inputs of {', '.join(map(str, shapes))}: no output has elements",
                remedy="Return before the launch: pointers of empty tensors may be null.",
            )


def check_tactics(subject: Subject) -> None:
    """Every tactic executes, in a plugin of its own and after the others."""
    built, stream = subject.build(), subject.stream()
    with built.run_time() as timed:
        for tactic in built.tactics:
            with built.run_time(tactic=tactic) as running:
                execute(subject, built, running, stream)
            timed.set_tactic(tactic)
            execute(subject, built, timed, stream)


def check_repetition(subject: Subject) -> None:
    """Attaching and destroying again and again keeps neither memory nor code."""
    built, stream = subject.build(), subject.stream()
    with built.run_time() as running:
        execute(subject, built, running, stream)
        execute(subject, built, running, stream, bound="min")
    subject.forget()
    for _ in range(REPETITIONS):
        with built.run_time() as running:
            execute(subject, built, running, stream)
            execute(subject, built, running, stream, bound="min")
    kept = sum(call.size for call in subject.records(Allocation)) - sum(call.size for call in subject.records(Free))
    if kept:
        raise ContractError(f"keeps {kept} bytes of device memory after {REPETITIONS} times")
    if loaded := len(subject.records(LibraryLoad)):
        raise ContractError(f"loads code {loaded} times when it is attached {REPETITIONS} times more")


def check_threads(subject: Subject) -> None:
    """Executions in several threads, each with a stream of its own, do not disturb each other."""
    built = subject.build()
    workers = [Worker(subject, built) for _ in range(_THREADS)]
    subject.forget()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    launches = subject.records(Launch)
    for worker in workers:
        if worker.failure:
            raise worker.failure
        if worker.work(launches) != worker.alone * REPETITIONS:
            raise ContractError(
                "launches something else when several threads execute, each with a plugin of its own",
                remedy="Keep arguments and whatever else enqueue writes in the plugin, not in static variables.",
            )


def check_failed_launch(subject: Subject) -> None:
    """Launches that fail, each in turn, are reported, and do not spoil the next."""
    assert isinstance(subject.driver, FakeDriver)  # noqa: S101 - FAKE_DRIVER_CHECKS says so
    built, stream = subject.build(), subject.stream()
    with built.run_time() as running:
        execute(subject, built, running, stream)
        subject.forget()
        execute(subject, built, running, stream)
        for number in range(1, len(subject.records(Launch)) + 1):
            subject.driver.fail("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", occurrence=number)
            refused(
                "a launch that fails",
                lambda: execute(subject, built, running, stream),
                mentions="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            )
            execute(subject, built, running, stream)


def check_failed_allocation(subject: Subject) -> None:
    """Device memory that a plugin does not get when it is attached is reported."""
    assert isinstance(subject.driver, FakeDriver)  # noqa: S101 - FAKE_DRIVER_CHECKS says so
    built = subject.build()
    subject.forget()
    built.run_time().close()
    own = len(subject.records(Allocation)) - bool(built.workspace)  # which is the last, and the harness's
    for number in range(1, own + 1):
        subject.driver.fail("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", occurrence=number)
        refused("an allocation that fails", built.run_time, mentions="CUDA_ERROR_OUT_OF_MEMORY")


def check_exit(subject: Subject) -> None:
    """The process may end with plugins alive: how it ends is seen from outside."""
    built = subject.build()
    execute(subject, built, built.run_time(), subject.stream())


CHECKS: dict[str, Callable[[Subject], None]] = {
    name.removeprefix("check_").replace("_", "-"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}
"""By id, in the order in which they are made."""
FAKE_DRIVER_CHECKS = frozenset({"failed-launch", "failed-allocation"})
"""Those that let calls of the driver fail."""
