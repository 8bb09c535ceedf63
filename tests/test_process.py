"""Running tools: nothing that they started outlives an interrupt."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.waiting import is_running, wait_until

PROGRAM = """
import signal, sys
from hatch_tensoracle import _process
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
_process._GRACE = float(sys.argv[3])
# It prints more than a pipe holds: when that is through, Python has started it and reads.
tool = sys.argv[2] + 'sleep 1000 & head -c 1000000 /dev/zero; echo $! > "$0"; wait'
_process.run(["sh", "-c", tool, sys.argv[1]], what="The tool")
"""


@pytest.mark.parametrize(
    ("begins", "grace"), [pytest.param("", 1000, id="at once"), pytest.param("trap '' TERM; ", 0.1, id="by force")]
)
def test_an_interrupt_ends_what_a_tool_has_started(tmp_path: Path, begins: str, grace: float) -> None:
    """The interrupt reaches Python alone, as when a frontend passes it on."""
    told = tmp_path / "pid"
    command = [sys.executable, "-c", PROGRAM, str(told), begins, str(grace)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: process.poll() is not None or (told.is_file() and told.read_text()), "the tool's child")
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate()
    assert printed.rstrip().endswith("KeyboardInterrupt")
    sleeper = int(told.read_text())
    wait_until(lambda: not is_running(sleeper), "the end of the tool's child")
