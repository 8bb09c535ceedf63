"""Occupancy is what NVIDIA's own calculator, the header cuda_occupancy.h that comes with Triton, says it is."""

from __future__ import annotations

import dataclasses
import random
import subprocess
from pathlib import Path

import pytest
from helpers.tools import SITE, run, tool

from hatch_tensoracle.bundle import Cubin
from hatch_tensoracle.occupancy import Occupancy, occupancy_of
from hatch_tensoracle.targets import TARGETS

CUBIN = Cubin(
    target="sm86",
    file="cubins/x.cubin",
    sha256="",
    size=1,
    architecture_specific=False,
    registers=32,
    local_bytes=0,
    static_shared=0,
    dynamic_shared=0,
    scratch=0,
    threads=128,
)

SOURCE = """
#include <cuda_occupancy.h>
#include <cstdio>
// Reads: major minor threads-of-an-SM shared-of-an-SM shared-of-a-block reserved registers threads static dynamic
int main() {
    int major, minor, resident, shared, optin, reserved, registers, threads;
    long fixed, dynamic;
    while (std::scanf("%d %d %d %d %d %d %d %d %ld %ld", &major, &minor, &resident, &shared, &optin, &reserved,
                      &registers, &threads, &fixed, &dynamic) == 10) {
        cudaOccDeviceProp device{};
        device.computeMajor = major; device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = resident;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536; device.warpSize = 32;
        device.sharedMemPerBlock = 49152; device.sharedMemPerMultiprocessor = shared;
        device.sharedMemPerBlockOptin = optin; device.reservedSharedMemPerBlock = reserved; device.numSms = 1;
        cudaOccFuncAttributes function{};
        function.maxThreadsPerBlock = 1024; function.numRegs = registers; function.sharedSizeBytes = fixed;
        function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; function.maxDynamicSharedSizeBytes = optin - fixed;
        cudaOccDeviceState state{};
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        cudaOccResult result{};
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, dynamic)
            != CUDA_OCC_SUCCESS) {
            return 1;
        }
        std::printf("%d\\n", result.activeBlocksPerMultiprocessor);
    }
}
"""


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("calculator")
    (directory / "calculator.cpp").write_text(SOURCE)
    headers = SITE / "triton/backends/nvidia/include"
    run(tool("g++"), "-w", "-isystem", headers, "-o", directory / "calculator", directory / "calculator.cpp")
    return directory / "calculator"


RESIDENT = {"sm75": 1024, "sm80": 2048, "sm90": 2048, "sm100": 2048, "sm103": 2048}
SHARED = {"sm75": 64, "sm80": 164, "sm87": 164, "sm90": 228, "sm100": 228, "sm103": 228}


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_are_those_of_nvidias_calculator(calculator: Path, target: str) -> None:
    chance = random.Random(target)  # noqa: S311 - the same every time
    cubins, lines = [], []
    sm, most = TARGETS[target].sm, TARGETS[target].max_shared
    for _ in range(1000):
        shared = chance.choice([0, chance.randrange(most + 1), 1024 * chance.randrange(most // 1024 + 1)])
        fixed = chance.choice([0, min(shared, chance.randrange(49152))])
        cubin = dataclasses.replace(
            CUBIN,
            target=target,
            registers=chance.randint(16, 255),
            threads=32 * chance.randint(1, 32),
            static_shared=fixed,
            dynamic_shared=shared - fixed,
        )
        cubins.append(cubin)
        device = [sm // 10, sm % 10, RESIDENT.get(target, 1536), SHARED.get(target, 100) << 10, most, 1024 * (sm >= 80)]
        lines.append([*device, cubin.registers, cubin.threads, cubin.static_shared, cubin.dynamic_shared])
    text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
    done = subprocess.run([calculator], input=text, capture_output=True, text=True, check=True)
    expected = [int(line) for line in done.stdout.split()]
    assert [occupancy_of(cubin).blocks for cubin in cubins] == expected
    assert len(set(expected)) > 5


@pytest.mark.parametrize(
    ("fields", "blocks", "warps", "limit"),
    [
        pytest.param({}, 12, 48, "warps", id="all warps"),
        pytest.param({"registers": 128}, 4, 16, "registers", id="registers"),
        pytest.param({"dynamic_shared": 49 * 1024}, 2, 8, "shared memory", id="shared memory"),
        pytest.param({"threads": 32}, 16, 16, "blocks", id="small blocks"),
        pytest.param({"threads": 1024, "registers": 255}, 0, 0, "registers", id="more than there is"),
    ],
)
def test_what_limits_it_is_named(fields: dict[str, int], blocks: int, warps: int, limit: str) -> None:
    occupancy = occupancy_of(dataclasses.replace(CUBIN, **fields))  # type: ignore[arg-type]
    assert occupancy == Occupancy(blocks=blocks, warps=warps, most_warps=48, limit=limit)
    assert occupancy.fraction == warps / 48
