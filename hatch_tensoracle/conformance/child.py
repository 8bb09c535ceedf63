"""The process that checks run in: `child LIBRARY CASE DRIVER RESULTS CHECK...`.

Writes a line of JSON to the file RESULTS when the library is loaded and as each check ends, so that what a crash leaves
open is known.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hatch_tensoracle._decode import decode
from hatch_tensoracle.conformance.case import Case
from hatch_tensoracle.conformance.checks import CHECKS, LOADING, Subject
from hatch_tensoracle.errors import TensoracleError
from hatch_tensoracle.testing import Cuda, FakeDriver, PluginHarness

__all__: list[str] = []


def main(library: str, case: str, driver: str, results: str, *checks: str) -> None:
    """Run the checks one after the other."""
    cuda = FakeDriver([int(driver)]) if driver != "real" else Cuda()
    cuda.create_context()
    with PluginHarness(library) as harness, Path(results).open("a", encoding="utf-8", buffering=1) as file:
        subject = Subject(decode(Case, json.loads(case)), harness, cuda)
        file.write(json.dumps({"check": LOADING}) + "\n")
        for check in checks:
            result = {"check": check}
            try:
                CHECKS[check](subject)
            except TensoracleError as error:
                result |= {"cause": str(error), "remedy": error.remedy}
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
