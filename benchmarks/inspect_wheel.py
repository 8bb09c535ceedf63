"""Inspecting a wheel against reading, inflating and hashing it: `python benchmarks/inspect_wheel.py [MB [CUBINS]]`.

Each cubin is a real one with bytes behind it that no one reads: random ones, which deflate stores as they are, or
machine code of another cubin with every eighth byte random, which is packed about as well as code is. Files are in the
page cache. Every measurement is a process of its own, and the sides take turns. Processor time is of all threads: it
says what the work is where other programs take a part of the machine.
"""

from __future__ import annotations

import cProfile
import hashlib
import json
import pstats
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.bundles import sealed
from helpers.libraries import link_library
from helpers.wheels import write_wheel

from hatch_tensoracle.bundle import CUBIN_ALIGNMENT

CORPUS = Path(__file__).resolve().parents[1] / "tests" / "fuzz" / "corpus"
RUNS = 5


class Measured(NamedTuple):
    """What one process took."""

    seconds: float
    processor: float
    memory: int
    """Bytes."""


def main(megabytes: int = 500, count: int = 1000) -> None:
    """Write both wheels and measure each."""
    print(describe_machine())
    for kind in ("random", "code"):
        with tempfile.TemporaryDirectory() as directory:
            wheel = written(Path(directory), kind, megabytes * 1_000_000 // count, count)
            measure(wheel, kind, count)


def measure(wheel: Path, kind: str, count: int) -> None:
    """Compare medians, and say what the time goes to."""
    baseline, inspections = [], []
    for _ in range(RUNS):
        baseline.append(child("--baseline", wheel))
        inspections.append(child("--inspect", wheel))
    with zipfile.ZipFile(wheel) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    print(f"{kind}: {count} cubins, {unpacked / 1e6:.0f} MB, in a wheel of {wheel.stat().st_size / 1e6:.0f} MB")
    for what in ("seconds", "processor"):
        base, seen = (statistics.median(getattr(one, what) for one in side) for side in (baseline, inspections))
        limit = 1.5 * base + 0.002 * count
        print(
            f"  {what}: {base:.2f} read, inflated and hashed; {seen:.2f} inspected, {seen / base:.2f} times that;",
            end="",
        )
        print(f" 1.5 times that and 2 ms a cubin are {limit:.2f}, {'met' if seen <= limit else 'missed'}")
    memory = [max(one.memory for one in side) >> 20 for side in (baseline, inspections)]
    print(f"  memory: {memory[1]} MiB, of the baseline {memory[0]} MiB")
    print(
        subprocess.run(
            [sys.executable, __file__, "--profile", wheel], capture_output=True, text=True, check=True
        ).stdout
    )


def child(option: str, wheel: Path) -> Measured:
    """Measure a process that does nothing else."""
    done = subprocess.run([sys.executable, __file__, option, wheel], capture_output=True, text=True, check=True)
    seconds, processor, memory = done.stdout.split()
    return Measured(float(seconds), float(processor), int(memory))


def read_and_hash(wheel: Path) -> None:
    """The baseline."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            hashed = hashlib.sha256()
            with archive.open(member) as stream:
                while chunk := stream.read(1 << 20):
                    hashed.update(chunk)


def written(directory: Path, kind: str, size: int, count: int) -> Path:
    """A wheel around one library with as many cubins of that size."""
    content = json.loads((CORPUS / "bundle.json").read_bytes())
    (entry,) = content["entries"]
    (cubin,) = (cubin for cubin in entry["cubins"] if cubin["target"] == "sm86")
    good, other = (CORPUS / "code.sm86.cubin").read_bytes(), (CORPUS / "code.sm120.cubin").read_bytes()
    chance = random.Random(0)  # noqa: S311 - the same every time
    entries, parts = [], []
    for i in range(count):
        behind = bytearray(chance.randbytes(size - len(good)))
        if kind == "code":
            behind[:] = (other * (size // len(other) + 1))[: len(behind)]
            behind[::8] = chance.randbytes(len(behind[::8]))
        data = good + bytes(behind)
        digest = hashlib.sha256(data).hexdigest()
        own = {**cubin, "file": f"cubins/k{i}.sm86.cubin", "sha256": digest, "size": len(data)}
        entries.append({**entry, "kernel": f"k{i}", "cubins": [own], "ptx": None})
        parts.append(data + bytes(-len(data) % CUBIN_ALIGNMENT))
    manifest = sealed({**content, "entries": entries, "targets": ["sm86"], "ptx_target": None})
    library = link_library(CORPUS, directory / "libpkg.so", manifest=manifest, cubins=b"".join(parts))
    files = {"pkg/libpkg.so": library.read_bytes(), "pkg/libpkg.bundle.json": manifest}
    library.unlink()
    return write_wheel(directory, files)


def run_child(option: str, wheel: Path) -> None:
    """Measure one side, or profile inspection."""
    from hatch_tensoracle import inspect_wheel

    if option == "--profile":
        with cProfile.Profile() as profile:
            inspect_wheel(wheel)
        pstats.Stats(profile).sort_stats("tottime").print_stats(8)
        return
    started, worked = time.perf_counter(), time.process_time()
    if option == "--baseline":
        read_and_hash(wheel)
    else:
        inspect_wheel(wheel)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    status = Path("/proc/self/status").read_text()
    print(
        seconds, processor, int(status.partition("VmHWM:")[2].split()[0]) << 10
    )  # unlike ru_maxrss, not that of the parent


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("--"):
        run_child(sys.argv[1], Path(sys.argv[2]))
    else:
        main(*map(int, sys.argv[1:]))
