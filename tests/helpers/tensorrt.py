"""Real TensorRT, one process at a time, by the script beside this file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["LEAN", "RTX", "Message", "Result", "run_tensorrt"]

RTX = "tensorrt_rtx"
LEAN = "tensorrt_lean_bindings"

Message = tuple[str, str, str]
"""Whose logger, severity, text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the process reported; of things that were not asked for, nothing."""

    loaded: Mapping[str, Sequence[bool]]
    """For each runtime, whether each library was loaded."""
    creators: Mapping[str, Sequence[Mapping[str, Any]]]
    created: Sequence[tuple[bool, Sequence[Message]]]
    """Whether each plugin was made, and what was logged meanwhile."""
    log: Sequence[Message]
    stderr: str
    parsed: bool = False
    outputs: Mapping[str, tuple[str, Sequence[int]]]
    plan_bytes: int | None = None

    def messages(self, *severities: str) -> list[str]:
        """The texts of these severities, whoever's logger they came to."""
        return [text for _, severity, text in self.log if severity in severities]


def run_tensorrt(
    *runtimes: str,
    libraries: Sequence[Path],
    create: Sequence[Mapping[str, Any]] = (),
    build: Mapping[str, Any] | None = None,
) -> Result:
    """Load the libraries, make plugins and build an engine, as `tensorrt_driver.py` describes them."""
    wanted = {"runtimes": runtimes, "libraries": [str(library) for library in libraries], "create": create}
    driver = Path(__file__).with_name("tensorrt_driver.py")
    command = [sys.executable, str(driver), json.dumps(wanted | ({"build": build} if build else {}))]
    with tempfile.TemporaryDirectory() as directory:
        # The ONNX parser loads the library under a name that the wheel does not have.
        spec = find_spec("tensorrt_rtx_libs")
        assert spec is not None
        assert spec.origin is not None
        (library,) = Path(spec.origin).parent.glob("libtensorrt_rtx.so.1*")
        (Path(directory) / "libtensorrt_rtx.so").symlink_to(library)
        environment = os.environ | {"LD_LIBRARY_PATH": directory}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stderr[-2000:]}"
    report = json.loads(done.stdout.splitlines()[-1])
    return Result(
        loaded=report["loaded"],
        creators=report["creators"],
        created=[(item["made"], [tuple(message) for message in item["log"]]) for item in report["created"]],
        log=[tuple(message) for message in report["log"]],
        stderr=done.stderr,
        parsed=report.get("parsed", False),
        outputs={name: (type_, shape) for name, (type_, shape) in report.get("outputs", {}).items()},
        plan_bytes=report.get("plan_bytes"),
    )
