"""A short run of the fuzzer, the same inputs every time; `python tests/fuzz/fuzz.py` is the long one.

Hypothesis takes constants from modules that are loaded: in a process of their own they are always the same.
"""

from __future__ import annotations

import pytest
from fuzz.fuzz import READERS, fuzz
from testing.child import in_child


@pytest.mark.parametrize("reader", READERS)
@in_child
def test_damaged_artifacts_give_defects_and_reports(reader: str) -> None:
    outcomes = fuzz(reader, 200)
    assert sum(outcomes.values()) >= 200
    assert len(outcomes) > 1, "damage that is all of one kind finds nothing"
