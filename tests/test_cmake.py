"""What a build directory that is kept is good for, and what it is begun anew for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from hatch_tensoracle.cmake import _COMPILED, _forget_other_build, build_library
from hatch_tensoracle.errors import BuildError

SOURCE = """
#include "number.inc"
[[gnu::used]] static char const kNUMBER[] = "the number is " NUMBER;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A source with a header, and a build directory."""

    bundle: Path
    root: Path

    @property
    def header(self) -> Path:
        """Which defines a number that the library has."""
        return self.root / "source/number.inc"

    @property
    def library(self) -> Path:
        """What is built."""
        return self.root / "libnumbers.so"

    def write(self, number: int, date: int | None = None) -> None:
        """Put the number into the header, with a date of modification, in seconds since 1970."""
        self.header.write_text(f'#define NUMBER "{number}"\n')
        if date is not None:
            os.utime(self.header, (date, date))

    def build(self, *arguments: str) -> str:
        """Build what has changed; give what was printed."""
        printed: list[str] = []
        sources = [self.root / "source/plugin.cpp"]
        kept = self.root / "kept"
        build_library(self.bundle, sources, self.library, arguments=arguments, kept=kept, show=printed.append)
        return "\n".join(printed)

    def number(self) -> int:
        """The one in the library."""
        (number,) = re.findall(rb"the number is (\d+)", self.library.read_bytes())
        return int(number)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Path) -> Kept:
    """Built once."""
    root = tmp_path_factory.mktemp("kept")
    (root / "source").mkdir()
    (root / "source/plugin.cpp").write_text(SOURCE)
    kept = Kept(bundle=tiny_bundle, root=root)
    kept.write(1, 1_000_000_000)
    assert "Configuring done" in kept.build()
    return kept


@pytest.fixture
def kept(begun: Kept) -> Kept:
    """Built as it is, whatever another test has changed."""
    begun.build()
    return begun


def compiled(printed: str) -> set[str]:
    """Names of the files that were compiled."""
    return {Path(word).name for line in printed.splitlines() if " -c " in line for word in line.split()[-1:]}


def test_nothing_is_compiled_again_where_nothing_has_changed(kept: Kept) -> None:
    assert "no work to do" in kept.build()


def test_a_changed_header_has_its_sources_compiled(kept: Kept) -> None:
    """A process that has loaded the library keeps the one that it has."""
    with kept.library.open("rb") as loaded:
        before = kept.library.read_bytes()
        kept.write(2)
        assert compiled(kept.build()) == {"plugin.cpp"}
        assert kept.number() == 2
        assert loaded.read() == before


def test_a_build_that_failed_is_gone_on_with(kept: Kept) -> None:
    kept.header.write_text("#error not yet\n")
    with pytest.raises(BuildError, match="not yet"):
        kept.build()
    kept.write(2)
    assert compiled(kept.build()) == {"plugin.cpp"}


def test_a_build_that_was_killed_is_begun_anew(kept: Kept) -> None:
    """Nobody has written down what its objects were compiled from."""
    (kept.root / "kept/build" / _COMPILED).unlink()
    assert {"plugin.cpp", "bundle.cpp"} < compiled(kept.build())


@pytest.mark.parametrize(("number", "date"), [(3, 1_000_000_000), (4, 1_000_000_000)], ids=["older", "as old"])
def test_a_header_that_was_replaced_by_one_that_is_no_newer_is_seen(kept: Kept, number: int, date: int) -> None:
    kept.write(number, date)
    kept.build()
    assert kept.number() == number
    assert "no work to do" in kept.build()


def test_a_build_is_begun_anew_for_another_file_that_an_argument_names(kept: Kept) -> None:
    initial = kept.root / "initial.cmake"
    for number in (5, 6):
        initial.write_text(f'set(CMAKE_CXX_FLAGS "-DREVISION={number}" CACHE STRING "")\n')
        assert f"-DREVISION={number}" in kept.build("-C", str(initial))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of builds without a file that was compiled."""
    return tmp_path_factory.mktemp("build")


def is_kept(directory: Path) -> bool:
    """Whether another build goes on with what is there."""
    mark = directory / "mark"
    mark.touch()
    _forget_other_build(directory, ["-DCMAKE_BUILD_TYPE=Release"])
    (directory / _COMPILED).write_text("{}")
    return mark.exists()


@pytest.mark.parametrize(
    "variable", ["CXXFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CMAKE_TOOLCHAIN_FILE"]
)
def test_a_build_is_begun_anew_for_another_value_of_a_variable(
    directory: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    is_kept(directory)
    assert is_kept(directory)
    monkeypatch.setenv(variable, "/opt/other")
    assert not is_kept(directory)


def test_a_build_is_begun_anew_for_another_compiler_of_the_same_name(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c++").write_text("#!/bin/sh\necho c++ 1.0\n")
    (tmp_path / "c++").chmod(0o755)
    is_kept(directory)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert not is_kept(directory)
    assert is_kept(directory)
    (tmp_path / "c++").write_text("#!/bin/sh\necho c++ 2.0\n")
    assert not is_kept(directory)


@pytest.mark.parametrize(
    ("argument", "cause", "remedy"),
    [
        ("-Dx", "Parse error in command line argument: x", "Mend what the first error names; the option"),
        ("-DCMAKE_TOOLCHAIN_FILE=/absent", "Could not find toolchain file", "Mend what the first error names"),
        ("-DTENSORRT_INCLUDE_DIR=/absent", "/absent has no NvInferRuntime.h", "Mend what the first error names"),
        ("-DCMAKE_CXX_COMPILER=/absent", "not a full path to an existing compiler tool", "Install a C++17 compiler"),
        ("-DCMAKE_CXX_FLAGS=-absent", "unrecognized command-line option", "look at the flags that it is given"),
    ],
    ids=["argument", "toolchain", "headers", "compiler", "flags"],
)
def test_a_configure_step_that_fails_has_a_remedy_of_its_own(
    tiny_bundle: Path, tmp_path: Path, argument: str, cause: str, remedy: str
) -> None:
    (tmp_path / "plugin.cpp").touch()
    with pytest.raises(BuildError, match=re.escape(cause)) as caught:
        build_library(tiny_bundle, [tmp_path / "plugin.cpp"], tmp_path / "liba.so", arguments=[argument])
    assert remedy in caught.value.remedy
    assert ("C++17 compiler" in caught.value.remedy) == (argument.startswith("-DCMAKE_CXX"))
