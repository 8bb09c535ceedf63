"""A part of these tests that reaches every source runs clean with the native side instrumented.

All of them: `TENSORACLE_TEST_SANITIZER=address python -m pytest tests/launcher`, or `=thread`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.libraries import COVERAGE, SANITIZER

HERE = Path(__file__).parent

CHOSEN = {
    "address": (
        "test_packing.py::test_every_type_is_passed_bit_for_bit",
        "test_packing.py::test_what_would_be_lost_is_refused_with_argument_value_and_reason",
        "test_fields.py::test_values_come_back_whatever_the_order_they_were_given_in",
        "test_fields.py::test_fields_that_do_not_fit_are_refused_by_name",
        "test_plugin_base.py::test_clones_are_independent",
        "test_contexts.py::test_memory_is_freed_in_its_own_context",
        "test_processes.py::test_process_ends_well_however_plugins_end",
    ),
    "thread": (
        "test_contexts.py::test_threads_may_prepare_and_launch_at_once",
        "test_contexts.py::test_one_creator_serves_every_thread",
        "test_capture.py::test_plugin_is_prepared_on_a_thread_while_another_captures",
    ),
}


@pytest.mark.skipif(bool(SANITIZER) or COVERAGE, reason="the tests are instrumented already")
@pytest.mark.parametrize("sanitizer", CHOSEN)
def test_chosen_tests_are_clean(sanitizer: str, bundle: Path) -> None:
    environment = {**os.environ, "TENSORACLE_TEST_SANITIZER": sanitizer, "TENSORACLE_TEST_BUNDLE": str(bundle)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(str(HERE / name) for name in CHOSEN[sanitizer]),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
