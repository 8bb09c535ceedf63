"""Runs code in a process of its own: a failed build can poison the next one, and registries keep what they load."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "run_code"]

_PRELUDE = """
import json, sys
from hatch_tensoracle.runtime import *

def attempt(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def answer(value):
    print()
    print(json.dumps(value, default=str))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a process printed, and how it ended."""

    status: int
    stdout: str
    stderr: str

    def answer(self) -> Any:
        """What it gave to `answer`."""
        assert self.status == 0, self.stderr[-2000:]
        return json.loads(self.stdout.splitlines()[-1])


def run_code(code: str, *arguments: str | Path, site: Path | None = None, on_terminal: bool = False) -> Outcome:
    """Run the code after importing the runtime's names, `attempt` and `answer`; warnings are errors.

    `site` is searched for packages first; `on_terminal` makes stderr a terminal.
    """
    environment = os.environ | ({"PYTHONPATH": str(site)} if site else {})
    command = [sys.executable, "-W", "error", "-c", _PRELUDE + code, *map(str, arguments)]
    if not on_terminal:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return Outcome(status=done.returncode, stdout=done.stdout, stderr=done.stderr)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=environment | {"TERM": "xterm"}, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    with ThreadPoolExecutor() as pool:
        stderr = pool.submit(_read_all, ours)
        stdout, _ = process.communicate()
        return Outcome(status=process.returncode, stdout=stdout.decode(), stderr=stderr.result().decode())


def _read_all(terminal: int) -> bytes:
    read = b""
    with os.fdopen(terminal, "rb", buffering=0) as stream, contextlib.suppress(OSError):  # EIO: the other end is closed
        while part := stream.read(1 << 16):
            read += part
    return read
