"""Runs every check of every case in processes of their own, so that a crash is the finding of one check."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle.conformance.case import Case
from hatch_tensoracle.conformance.checks import CHECKS, FAKE_DRIVER_CHECKS, LOADING

__all__ = ["Outcome", "walk"]

_TIMEOUT = 120.0  # seconds that the checks of one process may take
_LAST_LINES = 5
_AT_THE_END = "exit"  # the last check leaves a plugin alive


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one check of one case ended."""

    case: str
    check: str
    cause: str | None = None
    """What is wrong; None if nothing is."""
    remedy: str = ""


def walk(library: Path, cases: Sequence[Case], driver: str) -> Iterator[Outcome]:
    """Yield the outcome of every check. `driver` is the SM that the fake driver plays, such as `89`, or `real`."""
    checks = [check for check in CHECKS if driver != "real" or check not in FAKE_DRIVER_CHECKS]
    for case in cases:
        yield from _walk_case(library, case, driver, [LOADING, *checks])


def _walk_case(library: Path, case: Case, driver: str, rest: list[str]) -> Iterator[Outcome]:
    """Run the checks in one process; after one that ended it, those that are left in another."""
    while rest:
        results, ending = _run(library, case, driver, [check for check in rest if check != LOADING])
        for result in results:
            if result["check"] in rest:
                rest.remove(result["check"])
                yield Outcome(case=case.label, **result)
        if not ending:
            return
        failed = rest.pop(0) if rest else _AT_THE_END
        yield Outcome(case=case.label, check=failed, cause=ending)
        if failed == LOADING:
            return


def _run(library: Path, case: Case, driver: str, checks: Sequence[str]) -> tuple[list[dict[str, str]], str]:
    """The results as far as they were written; and how the process ended if not well, with what it printed last."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as results:
        description = json.dumps(dataclasses.asdict(case))
        command = [sys.executable, "-m", "hatch_tensoracle.conformance.child", str(library.resolve()), description]
        try:
            done = subprocess.run(  # noqa: S603 - ourselves
                [*command, driver, results.name, *checks],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_TIMEOUT,
                check=False,
            )
            ending = _ending(done.returncode, done.stdout)
        except subprocess.TimeoutExpired as error:
            ending = f"the process hung for {error.timeout:.0f} s"
        return [json.loads(line) for line in results], ending


def _ending(status: int, printed: str) -> str:
    if status == 0:
        return ""
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return "\n".join([f"the process {how}", *printed.splitlines()[-_LAST_LINES:]])
