"""A loaded library gets another name, in memory only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tools import run, tool

from hatch_tensoracle.runtime.soname import alias_library

USE = """
import ctypes, json, sys
from hatch_tensoracle.runtime.soname import add_soname
library = sys.argv[1]
ctypes.CDLL(library)
try:
    ctypes.CDLL("libalias.so")
except OSError:
    before = False
add_soname("libalias.so", "libreal.so.1")
print(json.dumps([before, ctypes.CDLL("libalias.so").answer()]))
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library that is called libreal.so.1 inside, and otherwise on disk."""
    (tmp_path / "x.c").write_text("int answer(void) { return 42; }")
    file = tmp_path / "some_file"
    run(tool("gcc"), "-shared", "-fPIC", "-Wl,-soname,libreal.so.1", "-o", file, tmp_path / "x.c")
    return file


def test_the_loaded_library_answers_to_the_new_name(library: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    done = subprocess.run([sys.executable, "-c", USE, library], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [False, 42]
    assert sorted(tmp_path.iterdir()) == before


def test_a_name_for_a_library_that_is_not_loaded_is_an_error() -> None:
    code = "from hatch_tensoracle.runtime.soname import add_soname; add_soname('libalias.so', 'libabsent.so.1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "OSError: libabsent.so.1: cannot open shared object file" in done.stderr


@pytest.mark.parametrize("length", range(1, 9))
def test_binutils_find_no_fault_with_the_image(tmp_path: Path, length: int) -> None:
    """For names of any length: what follows them is aligned."""
    name, file = "l" * length, tmp_path / "library"
    file.write_bytes(alias_library(name, "libreal.so.1"))
    done = subprocess.run(["readelf", "-W", "-a", file], capture_output=True, text=True, check=True)  # noqa: S607
    assert done.stderr == ""
    assert f"Library soname: [{name}]" in done.stdout
    assert "Shared library: [libreal.so.1]" in done.stdout
