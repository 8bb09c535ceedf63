"""Running tools: nothing that they started outlives an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import signal, sys
from hatch_tensoracle._process import run
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
run(["sh", "-c", 'sleep 100 & echo $! > "$0"; wait', sys.argv[1]], what="The tool")
"""


def test_an_interrupt_ends_what_a_tool_has_started(tmp_path: Path) -> None:
    """The interrupt reaches Python alone, as when a frontend passes it on."""
    told = tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(told)], stderr=subprocess.PIPE, text=True)
    while not told.is_file() or not told.read_text().strip():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=30)
    assert printed.rstrip().endswith("KeyboardInterrupt")
    sleeper = Path("/proc", told.read_text().strip())
    for _ in range(500):  # whoever inherits it has to take note of its end
        if not sleeper.exists() or "State:\tZ" in (sleeper / "status").read_text():
            return
        time.sleep(0.01)
    os.kill(int(sleeper.name), signal.SIGKILL)
    message = "the tool's child still runs"
    raise AssertionError(message)
