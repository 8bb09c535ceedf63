"""A CUDA driver without a GPU: calls are checked and recorded by the documented rules, and kernels are not run."""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Self, TypeVar

from hatch_tensoracle.targets import TARGETS, Target
from hatch_tensoracle.testing import native
from hatch_tensoracle.testing.cuda import Context, Cuda
from hatch_tensoracle.testing.errors import FakeDriverError
from hatch_tensoracle.testing.records import Call, Launch, parse_record

__all__ = ["FakeDriver"]

CallT = TypeVar("CallT", bound=Call)

_MAX_SHARED = 99 * 1024  # bytes, for a device that is in no table

_SM = re.compile("(?:sm)?([1-9][0-9]{1,2})")

_devices: tuple[Target, ...] = ()  # what the process has for its life


class FakeDriver(Cuda):
    """The process's driver, which plugin libraries then find in place of NVIDIA's.

    `devices` are SMs, such as 86 or "sm86" for compute capability 8.6, of which any number, known or not, may be in one
    process; a Target also says how much shared memory a block may have. A library keeps the code it has loaded, so a
    process keeps the devices it once had. As a context manager it destroys, at the end, the contexts that it created.

    What is in device memory is what was copied there, or 0xA5 in every byte; kernels change nothing.
    """

    def __init__(self, devices: Sequence[int | str | Target] = (86,)) -> None:
        if isinstance(devices, str) or not isinstance(devices, Iterable):
            message = f"the fake driver's devices are {devices!r}, which is no list"
            raise FakeDriverError(message, remedy="Name SMs, such as FakeDriver(devices=[86]).")
        wanted = tuple(_target(device) for device in devices)
        _check_process(wanted)
        # A library's dlopen("libcuda.so.1") finds what is loaded under that SONAME.
        self._control = ctypes.CDLL(str(native.build(native.FAKE_DRIVER)))
        self._control.fakeDriverFail.restype = ctypes.c_bool
        self._control.fakeDriverRecords.restype = ctypes.c_void_p
        self._control.fakeDriverFree.argtypes = [ctypes.c_void_p]
        _add_devices(self._control, wanted)
        self._contexts: list[Context] = []
        super().__init__()
        self.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for context in self._contexts:
            if context.is_alive():
                context.destroy()
        self._contexts.clear()

    def create_context(self, device: int = 0) -> Context:
        """Create a context, which becomes the calling thread's current one."""
        context = super().create_context(device)
        self._contexts.append(context)
        return context

    def fail(self, call: str, error: str, *, occurrence: int = 1) -> None:
        """Let a call fail: the `occurrence`-th of that name from now on, with an error such as CUDA_ERROR_UNKNOWN."""
        if not hasattr(self._library, self.exported(call)):
            message = f"the fake driver has no call {call!r}"
            raise FakeDriverError(message, remedy="Name it as documented, such as cuMemAlloc.")
        if occurrence < 1 or not self._control.fakeDriverFail(call.encode(), error.encode(), occurrence):
            message = f"{call} cannot fail with {error!r} at occurrence {occurrence}"
            raise FakeDriverError(message, remedy="Name an error as CUresult does; occurrences are counted from 1.")

    def records(self, kind: type[CallT]) -> tuple[CallT, ...]:
        """The calls of one kind since the last `clear`, in order; `Call` is every call, failed ones too."""
        text = self._control.fakeDriverRecords()
        try:
            raw = json.loads(ctypes.string_at(text))
        finally:
            self._control.fakeDriverFree(text)
        calls = (parse_record(record, self._text("cuGetErrorName", record["result"])) for record in raw)
        return tuple(call for call in calls if isinstance(call, kind))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The kernels that were launched since the last `clear`."""
        return self.records(Launch)

    def clear(self) -> None:
        """Forget the records, and failures that have not come. Contexts, memory and code stay."""
        self._control.fakeDriverClear()


def _target(device: int | str | Target) -> Target:
    found = _SM.fullmatch(device.name if isinstance(device, Target) else str(device))
    if not found:
        raise FakeDriverError(f"{device!r} is no SM: compute capability 8.9 is 89 or 'sm89'")
    if isinstance(device, Target):
        return device
    return TARGETS.get(f"sm{found[1]}", Target(sm=int(found[1]), max_shared=_MAX_SHARED))


def _check_process(wanted: tuple[Target, ...]) -> None:
    if not wanted:
        message = "the fake driver is given no device"
        raise FakeDriverError(message, remedy="Name SMs, such as FakeDriver(devices=[86]).")
    if _devices and _devices != wanted:
        known, new = ([device.sm for device in devices] for devices in (_devices, wanted))
        message = f"the fake driver has the devices {known} in this process already, and is given {new}"
        raise FakeDriverError(message, remedy="Name all devices at once, or use another process.")
    try:
        loaded = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return
    if not hasattr(loaded, "fakeDriverAddDevice"):
        message = "libcuda.so.1, the real driver, is loaded in this process already"
        raise FakeDriverError(message, remedy="Create the FakeDriver first, or use another process.")


def _add_devices(control: ctypes.CDLL, devices: tuple[Target, ...]) -> None:
    global _devices  # noqa: PLW0603 - it is the process's state, as the driver is
    if not _devices:
        for device in devices:
            control.fakeDriverAddDevice(device.sm, device.max_shared)
        _devices = devices
