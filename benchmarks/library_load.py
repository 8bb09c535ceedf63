"""What a plugin library costs: the time to load it, with 1 kernel and with 1000, and to compile the example's.

`python benchmarks/library_load.py`. Loading is dlopen and getCreators, each in a process of its own, alternating; the
difference of the medians counts. Compiling is the processor time of g++ for each source, one after another (the whole
launcher is one, as in a build), with the share that -ftime-report gives to parsing and templates.
"""

from __future__ import annotations

import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from machine import describe_machine

from hatch_tensoracle import Bundle
from hatch_tensoracle.cmake import build_library

ROOT = Path(__file__).resolve().parents[1]
RUNS = 15

_LOAD = """
import ctypes, sys, time
begin = time.perf_counter()
library = ctypes.CDLL(sys.argv[1])
count = ctypes.c_int32()
library.getCreators.restype = ctypes.c_void_p
assert library.getCreators(ctypes.byref(count)) and count.value == 1
print(time.perf_counter() - begin)
"""


def make_library(directory: Path, kernels: int) -> Path:
    """A plugin and as many kernels, which are one kernel under many names, each with a cubin of its own."""
    from kernels import twenty  # type: ignore[attr-defined,unused-ignore]

    from tensoracle_producer import KernelSpec, Pointer, Scalar, compile_bundle
    from tensoracle_producer.render import render_bundle

    pointers, numbers = [Pointer("fp32")] * 8, [Scalar("i32")] * 7 + [Scalar("fp32")] * 4
    bundle = compile_bundle(
        [KernelSpec(twenty, name="twenty", arguments=[*pointers, *numbers, Scalar("i32")])],
        ["sm86"],
        directory / "bundle",
    )
    (entry,) = bundle.entries
    (cubin,) = entry.cubins
    entries = []
    for i in range(kernels):
        file = f"cubins/many.{i:04}.cubin"
        shutil.copyfile(directory / "bundle" / cubin.file, directory / "bundle" / file)
        name = f"twenty_{i:04}" if i else entry.kernel
        entries.append(replace(entry, kernel=name, cubins=(replace(cubin, file=file),)))
    many: Bundle = replace(bundle, entries=tuple(entries)).sealed()
    (directory / "bundle" / "bundle.json").write_bytes(many.to_json())
    for source in (directory / "bundle").glob("*.cpp"):
        source.unlink()
    for source_name, text in render_bundle(many).items():
        (directory / "bundle" / source_name).write_text(text)
    library = directory / f"lib{kernels}.so"
    build_library(directory / "bundle", [ROOT / "benchmarks" / "enqueue_instructions.cpp"], library)
    return library


def load_seconds(library: Path) -> float:
    """One load in a fresh process."""
    command = [sys.executable, "-c", _LOAD, str(library)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compile_seconds(source: Path) -> tuple[float, str]:
    """Processor time, and what it goes to."""
    command = [shutil.which("g++") or "g++", "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-c", str(source)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    include = ["-I", str(ROOT / "cpp" / "include"), "-o", "/dev/null"]
    subprocess.run([*command, *include], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = subprocess.run([*command, *include, "-ftime-report"], check=True, capture_output=True, text=True).stderr
    shares = [
        f"{what} {match[1]} %"
        for what in ("phase parsing", "template instantiation", "phase opt and generate")
        if (match := re.search(rf"{what} *: *[\d.]+ \( *(\d+)%\)", report))
    ]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ", ".join(shares)


def main() -> None:
    """Print all figures."""
    print(describe_machine())
    with tempfile.TemporaryDirectory() as temporary:
        libraries = {}
        for kernels in (1, 1000):
            directory = Path(temporary) / str(kernels)
            directory.mkdir()
            libraries[kernels] = make_library(directory, kernels)
        times: dict[int, list[float]] = {kernels: [] for kernels in libraries}
        for _ in range(RUNS):
            for kernels, library in libraries.items():
                times[kernels].append(load_seconds(library))
        for kernels, library in libraries.items():
            median = statistics.median(times[kernels]) * 1000
            print(f"{median:6.2f} ms to load {kernels:4} kernels, {library.stat().st_size >> 10} KiB")
    whole = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        launcher = Path(temporary) / "launcher.cpp"
        sources = sorted((ROOT / "cpp" / "src").glob("*.cpp"))
        launcher.write_text("".join(f'#include "{source}"\n' for source in sources))
        for source in (launcher, *sorted((ROOT / "example_plugin" / "src").glob("*.cpp"))):
            seconds, shares = compile_seconds(source)
            whole += seconds
            print(f"{seconds:6.2f} s to compile {source.name}: {shares}")
    print(f"{whole:6.2f} s together, on one core")


if __name__ == "__main__":
    main()
