"""Every breach of the contract is found by the check that is there for it, and by no other."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from conformance.defects import DEFECTS
from hatch_tensoracle.conformance import Outcome
from hatch_tensoracle.conformance.checks import CHECKS

Outcomes = Callable[[str], list[Outcome]]


def failed(outcomes: list[Outcome]) -> dict[str, str]:
    """Cause by check."""
    return {outcome.check: outcome.cause for outcome in outcomes if outcome.cause is not None}


def test_nothing_is_found_in_a_good_plugin(outcomes_of: Outcomes) -> None:
    assert failed(outcomes_of("Good")) == {}


@pytest.mark.parametrize("plugin", ["Good", *DEFECTS])
def test_every_check_has_one_outcome_whatever_others_find(outcomes_of: Outcomes, plugin: str) -> None:
    assert sorted(outcome.check for outcome in outcomes_of(plugin)) == sorted(CHECKS)


@pytest.mark.parametrize("plugin", DEFECTS)
def test_a_defect_is_found_by_the_checks_that_are_there_for_it(outcomes_of: Outcomes, plugin: str) -> None:
    found = failed(outcomes_of(plugin))
    assert set(found) == set(DEFECTS[plugin].checks), found
    assert re.search(DEFECTS[plugin].cause, found[DEFECTS[plugin].checks[0]], re.DOTALL), found


def test_every_check_finds_something() -> None:
    assert {check for defect in DEFECTS.values() for check in defect.checks} == set(CHECKS)
