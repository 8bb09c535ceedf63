"""Native parts are compiled once for each compiler, flags and sources, and never found half written."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.waiting import wait_until

from hatch_tensoracle.errors import BuildError
from hatch_tensoracle.testing import native

STUB = """#!/bin/sh
if [ "$1" = --version ]; then echo "stub $STUB_VERSION"; exit; fi
echo started >> "$STUB_LOG"
sleep 0.2
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then printf made > "$2"; fi; shift; done
"""


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that only writes what it is told to, and a line of this file for each time that it does."""
    compiler, log = tmp_path / "stub", tmp_path / "log"
    compiler.write_text(STUB)
    compiler.chmod(0o755)
    log.touch()
    for name, value in {
        "CXX": str(compiler),
        "STUB_LOG": str(log),
        "STUB_VERSION": "1",
        "TENSORACLE_CACHE_DIR": str(tmp_path / "cache"),
        native.FLAGS_VARIABLE: "",
    }.items():
        monkeypatch.setenv(name, value)
    return log


def count(log: Path) -> int:
    return len(log.read_text().splitlines())


def test_library_is_compiled_once(compilations: Path) -> None:
    assert native.build(native.HARNESS) == native.build(native.HARNESS)
    assert native.build(native.HARNESS).read_text() == "made"
    assert count(compilations) == 1


@pytest.mark.parametrize("variable", [native.FLAGS_VARIABLE, "STUB_VERSION"])
def test_other_flags_or_another_version_make_another_library(
    compilations: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    before = native.build(native.HARNESS)
    monkeypatch.setenv(variable, "-DX='a b'")
    assert native.build(native.HARNESS) != before
    assert count(compilations) == 2


def test_changed_source_makes_another_library(
    compilations: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = tmp_path / "cpp" / "testing"
    directory.mkdir(parents=True)
    monkeypatch.setattr(native, "cpp", lambda: tmp_path / "cpp")
    library = native.NativeLibrary(file="libx.so", directory="testing")
    (directory / "x.cpp").write_text("one")
    before = native.build(library)
    (directory / "x.cpp").write_text("two")
    assert native.build(library) != before
    assert count(compilations) == 2


def test_processes_at_once_compile_one_library(compilations: Path) -> None:
    code = "from hatch_tensoracle.testing import native; print(native.build(native.HARNESS).read_text())"

    def start(_: int) -> str:
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(start, range(4))) == ["made\n"] * 4
    assert count(compilations) == 1


def test_killed_compilation_leaves_nothing_that_is_used(compilations: Path) -> None:
    code = "from hatch_tensoracle.testing import native; native.build(native.HARNESS)"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    wait_until(lambda: count(compilations), "the compiler's start")
    os.killpg(child.pid, 9)
    child.wait()
    assert native.build(native.HARNESS).read_text() == "made"
    assert count(compilations) == 2


def test_missing_compiler_is_named(compilations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(BuildError, match=r"no C\+\+ compiler: no-such-compiler of the variable CXX not on PATH"):
        native.build(native.HARNESS)
    assert count(compilations) == 0


def test_failed_compilation_shows_the_compilers_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(native.FLAGS_VARIABLE, "-no-such-option")
    with pytest.raises(BuildError, match="no-such-option"):
        native.build(native.HARNESS)
    assert not list(tmp_path.rglob("*.so"))
