"""The hook's options, in one project that is built again and again in a build directory that is kept."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock
from helpers.projects import Outcome, contents, copied, edit, hatchling_build
from helpers.tools import PTXAS_13

from hatch_tensoracle import inspect_wheel
from hatch_tensoracle.inspection import check_wheel

OPTIONS = """targets = ["sm86"]
ptx = "sm80"
ship-cubins = true
include-directories = ["../common"]
compile-definitions = ["COUNT=2", 'GREETING="two words"']
cmake-arguments = ["-DCMAKE_CXX_FLAGS=-DFROM_CMAKE=3"]
platform-tag = "auto"
jobs = 1
verbose = true
build-directory = "build"
"""
CPP = """
#include <common.hpp>
static_assert(COUNT == 2 && sizeof GREETING == 10 && FROM_CMAKE == 3);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A package in a repository of several, and what its first build printed and made."""

    root: Path
    wheel: Path
    printed: str

    def build(self, to: Path, target: str = "wheel", **variables: str) -> Outcome:
        """Build it again: of C++ only what has changed is compiled."""
        return hatchling_build(self.root, to, target, variables=variables)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project `flat` with nearly all options, and a header beside it."""
    repository = tmp_path_factory.mktemp("repository")
    root = copied("flat", repository / "packages" / "flat")
    (repository / "packages/common").mkdir()
    header = '[[gnu::used]] static char const kCOMMON[] = "common of " __FILE__;\n'
    (repository / "packages/common/common.hpp").write_text(header)
    (repository / "packages/common/common.cpp").write_text("#include <common.hpp>\n")
    edit(root / "pyproject.toml", '["negate.cpp"]', '["negate.cpp", "../common/common.cpp"]')
    edit(root / "pyproject.toml", 'targets = ["sm86"]\n', OPTIONS)
    with (root / "negate.cpp").open("a") as file:
        file.write(CPP)
    outcome = hatchling_build(root, repository / "dist")
    return Project(root=root, wheel=outcome.artifact, printed=outcome.stderr)


def compiled(outcome: Outcome) -> set[str]:
    """Names of the C++ files that a build compiled."""
    assert outcome.status == 0, outcome.stderr
    return set(re.findall(r"-c \S*?(\w+\.c\w+)$", outcome.stderr, re.MULTILINE))


def test_verbose_shows_commands_and_what_they_print(project: Project) -> None:
    assert re.search(
        r"^tensoracle: \S+/cmake -G Ninja .*-DCMAKE_CXX_FLAGS=-DFROM_CMAKE=3", project.printed, re.MULTILINE
    )
    assert re.search(r"^tensoracle: \[\d/7\] \S+ .*-c \S+/negate\.cpp$", project.printed, re.MULTILINE)


def test_jobs_reaches_cmake(project: Project) -> None:
    assert re.search(r"cmake --build \S+ --parallel 1 --verbose$", project.printed, re.MULTILINE)


def test_files_outside_the_project_are_found_and_their_place_is_not_told(project: Project) -> None:
    library = contents(project.wheel)["flat/libflat.so"]
    assert library.count(b"common of ./include_0/common.hpp\0") == 2
    assert b"./sources/flat/negate.cpp on " in library
    assert str(project.root.parent).encode() not in library


def test_cubins_and_ptx_are_shipped_and_inspected(project: Project) -> None:
    files = {name for name in contents(project.wheel) if ".bundle/" in name}
    assert files == {"flat/libflat.bundle/cubins/negate.0.0.sm86.cubin", "flat/libflat.bundle/ptx/negate.0.0.sm80.ptx"}
    assert list(check_wheel(project.wheel)) == []


def test_the_automatic_tag_is_the_one_that_auditwheel_finds(project: Project) -> None:
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(project.wheel)]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert project.wheel.name == f"flat-1.0-py3-none-{shown['overall_tag']}.whl"
    assert "manylinux_2_" in project.wheel.name


def test_another_build_of_the_tree_compiles_what_comes_of_the_bundle_alone(project: Project, tmp_path: Path) -> None:
    outcome = project.build(tmp_path)
    assert compiled(outcome) == {"bundle.cpp", "cubins_000.cpp"}
    assert outcome.artifact.read_bytes() == project.wheel.read_bytes()


def test_a_build_directory_has_no_links_into_the_tree(project: Project) -> None:
    """Whoever follows links, as hatchling does for an sdist, would walk in a circle."""
    assert [path for path in (project.root / "build").rglob("*") if path.is_symlink()] == []


def test_a_source_that_changed_is_compiled_again(project: Project, tmp_path: Path) -> None:
    (project.root / "negate.cpp").touch()
    assert compiled(project.build(tmp_path)) == {"negate.cpp", "bundle.cpp", "cubins_000.cpp"}


TIMING_CACHE_ID = """
import sys
from hatch_tensoracle.testing import PluginHarness, Tensor
print(PluginHarness(sys.argv[1]).create("Negate", {}).build([Tensor("fp32", (8,))]).timing_cache_id)
"""


def timing_cache_id(wheel: Path, directory: Path) -> str:
    """What the plugin answers TensorRT."""
    (directory / "libflat.so").write_bytes(contents(wheel)["flat/libflat.so"])
    command = [sys.executable, "-c", TIMING_CACHE_ID, str(directory / "libflat.so")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_timings_are_not_shared_with_a_library_of_other_host_code(project: Project, tmp_path: Path) -> None:
    """Kernels and sources are the same; a header is not."""
    header = project.root.parent / "common/common.hpp"
    edit(header, "common of", "other text of")
    other = project.build(tmp_path / "other").artifact
    edit(header, "other text of", "common of")
    same = project.build(tmp_path / "same").artifact
    assert same.read_bytes() == project.wheel.read_bytes()
    assert [*inspect_wheel(other).values()] == [*inspect_wheel(same).values()]
    assert timing_cache_id(other, tmp_path) != timing_cache_id(same, tmp_path)


def test_the_assembler_of_a_variable_is_named_in_the_manifest(project: Project, tmp_path: Path) -> None:
    outcome = project.build(tmp_path, TENSORACLE_PTXAS=str(PTXAS_13), TENSORACLE_PTX="sm75")
    (bundle,) = inspect_wheel(outcome.artifact).values()
    assert bundle.tools["ptxas"].startswith("13.")
    assert bundle.ptx_target == "sm75"


def test_what_is_no_assembler_is_refused(project: Project, tmp_path: Path) -> None:
    cause, remedy = project.build(tmp_path, TENSORACLE_PTXAS=sys.executable).errors
    assert cause.startswith(f"tensoracle: {sys.executable} is no ptxas of CUDA 12, 13: it says 'Python 3")
    assert remedy == "Name another ptxas."


def test_a_tag_that_the_library_does_not_fit_is_refused_with_the_versions(project: Project, tmp_path: Path) -> None:
    cause, remedy = project.build(tmp_path, TENSORACLE_PLATFORM_TAG="manylinux_2_5", TENSORACLE_VERBOSE="0").errors
    assert re.fullmatch(
        r"tensoracle: Option `platform-tag` for build hook `tensoracle` is 'manylinux_2_5', but flat/libflat\.so needs"
        r" (CXXABI|GLIBCXX|GLIBC)_\S+(, \w+_[\d.]+)*",
        cause,
    )
    assert remedy == (
        "Build where the system is as old, such as in the image of that manylinux, or use the tag `auto`."
    )


def test_a_tag_that_the_library_fits_is_taken(project: Project, tmp_path: Path) -> None:
    tag = project.wheel.name.split("-")[-1].removesuffix("_x86_64.whl")
    outcome = project.build(tmp_path, TENSORACLE_PLATFORM_TAG=f"manylinux_2_{int(tag.split('_')[-1]) + 1}")
    assert list(check_wheel(outcome.artifact)) == []


def test_builds_in_one_directory_wait_for_each_other(project: Project, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    with FileLock(project.root / "build/tensoracle/.lock"):
        process = subprocess.Popen(command, cwd=project.root, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert any(line.startswith("tensoracle: waiting for another build in ") for line in process.stderr)
        assert list(tmp_path.iterdir()) == []
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert (tmp_path / project.wheel.name).read_bytes() == project.wheel.read_bytes()


def test_an_editable_install_has_the_files_in_the_tree_until_they_are_cleaned(project: Project, tmp_path: Path) -> None:
    package = project.root / "flat"
    project.build(tmp_path, "wheel:editable")
    shipped = contents(project.wheel)
    placed = {str(file.relative_to(project.root)): file.read_bytes() for file in package.rglob("*") if file.is_file()}
    assert placed == {name: data for name, data in shipped.items() if name.startswith("flat/")}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel:editable", "--clean-only"]
    kept = shutil.move(project.root / "build/tensoracle", tmp_path / "kept")  # it would go too
    for name in ("build/tensoracle", "build/other"):
        (project.root / name).mkdir()
    subprocess.run(command, cwd=project.root, check=True)
    assert [file.name for file in package.iterdir()] == ["__init__.py"]
    assert [file.name for file in (project.root / "build").iterdir()] == ["other"]
    shutil.move(kept, project.root / "build/tensoracle")


def test_an_editable_install_says_what_it_cannot_write(project: Project, tmp_path: Path) -> None:
    place = project.root / "flat/libflat.so"
    place.mkdir()
    outcome = project.build(tmp_path, "wheel:editable", TENSORACLE_VERBOSE="0")
    place.rmdir()
    assert outcome.errors == [
        f"tensoracle: {place} cannot be written: Is a directory",
        "An editable install needs its library in the tree. Make that writable, or install a wheel.",
    ]


@pytest.fixture
def renamed(project: Project) -> Iterator[Path]:
    """A library in the tree that was built under another name."""
    names = {"libflat.so": "libold.so", "libflat.bundle.json": "libold.bundle.json"}
    for name, other in names.items():
        (project.root / "flat" / other).write_bytes(contents(project.wheel)[f"flat/{name}"])
    yield project.root / "flat/libold.so"
    for other in names.values():
        (project.root / "flat" / other).unlink()


@pytest.mark.usefixtures("renamed")
def test_a_library_of_an_earlier_name_is_not_shipped(project: Project, tmp_path: Path) -> None:
    cause, remedy = project.build(tmp_path, TENSORACLE_VERBOSE="0").errors[-2:]
    assert cause.endswith("holds flat/libold.so, which this build did not make")
    assert remedy == "Remove it from the tree, where an earlier build put it, or exclude it from the wheel."


def test_a_tree_that_moved_with_its_build_directory_is_built_anew(project: Project, tmp_path: Path) -> None:
    """The headers of the copy differ, and are older than what was built of the others."""
    packages = shutil.copytree(project.root.parent, tmp_path / "packages")
    header = packages / "common/common.hpp"
    edit(header, "common of", "moved from")
    os.utime(header, (0, 0))
    outcome = hatchling_build(packages / "flat", tmp_path / "dist")
    assert compiled(outcome) >= {"negate.cpp", "bundle.cpp", "unity_0_cxx.cxx"}
    assert b"moved from ./include_0/common.hpp\0" in contents(outcome.artifact)["flat/libflat.so"]


def test_a_build_directory_where_cmake_cannot_work_is_refused(project: Project, tmp_path: Path) -> None:
    place = tmp_path / "a;b"
    cause, remedy = project.build(tmp_path / "dist", TENSORACLE_BUILD_DIRECTORY=str(place)).errors
    assert cause == (
        f"tensoracle: Option `build-directory` for build hook `tensoracle` leads to {place}/tensoracle: CMake"
        " cannot work below a directory with ; in its name"
    )
    assert remedy == "Name another directory, such as one below /tmp."


def test_the_command_line_builds_with_the_options_too(project: Project, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatch_tensoracle", "build", str(project.root), "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (tmp_path / "flat/libflat.so").read_bytes() == contents(project.wheel)["flat/libflat.so"]
    assert "-c " in done.stderr
