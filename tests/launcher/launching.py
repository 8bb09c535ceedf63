"""What the tests do in their processes: arguments as text, plugins, executions, and what came of them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hatch_tensoracle.targets import Target
from hatch_tensoracle.testing import (
    DevicePointer,
    FakeDriver,
    PluginFailedError,
    PluginHarness,
    RunningPlugin,
    Tensor,
)

__all__ = ["Session", "X", "argument", "packed", "session"]

X = Tensor("fp32", (-1,), min=(0,), opt=(64,), max=(1 << 40,))

_CODES = {
    **dict(zip(("i8", "i16", "i32", "i64"), "bhiq", strict=True)),
    **dict(zip(("u8", "u16", "u32", "u64"), "BHIQ", strict=True)),
    **dict(zip(("fp16", "fp32", "fp64"), "efd", strict=True)),
}


def packed(type_: str, value: float) -> bytes:
    """A kernel parameter of that type."""
    if type_ in {"bool", "i1"}:
        return bytes([int(value)])
    if type_ == "bf16":
        return struct.pack("<f", value)[2:]
    return struct.pack(f"<{_CODES[type_]}", value)


def argument(type_: str, value: float) -> str:
    """An argument as the plugin Launch reads it."""
    return f"{type_}:{int.from_bytes(packed(type_, value), 'little'):x}"


class Session:
    """One library, the devices, and some device memory in a context that is current."""

    def __init__(self, driver: FakeDriver, harness: PluginHarness) -> None:
        self.driver = driver
        self.harness = harness
        self.memory = driver.allocate(1 << 12)

    def make(self, name: str = "Launch", *, tactic: int | None = None, **fields: Any) -> RunningPlugin:
        """Create, build and attach one of the elementwise plugins."""
        return self.harness.create(name, fields).build([X]).run_time(tactic=tactic)

    def enqueue(self, running: RunningPlugin, *, elements: int = 64, stream: Any = None) -> None:
        """Execute it once."""
        pointer = DevicePointer(self.memory, (elements,), "fp32")
        running.enqueue([pointer], [pointer], stream)

    def launch(
        self, kernel: str, arguments: Sequence[str], *, stream: Any = None, elements: int = 64, **fields: Any
    ) -> RunningPlugin:
        """Let a plugin launch a kernel once."""
        running = self.make(kernel=kernel, arguments=" ".join(arguments), **fields)
        self.enqueue(running, elements=elements, stream=stream)
        return running

    def refusal(self, kernel: str, arguments: Sequence[str], **fields: Any) -> str:
        """The message with which a launch fails; nothing may have been launched."""
        before = len(self.driver.launches)
        with pytest.raises(PluginFailedError) as caught:
            self.launch(kernel, arguments, **fields)
        assert len(self.driver.launches) == before
        (message,) = caught.value.messages[-1:]
        return message

    def told(self, beginning: str) -> list[str]:
        """What the library logged that begins so, without the beginning."""
        texts = (message.text for message in self.harness.messages)
        return [text.removeprefix(beginning) for text in texts if text.startswith(beginning)]


@contextlib.contextmanager
def session(library: Path, devices: Sequence[int | Target] = (86,)) -> Iterator[Session]:
    """A process's only one: it keeps its devices."""
    with FakeDriver(devices) as driver, PluginHarness(library) as harness:
        driver.create_context()
        yield Session(driver, harness)
