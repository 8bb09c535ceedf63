"""The process that checks run in: `child LIBRARY CASE DRIVER RESULTS CHECK...`.

Writes a line of JSON to the file RESULTS as each check ends, so that what a crash leaves open is known.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hatch_tensoracle._decode import decode
from hatch_tensoracle.conformance.case import Case
from hatch_tensoracle.conformance.checks import CHECKS
from hatch_tensoracle.conformance.subject import Subject
from hatch_tensoracle.conformance.survey import start
from hatch_tensoracle.errors import TensoracleError
from hatch_tensoracle.testing import PluginHarness

__all__: list[str] = []


def main(library: str, case: str, driver: str, results: str, *checks: str) -> None:
    """Run the checks one after the other. What they create stays alive: how the process then ends is a check, too."""
    cuda = start(driver)
    harness = PluginHarness(library)
    subject = Subject(decode(Case, json.loads(case)), harness, cuda)
    with Path(results).open("a", encoding="utf-8", buffering=1) as file:
        for check in checks:
            result = {"check": check}
            subject.forget()
            try:
                CHECKS[check](subject)
            except TensoracleError as error:
                result |= {"cause": str(error), "remedy": error.remedy}
            file.write(json.dumps(result) + "\n")
    left_alive.append(harness)


left_alive: list[PluginHarness] = []
"""What the interpreter finds at its exit."""

if __name__ == "__main__":
    main(*sys.argv[1:])
