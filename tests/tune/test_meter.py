"""How a shape is measured: what is executed, on which tensors, and what becomes of a configuration that fails."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np  # noqa: TID253 - what is in device memory
import pytest
from testing.child import in_child

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.inspection import manifest_name
from hatch_tensoracle.testing import FakeDriver, PluginHarness
from hatch_tensoracle.testing.records import Allocation, Free
from hatch_tensoracle.tune import meter as metering
from hatch_tensoracle.tune.case import Case, Input
from hatch_tensoracle.tune.errors import TuningError
from hatch_tensoracle.tune.meter import EXECUTIONS, Meter
from hatch_tensoracle.tune.patterns import Patterns
from hatch_tensoracle.tune.subject import Subject

CASE = Case(
    plugin="Scale",
    namespace="tests",
    kernel="scale_fp16",
    inputs=(Input(type="fp16", shape=("R", 64)),),
    sizes={"R": 100},
)
NAMES = [f"BLOCK={block} num_warps={warps} num_stages=1" for block, warps in ((64, 1), (256, 2), (1024, 4))]


def subject_of(library: Path, harness: PluginHarness, case: Case = CASE) -> Subject:
    return Subject(case, harness, Bundle.parse(Path(manifest_name(str(library))).read_bytes(), "manifest"))


@in_child
def test_each_execution_of_a_timing_has_tensors_of_its_own(untuned: Path) -> None:
    metering.ROUNDS = (3, 3)
    with FakeDriver([90]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        subject, meter = subject_of(untuned, harness), Meter(driver)
        driver.clear()
        times = subject.measure({"R": 100}, meter)
        assert list(times) == NAMES
        assert list(times.values()) == pytest.approx([1.8, 1.448, 1.256], rel=1e-5)
        captured = [launch for launch in driver.launches if launch.captured]
        for block in (32, 64, 128):
            graphs = [launch.arguments[:2] for launch in captured if launch.block[0] == block]
            assert len(graphs) == 1 + EXECUTIONS  # one to tell how many
            assert len({address for pair in graphs[1:] for address in pair}) == 2 * EXECUTIONS
        kept = {record.address for record in driver.records(Allocation)} - {r.address for r in driver.records(Free)}
        assert len(kept) == 1  # random values, for the next shapes


@in_child
def test_inputs_are_random(untuned: Path) -> None:
    metering.ROUNDS = (1, 1)
    with FakeDriver([90]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        subject, meter = subject_of(untuned, harness), Meter(driver)
        driver.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "free", lambda _address: None)
            subject.measure({"R": 100}, meter)
        for launch in driver.launches:
            (address,) = struct.unpack("<Q", launch.arguments[0])
            values = np.frombuffer(driver.copy_to_host(address, 2 * 6400), np.float16).astype(np.float32)
            assert abs(values.mean()) < 0.1
            assert 0.9 < values.std() < 1.1


@pytest.mark.parametrize(
    ("type_", "numpy", "least", "greatest"),
    [
        ("fp32", "f4", -6, 6),
        ("fp16", "f2", -6, 6),
        ("i8", "i1", -128, 127),
        ("u8", "u1", 0, 255),
        ("i32", "i4", 0, 1),
        ("i64", "i8", 0, 1),
        ("bool", "u1", 0, 1),
    ],
)
@in_child
def test_values_of_every_type_are_such_as_it_has(type_: str, numpy: str, least: int, greatest: int) -> None:
    with FakeDriver([90]) as driver:
        patterns = Patterns(driver, driver.create_context().create_stream())
        size = (1 << 22) + 4096
        address = driver.allocate(size)
        patterns.fill(address, type_, size)
        values = np.frombuffer(driver.copy_to_host(address, size), numpy)
        assert least <= values.min() < values.max() <= greatest
        assert len(np.unique(values[-4096 // values.itemsize :])) > 1


@in_child
def test_types_that_numpy_has_not_have_no_nan() -> None:
    with FakeDriver([90]) as driver:
        patterns = Patterns(driver, driver.create_context().create_stream())
        address = driver.allocate(1 << 16)
        patterns.fill(address, "bf16", 1 << 16)
        upper = np.frombuffer(driver.copy_to_host(address, 1 << 16), np.uint16).astype(np.uint32) << 16
        assert 0.9 < upper.view(np.float32).std() < 1.1
        patterns.fill(address, "fp8", 1 << 16)
        octets = np.frombuffer(driver.copy_to_host(address, 1 << 16), np.uint8)
        assert not np.isin(octets, [0x7F, 0xFF]).any()


@in_child
def test_a_configuration_that_fails_has_no_time(untuned: Path) -> None:
    metering.ROUNDS = (1, 1)
    with FakeDriver([90]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        subject, meter = subject_of(untuned, harness), Meter(driver)
        driver.fail("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", occurrence=2)
        times = subject.measure({"R": 100}, meter)
        assert [name for name, us in times.items() if us is None] == [NAMES[1]]


@in_child
def test_if_all_fail_the_first_cause_is_said_with_the_sizes(untuned: Path) -> None:
    with FakeDriver([90]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        subject, meter = subject_of(untuned, harness), Meter(driver)
        for occurrence in (1, 2, 3):
            driver.fail("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", occurrence=occurrence)
        with pytest.raises(TuningError) as caught:
            subject.measure({"R": 100}, meter)
        assert str(caught.value).startswith("case Scale scale_fp16 fp16(R,64), R=100: Scale: enqueue returned")
        assert "kernel scale_fp16#0" in str(caught.value)


@in_child
def test_too_little_memory_for_further_sets_is_no_error(untuned: Path) -> None:
    metering.ROUNDS = (1, 1)
    with FakeDriver([90]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        subject, meter = subject_of(untuned, harness), Meter(driver)
        driver.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "free_memory", lambda: 100_000)
            assert None not in subject.measure({"R": 100}, meter).values()
        assert len([record for record in driver.records(Allocation) if record.size == 12_800]) == 4


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"double": float("inf")}, "field double is inf, for which nothing can be tuned"),
        ({"factor": "much"}, "createPlugin returned null"),
    ],
)
@in_child
def test_fields_that_cannot_be_are_named(untuned: Path, fields: dict[str, float], cause: str) -> None:
    with FakeDriver([90]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        with pytest.raises(ConfigurationError, match=r"^case Scale scale_fp16 fp16\(R,64\): ") as caught:
            subject_of(untuned, harness, dataclasses.replace(CASE, fields=fields))
        assert cause in str(caught.value)


@in_child
def test_a_kernel_with_other_configurations_than_the_plugin_is_refused(untuned: Path) -> None:
    manifest = Bundle.parse(Path(manifest_name(str(untuned))).read_bytes(), "manifest")
    fewer = dataclasses.replace(manifest, entries=manifest.entries[:-1])
    doubled = dataclasses.replace(manifest, entries=(*manifest.entries, manifest.entries[-1]))
    with FakeDriver([90]) as driver, PluginHarness(untuned) as harness:
        driver.create_context()
        with pytest.raises(ConfigurationError, match="Scale has 3 configurations, its kernel scale_fp16 has 2"):
            Subject(CASE, harness, fewer)
        with pytest.raises(ConfigurationError, match=r"the kernel has the configuration BLOCK=1024 .* twice"):
            Subject(CASE, harness, doubled)
