"""What is looked at before the checks, in a process of its own: `survey LIBRARY LABEL CASES DRIVER RESULTS`.

Writes a line of JSON to the file RESULTS when the driver is there, another when the library is loaded, and one as each
case has been tried. A plugin that ends the process then is for the checks to find: they have processes of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle._decode import decode
from hatch_tensoracle.conformance.case import Case
from hatch_tensoracle.conformance.subject import Subject
from hatch_tensoracle.errors import TensoracleError
from hatch_tensoracle.testing import (
    Creator,
    Cuda,
    FakeDriver,
    FormatError,
    PluginContractError,
    PluginFailedError,
    PluginHarness,
    PluginTestError,
)
from hatch_tensoracle.testing.fields import fields_of

__all__ = ["Survey", "start"]

REAL = "real"
"""The driver of this machine."""
_REFUSING = frozenset({"createPlugin", "getOutputDataTypes", "getOutputShapes", "configurePlugin"})
"""The methods by which a plugin refuses fields and inputs. Where others fail, whatever the case, checks say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found."""

    no_driver: str = ""
    """Why the driver cannot be used."""
    not_loaded: str = ""
    """Why the library cannot be used."""
    problems: tuple[str, ...] = ()
    """What is wrong with cases: a plugin that the library has not, fields or inputs that the plugin does not take."""
    unnamed: tuple[str, ...] = ()
    """Plugins that no case names."""


def start(driver: str) -> Cuda:
    """Make the driver this process's, with a current context. Raises PluginTestError if there is none."""
    cuda = FakeDriver([driver]) if driver != REAL else Cuda()
    cuda.create_context()
    return cuda


def main(library: str, label: str, cases: str, driver: str, results: str) -> None:
    """Look."""
    with Path(results).open("a", encoding="utf-8", buffering=1) as file:
        try:
            cuda = start(driver)
        except PluginTestError as error:
            file.write(json.dumps({"no_driver": str(error)}) + "\n")
            return
        file.write("{}\n")
        try:
            harness = PluginHarness(library, label=label)
        except TensoracleError as error:
            file.write(json.dumps({"not_loaded": str(error)}) + "\n")
            return
        known = [decode(Case, case) for case in json.loads(cases)]
        problems = list(_problems(harness, known))
        file.write(json.dumps({"problems": problems, "unnamed": _unnamed(harness.creators, known)}) + "\n")
        tried = _refused(harness, () if problems else known, cuda)
        file.writelines(json.dumps({"problems": problems + refused}) + "\n" for refused in tried)


def _problems(harness: PluginHarness, cases: Sequence[Case]) -> Iterator[str]:
    for i, case in enumerate(cases):
        try:
            creator = harness.creator(case.plugin, version=case.version, namespace=case.namespace)
            fields_of(case.fields, creator.fields)
        except (LookupError, TypeError, ValueError) as error:
            yield f"cases[{i}]: {error.args[0]}"


def _refused(harness: PluginHarness, cases: Sequence[Case], cuda: Cuda) -> Iterator[list[str]]:
    """As each case has been tried, those that have been refused."""
    refused: list[str] = []
    with harness:
        for i, case in enumerate(cases):
            try:
                Subject(case, harness, cuda).build()
            except (PluginFailedError, FormatError) as error:
                if isinstance(error, FormatError) or error.method in _REFUSING:
                    refused.append(f"cases[{i}]: {error}")
            except PluginContractError:
                pass  # which a check finds
            yield refused


def _unnamed(creators: Sequence[Creator], cases: Sequence[Case]) -> list[str]:
    def is_named(creator: Creator) -> bool:
        return any(
            (case.plugin, case.namespace) == (creator.name, creator.namespace)
            and case.version in {None, creator.version}
            for case in cases
        )

    return [creator.name for creator in creators if not is_named(creator)]


if __name__ == "__main__":
    main(*sys.argv[1:])
