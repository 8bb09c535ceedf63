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
from typing import Any

from hatch_tensoracle._decode import decode
from hatch_tensoracle.conformance.case import Case
from hatch_tensoracle.conformance.checks import CHECKS, FAKE_DRIVER_CHECKS
from hatch_tensoracle.conformance.survey import REAL, Survey
from hatch_tensoracle.errors import ConfigurationError

__all__ = ["LIBRARY_CHECKS", "TIMEOUT", "Outcome", "walk"]

LIBRARY_CHECKS = {
    "load": "The library is loaded, and has creators.",
    "cases": "Every plugin of the library has a case.",
}
"""What comes before all cases, as outcomes of the library."""
TIMEOUT = 120.0
"""Seconds that the checks of one process may take."""
_LAST_LINES = 5
_AT_THE_END = "exit"  # the last check: it leaves plugins alive, and has passed when the process has ended well


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one check of one case ended."""

    case: str
    """Or the library, or a plugin that no case names."""
    check: str
    cause: str | None = None
    """What is wrong; None if nothing is."""
    remedy: str = ""
    skipped: str = ""
    """Why the check was not made; empty if it was."""


def walk(
    library: Path, cases: Sequence[Case], driver: str, *, timeout: float = TIMEOUT, label: str = ""
) -> Iterator[Outcome]:
    """Yield the outcome of every check. `driver` is the SM that the fake driver plays, such as `sm89`, or `real`.

    Messages call the library `label`, or by its path.
    Raises ConfigurationError if there is no such driver, or if a case does not fit the library.
    """
    survey = _survey(library, label or str(library), cases, driver, timeout)
    if survey.not_loaded:
        yield Outcome(case=library.name, check="load", cause=survey.not_loaded)
        return
    yield Outcome(case=library.name, check="load")
    for plugin in survey.unnamed:
        yield Outcome(case=plugin, check="cases", skipped="no case names it: nothing of it is checked")
    for case in cases:
        yield from _walk_case(library, case, driver, timeout)


def _survey(library: Path, label: str, cases: Sequence[Case], driver: str, timeout: float) -> Survey:
    described = json.dumps([dataclasses.asdict(case) for case in cases])
    results, ending = _run("survey", [library.resolve(), label, described, driver], [], timeout)
    survey = decode(Survey, {key: value for result in results for key, value in result.items()})
    if survey.no_driver or not results:
        what = "no GPU can be used" if driver == REAL else f"the fake driver cannot be `{driver}`"
        raise ConfigurationError(f"{what}: {survey.no_driver or ending}")
    if survey.problems:
        remedy = "Mend the cases, or the plugin that must accept them; docs/testing.md shows their form."
        raise ConfigurationError("\n".join(survey.problems), remedy=remedy)
    started_only = results == [{}]
    return dataclasses.replace(survey, not_loaded=ending) if started_only else survey


def _walk_case(library: Path, case: Case, driver: str, timeout: float) -> Iterator[Outcome]:
    """Run the checks in one process; after one that ended it, those that are left in another."""
    rest = [check for check in CHECKS if driver != REAL or check not in FAKE_DRIVER_CHECKS]
    for check in CHECKS:
        if check not in rest:
            yield Outcome(case=case.label, check=check, skipped="only the fake driver can do that")
    while rest:
        described = json.dumps(dataclasses.asdict(case))
        results, ending = _run("child", [library.resolve(), described, driver], rest, timeout)
        for result in results:
            if result["check"] == _AT_THE_END and ending and not result.get("cause"):
                continue
            rest.remove(result["check"])
            yield Outcome(case=case.label, **result)
        if ending and rest:
            yield Outcome(case=case.label, check=rest.pop(0), cause=ending)


def _run(
    what: str, arguments: Sequence[str | Path], checks: Sequence[str], timeout: float
) -> tuple[list[dict[str, Any]], str]:
    """The results as far as they were written; and how the process ended if not well, with what it printed last."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as results:
        command = [sys.executable, "-m", f"hatch_tensoracle.conformance.{what}", *map(str, arguments)]
        try:
            done = subprocess.run(  # noqa: S603 - ourselves
                [*command, results.name, *checks],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
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
