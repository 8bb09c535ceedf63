"""`hatch-tensoracle check --gpu` on the example."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gpu.machine import ROOT


def test_check_finds_nothing_wrong_on_the_gpu(library: Path, record: Callable[[str, object], None]) -> None:
    cases = ROOT / "example_plugin" / "check.toml"
    command = [sys.executable, "-m", "hatch_tensoracle", "check", str(library), "--cases", str(cases), "--gpu"]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    (artifact,) = json.loads(done.stdout)["artifacts"]
    made = [outcome for outcome in artifact["outcomes"] if not outcome["skipped"]]
    record("checks made", len(made))
    assert {"capture", "execution", "contexts", "threads", "exit"} <= {outcome["check"] for outcome in made}
