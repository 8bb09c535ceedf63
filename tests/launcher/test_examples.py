"""The example's plugins launch their kernels with the arguments, grids and configurations that they should."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np  # noqa: TID253 - what the plugins are executed on
import pytest
from testing.child import in_child

from hatch_tensoracle.testing import DevicePointer, FakeDriver, PluginFailedError, PluginHarness, Tensor
from hatch_tensoracle.testing.records import Allocation

SCRATCH = (bytes(8), bytes(8))


def pointers(*addresses: int) -> tuple[bytes, ...]:
    return tuple(struct.pack("<Q", address) for address in addresses)


@pytest.mark.parametrize("type_", ["fp16", "bf16", "fp32"])
@in_child
def test_normalisation(example_library: Path, type_: str) -> None:
    x = Tensor(type_, (-1, -1, -1), min=(0, 0, 0), opt=(2, 3, 64), max=(64, 64, 4096))
    weight = Tensor(type_, (-1,), min=(0,), opt=(64,), max=(4096,))
    with FakeDriver([86, 120]) as driver, PluginHarness(example_library) as harness:
        contexts = [driver.create_context(device) for device in (0, 1)]
        plugin = harness.create("AddRmsNorm", {"epsilon": np.float32(1e-5)})
        digests: dict[tuple[int, bool, bool], str] = {}
        for device, context in enumerate(contexts):
            context.make_current()
            stream = context.create_stream()
            memory = driver.allocate(1 << 17)
            running = plugin.build([x, x, weight]).run_time()
            for shape, offset in [
                *[((2, 3, 64), 0), ((2, 3, 65), 0), ((4, 1, 64), 8), ((1, 1, 16), 16), ((5, 0, 64), 0)],
                *[((1, 2, 2048), 0), ((1, 2, 2056), 0), ((1, 2, 2056), 8), ((1, 2, 2057), 0)],
            ]:
                places = [memory + (1 << 14) * i + offset for i in range(5)]
                given = [DevicePointer(place, shape, type_) for place in places]
                given[2] = DevicePointer(places[2], shape[2:], type_)
                driver.clear()
                with stream.capture("global"):
                    running.enqueue(given[:3], given[3:], stream)
                launched = driver.launches
                if 0 in shape:
                    assert launched == ()
                    continue
                (launch,) = launched
                assert launch.arguments == (
                    *pointers(*places),
                    struct.pack("<i", shape[2]),
                    struct.pack("<f", 1e-5),
                    *SCRATCH,
                )
                is_long = shape[2] == 2056
                assert (launch.grid, launch.block) == ((shape[0] * shape[1], 1, 1), (512 if is_long else 256, 1, 1))
                assert (launch.stream, launch.owner) == (stream.handle, context.handle)
                is_aligned = shape[2] % 8 == 0 and offset % 16 == 0
                assert digests.setdefault((device, is_aligned, is_long), launch.sha256) == launch.sha256
        assert len(set(digests.values())) == 8


@in_child
def test_product(example_library: Path) -> None:
    w = Tensor("fp16", (64, 48))
    x = Tensor("fp16", (-1, 64), min=(0, 64), opt=(64, 64), max=(1 << 20, 64))
    bias = np.arange(48, dtype=np.float32)
    with FakeDriver([90]) as driver, PluginHarness(example_library) as harness:
        context = driver.create_context()
        stream = context.create_stream()
        memory = driver.allocate(1 << 12)
        built = harness.create("MatmulBiasGelu", {"bias": bias}).build([x, w])
        assert built.tactics == tuple(range(1, 8))
        threads = set()
        for tactic in built.tactics:
            driver.clear()
            running = built.run_time(tactic=tactic)
            (allocation,) = driver.records(Allocation)
            assert driver.copy_to_host(allocation.address, allocation.size) == bias.tobytes()
            for rows in (0, 1, 128, 100_000):
                inputs = [DevicePointer(memory, (rows, 64), "fp16"), DevicePointer(memory + 256, (64, 48), "fp16")]
                driver.clear()
                with stream.capture("global"):
                    running.enqueue(inputs, [DevicePointer(memory + 512, (rows, 48), "fp16")], stream)
                if rows == 0:
                    assert driver.launches == ()
                    continue
                (launch,) = driver.launches
                assert launch.arguments == (
                    *pointers(memory, memory + 256, allocation.address, memory + 512),
                    *(struct.pack("<i", extent) for extent in (rows, 48, 64)),
                    *SCRATCH,
                )
                threads.add(launch.block[0])
                assert launch.grid[1:] == (1, 1)
                assert 1 <= launch.grid[0] <= -(-rows // 16)
            running.close()
        assert threads == {128, 256}


@in_child
def test_refusals(example_library: Path) -> None:
    x = Tensor("fp16", (4, 64))
    with FakeDriver([90]) as driver, PluginHarness(example_library) as harness:
        driver.create_context()
        norm = harness.create("AddRmsNorm")
        for inputs, message in [
            (
                [x, Tensor("fp16", (4, 65)), Tensor("fp16", (64,))],
                r"residual has shape \(4, 65\); it must have that of x",
            ),
            ([x, x, Tensor("fp16", (32,))], r"weight has shape \(32\); it must be \(64\)"),
            ([Tensor("fp16", ())] * 2 + [Tensor("fp16", (32,))], r"x has shape \(\); it must have at least one axis"),
        ]:
            with pytest.raises(PluginFailedError, match=message):
                norm.build(inputs)
        product = harness.create("MatmulBiasGelu", {"bias": [0.0] * 48})
        for inputs, message in [
            ([x, Tensor("fp16", (48, 48))], r"x has shape \(4, 64\) and w \(48, 48\)"),
            ([x, Tensor("fp16", (64, 32))], r"w has shape \(64, 32\) and bias 48 elements"),
            ([x, Tensor("fp16", (64,))], "x has 2 axes and w has 1"),
        ]:
            with pytest.raises(PluginFailedError, match=message):
                product.build(inputs)
        with pytest.raises(PluginFailedError, match=r"field bias .* is missing"):
            harness.create("MatmulBiasGelu")
