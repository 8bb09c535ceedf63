"""Python's share of a replay: CudaGraphs.enqueue against a bare cuGraphLaunch through ctypes, for 4 tensors.

`python benchmarks/replay_overhead.py`. The driver is the fake one, on both sides, and the engine is the tests' stand-in
for TensorRT's binding, since a real one needs a GPU: the difference is what this package adds. Loops of both alternate;
the difference of the least times counts, which other work on the machine lengthens least.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

from enqueue_overhead import ADDRESSES, NAMES, seconds
from machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT))

from runtime import stand_in  # noqa: E402 - it is the tests'

from hatch_tensoracle.runtime.cuda_graphs import CudaGraphs  # noqa: E402
from hatch_tensoracle.runtime.distribution import distribution  # noqa: E402
from hatch_tensoracle.runtime.engine import EngineHandle  # noqa: E402
from hatch_tensoracle.testing import FakeDriver  # noqa: E402

ROUNDS = 300


def main() -> None:
    """Print the difference."""
    print(describe_machine())
    with FakeDriver([89]) as driver:
        stream = driver.create_context().create_stream().handle
        sys.modules["tensorrt"] = stand_in
        tensorrt = distribution("tensorrt")
        tensors = {name: stand_in.tensor("INPUT" if name in NAMES[:2] else "OUTPUT", (4, 64)) for name in NAMES}
        runtime = stand_in.Runtime(tensorrt.logger)
        engine = runtime.deserialize_cuda_engine(stand_in.plan(tensors))
        handle = EngineHandle(runtime=runtime, engine=engine, distribution=tensorrt, path=ROOT, was_built=True)
        graphs = CudaGraphs(handle.create_execution())
        graphs.enqueue(ADDRESSES, stream=stream)
        launch = ctypes.CDLL("libcuda.so.1").cuGraphLaunch
        launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        executable = next(iter(graphs._pool._entries.values())).graph._executable.value  # type: ignore[union-attr]  # noqa: SLF001

        def bare() -> None:
            launch(executable, stream)

        def ours() -> None:
            graphs.enqueue(ADDRESSES, stream=stream)

        gc.disable()
        times: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            times.append((seconds(bare), seconds(ours)))
            driver.clear()
        bare_s, ours_s = map(min, zip(*times, strict=True))
        assert graphs.statistics.eager == 1
        print(f"{1e6 * bare_s:6.2f} us for cuGraphLaunch, which the fake driver takes")
        print(f"{1e6 * (ours_s - bare_s):6.2f} us more for enqueue")
        graphs.close()


if __name__ == "__main__":
    main()
