"""Runs of `hatch-tensoracle tune` in processes of their own, where the fake driver's clock is what is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["CASE", "TuningRun", "journal_lines", "tune"]

CASE = """
[[cases]]
plugin = "Scale"
namespace = "tests"
kernel = "scale_fp32"
fields = { offsets = { repeat = 0.5, times = "C" } }
inputs = [{ type = "fp32", shape = ["R", "C"] }]
sizes = { R = { min = 1, max = 100 }, C = 64 }
"""

_CODE = """
import os, signal, sys
from hatch_tensoracle.cli import main
from hatch_tensoracle.testing import FakeDriver
from hatch_tensoracle.tune import journal, meter
sm, stop, *arguments = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
meter.ROUNDS = (1, 2)  # the clock has no noise
add = journal.Journal.add
def add_and_stop(self, *line):
    add(self, *line)
    if len(self) == 4:
        os.kill(os.getpid(), int(stop))
journal.Journal.add = add_and_stop
driver = FakeDriver([int(sm)])
sys.exit(main(["tune", *arguments]))
"""

TuningRun = subprocess.CompletedProcess[str]


def tune(sm: int, library: Path, cases: Path, output: Path, *options: str, stop: int = 0) -> TuningRun:
    """Tune on a fake device. The signal `stop` comes when the journal has four measurements."""
    arguments = [str(sm), str(stop), str(library), "--cases", str(cases), "--output", str(output), *options]
    return subprocess.run([sys.executable, "-c", _CODE, *arguments], capture_output=True, text=True, check=False)


def journal_lines(output: Path) -> list[dict[str, Any]]:
    """The measurements that the journal of an output has."""
    lines = output.with_suffix(".journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]
