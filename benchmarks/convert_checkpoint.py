"""A checkpoint's conversion against torch.load and safetensors' own save_file of the same tensors: time and memory.

`python benchmarks/convert_checkpoint.py`, with torch and safetensors. Each conversion is a process of its own, which
has imported torch before the clock starts; the sides take turns, and the medians are shown. Files are read from and
written to the page cache. Memory is the largest resident size of the process, pages of mapped files among it, less what
it had before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
LAYERS, WIDTH = 60, 2048


def peak() -> int:
    """Largest resident size so far, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def ours(source: str, destination: str) -> None:
    """Convert it."""
    from hatch_tensoracle.convert import pth_to_safetensors

    pth_to_safetensors(source, destination)


def theirs(source: str, destination: str) -> None:
    """Load it and save the tensors, made contiguous where save_file insists on that."""
    from safetensors.torch import save_file

    tensors = torch.load(source, map_location="cpu", weights_only=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, destination)


def convert(side: str, source: str, destination: str) -> None:
    """In the process of its own: print seconds and bytes."""
    import safetensors.torch  # noqa: F401 - theirs, before the clock starts

    import hatch_tensoracle.convert  # noqa: F401

    before = peak()
    begin = time.perf_counter()
    {"ours": ours, "theirs": theirs}[side](source, destination)
    print(time.perf_counter() - begin, peak() - before)


def main() -> None:
    """Print the figures of contiguous tensors and of transposed ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--convert", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.convert:
        convert(*options.convert)
        return
    print(describe_machine(), f"torch {torch.__version__}", sep="; ")
    for turned in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / "model.pth"
            weights = {f"layer.{index}.weight": torch.rand(WIDTH, WIDTH) for index in range(LAYERS)}
            torch.save({name: weight.T if turned else weight for name, weight in weights.items()}, source)
            del weights
            size = source.stat().st_size
            print(f"{size / 1e9:.2f} GB in {LAYERS} {'transposed' if turned else 'contiguous'} tensors")
            compare(source, size, options.rounds)


def compare(source: Path, size: int, rounds: int) -> None:
    """Print time and memory of both sides."""
    found: dict[str, list[tuple[float, float]]] = {"theirs": [], "ours": []}
    for _ in range(rounds):
        for side, values in found.items():
            destination = source.with_name(f"{side}.safetensors")
            destination.unlink(missing_ok=True)
            done = subprocess.run(
                [sys.executable, __file__, "--convert", side, source, destination],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=True,
            )
            seconds, memory = map(float, done.stdout.split())
            values.append((seconds, memory))
    assert source.with_name("ours.safetensors").read_bytes() == source.with_name("theirs.safetensors").read_bytes()
    for side, values in found.items():
        seconds, memory = (statistics.median(each) for each in zip(*values, strict=True))
        print(f"  {side:6}: {seconds:.2f} s, {memory / size:.2f} times the checkpoint resident at most")


if __name__ == "__main__":
    main()
