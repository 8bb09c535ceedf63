"""Runs of `hatch-tensoracle tune` in processes of their own, where the fake driver's clock is what is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["CASE", "TuningRun", "journal_lines", "start", "tune"]

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
import sys
from hatch_tensoracle.cli import main
from hatch_tensoracle.testing import FakeDriver
from hatch_tensoracle.tune import meter
meter.ROUNDS = (1, 2)  # the clock has no noise
driver = FakeDriver([int(sys.argv[1])])
sys.exit(main(["tune", *sys.argv[2:]]))
"""

TuningRun = subprocess.CompletedProcess[str]


def start(sm: int, library: Path, cases: Path, output: Path, *options: str) -> subprocess.Popen[str]:
    """Begin to tune on a fake device."""
    arguments = [str(library), "--cases", str(cases), "--output", str(output), *options]
    command = [sys.executable, "-c", _CODE, str(sm), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tune(sm: int, library: Path, cases: Path, output: Path, *options: str) -> TuningRun:
    """Tune on a fake device to the end."""
    with start(sm, library, cases, output, *options) as process:
        stdout, stderr = process.communicate()
    return TuningRun(process.args, process.returncode, stdout, stderr)


def journal_lines(output: Path) -> list[dict[str, Any]]:
    """The measurements that the journal of an output has."""
    lines = output.with_suffix(".journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]
