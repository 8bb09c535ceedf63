"""Python's share of an enqueue: EngineExecution.enqueue against the binding's bare calls, for 4 tensors.

`python benchmarks/enqueue_overhead.py`. The binding is the tests' stand-in, on both sides, since a real context needs a
GPU: its methods are Python functions that do nothing, and the difference is what this package adds. Loops of both
alternate; the difference of the least times counts, which other work on the machine lengthens least.
`execution(inputs, out)` on DevicePointers is shown too.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT))

from runtime import stand_in  # noqa: E402 - it is the tests'

from hatch_tensoracle._arrays import DevicePointer  # noqa: E402
from hatch_tensoracle.runtime.distribution import distribution  # noqa: E402
from hatch_tensoracle.runtime.execution import EngineExecution  # noqa: E402
from hatch_tensoracle.runtime.settings_slot import SettingsSlot  # noqa: E402

ROUNDS, CALLS = 300, 200
NAMES = ("x", "residual", "y", "r")
ADDRESSES = {name: 4096 * (index + 1) for index, name in enumerate(NAMES)}
STREAM = 5


class BareContext(stand_in.IExecutionContext):
    """Does nothing, to be as near to a call into C++ as a Python function is."""

    def set_tensor_address(self, name: str, memory: int) -> bool:  # noqa: ARG002
        """Take it."""
        return True

    def execute_async_v3(self, stream_handle: int) -> bool:  # noqa: ARG002
        """Take it."""
        return True


def made() -> tuple[EngineExecution, BareContext]:
    """An execution that is ready, and its context."""
    sys.modules["tensorrt"] = stand_in
    tensorrt = distribution("tensorrt")
    tensors = {name: stand_in.tensor("INPUT" if name in NAMES[:2] else "OUTPUT", (4, 64)) for name in NAMES}
    engine: Any = stand_in.Runtime(tensorrt.logger).deserialize_cuda_engine(stand_in.plan(tensors))
    execution = EngineExecution(SimpleNamespace(engine=engine, distribution=tensorrt, settings_slot=SettingsSlot()))
    context = BareContext()
    engine.create_execution_context = lambda _strategy: context
    context.infer_shapes = list  # type: ignore[method-assign]
    context.get_tensor_shape = lambda name: stand_in.Dims((4, 64))  # type: ignore[method-assign]  # noqa: ARG005
    return execution, context


def seconds(call: Callable[[], object]) -> float:
    """Of one call."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS


def main() -> None:
    """Print the difference."""
    print(describe_machine())
    execution, context = made()

    def bare() -> None:
        for name, address in ADDRESSES.items():
            context.set_tensor_address(name, address)
        context.execute_async_v3(STREAM)

    def ours() -> None:
        execution.enqueue(ADDRESSES, stream=STREAM)

    pointers = {name: DevicePointer(ADDRESSES[name], (4, 64), "fp32") for name in NAMES}
    inputs, out = ({name: pointers[name] for name in names} for names in (NAMES[:2], NAMES[2:]))

    def arrays() -> None:
        execution(inputs, out, stream=STREAM)

    times: dict[str, list[float]] = {call.__name__: [] for call in (bare, ours, arrays)}
    gc.disable()
    for _ in range(ROUNDS):
        for call in (bare, ours, arrays):
            times[call.__name__].append(seconds(call))
    least = {name: min(each) * 1e6 for name, each in times.items()}
    print(f"{least['bare']:6.2f} us for the binding's 5 calls, which a stand-in takes")
    print(f"{least['ours'] - least['bare']:6.2f} us more for enqueue")
    print(f"{least['arrays'] - least['bare']:6.2f} us more for execution(inputs, out)")


if __name__ == "__main__":
    main()
