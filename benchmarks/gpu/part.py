"""What the parts of the measurement share: their arguments, and a case at a time into a file of rows."""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from records import Row

from hatch_tensoracle import Bundle

__all__ = ["ROOT", "Case", "Setting", "run"]

ROOT = Path(__file__).resolve().parents[2]

Case = tuple[str, Callable[[], Row]]
"""A name, and what measures it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a part is told."""

    directory: Path
    """What tests/gpu/pack.py made."""
    is_quick: bool
    driver: str
    """libcuda.so.1, or the path of another."""
    fake_sm: int
    """The SM that a fake driver plays; 0 for a real one."""

    @property
    def example_library(self) -> Path:
        """The example's plugins."""
        return self.directory / "example" / "example_plugin" / "libexample_plugin.so"

    @property
    def launch_library(self) -> Path:
        """Those of plugins.cpp."""
        return self.directory / "launch" / "launch" / "liblaunch.so"

    def bundle(self, name: str) -> tuple[Bundle, Path]:
        """The bundle of `example` or `launch`, and its directory."""
        directory = self.directory / name / "bundle"
        manifest = directory / "bundle.json"
        return Bundle.parse(manifest.read_bytes(), str(manifest)), directory


def run(cases: Callable[[Setting], Iterable[Case]]) -> None:
    """Measure case after case until the time is up, each into a line of a file; one that fails does not stop others."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--driver", default="libcuda.so.1")
    parser.add_argument("--fake-sm", type=int, default=0)
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    setting = Setting(
        directory=options.directory, is_quick=options.quick, driver=options.driver, fake_sm=options.fake_sm
    )
    with options.rows.open("w", encoding="utf-8") as file:
        for name, measure in cases(setting):
            file.write(_row(name, measure, deadline).to_json() + "\n")
            file.flush()
            os.fsync(file.fileno())


def _row(name: str, measure: Callable[[], Row], deadline: float) -> Row:
    if time.monotonic() > deadline:
        return Row(case=name, failure="no time was left for it")
    try:
        return dataclasses.replace(measure(), case=name)
    except Exception as error:  # noqa: BLE001 - the row says what it was
        lines = str(error).strip().splitlines() or [""]
        return Row(case=name, failure=f"{type(error).__name__}: {lines[0][:300]}")
