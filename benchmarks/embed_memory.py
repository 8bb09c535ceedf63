"""Embedding cubins: time and memory of the compiler and the linker, against a byte array.

`python benchmarks/embed_memory.py`. 100 MB in 1000 files through the bundle.cpp that the producer writes, and 5 MB as
the array of numbers that other tools write.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

from hatch_tensoracle._paths import cpp
from hatch_tensoracle.bundle import Bundle, Cubin, Entry
from tensoracle_producer.render import render_bundle


def make_bundle(directory: Path, count: int, size: int) -> list[Path]:
    """Write a bundle directory of `count` random files in place of cubins; return the sources that embed it."""
    (directory / "cubins").mkdir()
    entries = []
    for i in range(count):
        data, file = os.urandom(size), f"cubins/kernel_{i}.0.0.sm86.cubin"
        (directory / file).write_bytes(data)
        cubin = Cubin(
            target="sm86",
            file=file,
            sha256=hashlib.sha256(data).hexdigest(),
            size=size,
            architecture_specific=False,
            registers=32,
            local_bytes=0,
            static_shared=0,
            dynamic_shared=0,
            scratch=0,
            threads=128,
        )
        entry = Entry(
            kernel=f"kernel_{i}",
            configuration=0,
            variant=0,
            symbol="kernel",
            source_sha256="",
            arguments=(),
            constants=(),
            options={},
            cubins=(cubin,),
        )
        entries.append(entry)
    bundle = Bundle(entries=tuple(entries), targets=("sm86",), tools={}, minimum_driver="").sealed()
    (directory / "bundle.json").write_bytes(bundle.to_json())
    sources = render_bundle(bundle)
    for name, text in sources.items():
        (directory / name).write_text(text)
    return [directory / name for name in sources]


def make_array(directory: Path, size: int) -> list[Path]:
    """The same as a C++ array."""
    source = directory / "array.cpp"
    numbers = ",".join(map(str, os.urandom(size)))
    source.write_text(f"extern unsigned char const kCUBINS[];\nunsigned char const kCUBINS[] = {{{numbers}}};\n")
    return [source]


def run_all(directory: Path, sources: list[Path]) -> None:
    """Compile every source on its own and link."""
    flags = ["-std=c++17", "-O2", "-fPIC", f"-I{cpp() / 'include'}", f"-Wa,-I{directory}"]
    objects = [str(source.with_suffix(".o")) for source in sources]
    for source, object_file in zip(sources, objects, strict=True):
        subprocess.run(["g++", *flags, "-c", str(source), "-o", object_file], check=True)  # noqa: S607
    link = ["g++", "-shared", "-Wl,--build-id=none", *objects, "-o", str(directory / "library.so")]
    subprocess.run(link, check=True)


def main() -> None:
    """Measure both in processes of their own, so that each has its own peak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="?", choices=("bundle", "array"))
    case = parser.parse_args().case
    if case is None:
        print(describe_machine())
        for name in ("bundle", "array"):
            subprocess.run([sys.executable, __file__, name], check=True, cwd=Path(__file__).parent)
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        megabytes = {"bundle": 100, "array": 5}[case]
        sources = (
            make_bundle(directory, 1000, 100_000) if case == "bundle" else make_array(directory, megabytes * 10**6)
        )
        start = time.perf_counter()
        run_all(directory, sources)
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print(f"{case}: {megabytes} MB in {seconds:.2f} s, largest process {peak:.0f} MB")


if __name__ == "__main__":
    main()
