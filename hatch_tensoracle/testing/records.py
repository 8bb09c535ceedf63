"""What the fake driver records: one object for each call, of the class that its call has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Allocation",
    "AttributeSetting",
    "Call",
    "CaptureBegin",
    "CaptureModeExchange",
    "Copy",
    "Free",
    "FunctionLoad",
    "Launch",
    "LibraryLoad",
    "LibraryUnload",
    "parse_record",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Any call, and of the calls below those that failed or had nothing to do."""

    name: str
    """As documented, without a version: `cuMemAlloc`."""
    result: str
    """`CUDA_SUCCESS`, or the error."""
    context: int
    """The calling thread's current context, 0 if it had none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLoad(Call):
    """cuLibraryLoadData took a cubin or PTX."""

    kind: str
    """`cubin` or `ptx`."""
    sha256: str
    """Of PTX without the NUL behind it, which `size` does not count either."""
    size: int
    sm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryUnload(Call):
    """cuLibraryUnload."""

    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionLoad(Call):
    """cuKernelGetFunction loaded a kernel into the current context, where it was not loaded yet."""

    kernel: str
    sha256: str
    """Of the cubin or PTX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSetting(Call):
    """cuKernelSetAttribute; attribute 8 is the dynamic shared memory that a launch may ask for, in bytes."""

    kernel: str
    attribute: int
    value: int
    device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Call):
    """cuLaunchKernel enqueued a kernel."""

    kernel: str
    """Its symbol in the cubin or PTX."""
    sha256: str
    """Of the cubin or PTX."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    """Dynamic shared memory of a block in bytes."""
    stream: int
    """0 for the default streams."""
    owner: int
    """The stream's context."""
    captured: bool
    arguments: tuple[bytes, ...]
    """The bytes of each parameter, as many as the cubin or PTX says it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation(Call):
    """cuMemAlloc."""

    address: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Free(Call):
    """cuMemFree."""

    address: int
    size: int
    owner: int
    """The context that it was allocated in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Call):
    """cuMemcpyHtoD, cuMemcpyHtoDAsync or cuMemcpyDtoH."""

    direction: str
    """`host to device` or `device to host`."""
    address: int
    """On the device."""
    size: int
    owner: int
    """The context of the device memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureBegin(Call):
    """cuStreamBeginCapture; modes 0, 1 and 2 are global, thread-local and relaxed."""

    stream: int
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureModeExchange(Call):
    """cuThreadExchangeStreamCaptureMode."""

    mode: int
    """From now on."""
    previous: int


_KINDS: dict[str, type[Call]] = {
    "cuLibraryLoadData": LibraryLoad,
    "cuLibraryUnload": LibraryUnload,
    "cuKernelGetFunction": FunctionLoad,
    "cuKernelSetAttribute": AttributeSetting,
    "cuLaunchKernel": Launch,
    "cuMemAlloc": Allocation,
    "cuMemFree": Free,
    "cuMemcpyHtoD": Copy,
    "cuMemcpyHtoDAsync": Copy,
    "cuMemcpyDtoH": Copy,
    "cuStreamBeginCapture": CaptureBegin,
    "cuThreadExchangeStreamCaptureMode": CaptureModeExchange,
}


def parse_record(record: Mapping[str, Any], result: str) -> Call:
    """Make an object of one record as the driver writes it. A kind's details are there if the call did its work."""
    values = {**record, "result": result}
    values["name"] = values.pop("call")
    for key in ("grid", "block"):
        if key in values:
            values[key] = tuple(values[key])
    if "arguments" in values:
        values["arguments"] = tuple(bytes.fromhex(argument) for argument in values["arguments"])
    kind = _KINDS.get(values["name"], Call)
    if not all(field.name in values for field in dataclasses.fields(kind)):
        kind = Call
    return kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})
