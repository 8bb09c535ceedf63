"""Runs tests in processes of their own: a process has one driver, with one set of devices, for its life."""

from __future__ import annotations

import base64
import functools
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import pytest

__all__ = ["in_child"]

P = ParamSpec("P")

_CODE = """
import base64, importlib, pickle, sys
sys.path.insert(0, sys.argv[1])
test = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])
test.__wrapped__(**pickle.loads(base64.b64decode(sys.argv[4])))
"""


def in_child(test: Callable[P, None]) -> Callable[P, None]:
    """Let a test run in a fresh Python. Its fixtures' values are pickled."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        assert not args
        given = base64.b64encode(pickle.dumps(kwargs)).decode()
        tests = str(Path(__file__).resolve().parent.parent)
        command = [sys.executable, "-X", "faulthandler", "-c", _CODE, tests, test.__module__, test.__name__, given]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.fail(f"status {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)

    return run
