"""Builds the plugin library around the launcher, with the CMake and Ninja of the build environment."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from string import Template

from hatch_tensoracle._paths import cpp, templates
from hatch_tensoracle._process import cxx_compiler, run, tool_of
from hatch_tensoracle.errors import BuildError

__all__ = ["build_library"]


def build_library(bundle: Path, sources: Sequence[Path], library: Path) -> None:
    """Compile `sources`, the launcher and the bundle directory into the shared object `library`.

    The compiler is CMake's choice: the variable CXX, else the first of c++, g++ and clang++ on PATH. Raises BuildError
    with the compiler's own lines.
    """
    cmake, ninja = _tool("cmake"), _tool("ninja")
    with tempfile.TemporaryDirectory(prefix="tensoracle-cmake-") as directory:
        project, build = Path(directory) / "project", Path(directory) / "build"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            Template((templates() / "CMakeLists.txt").read_text(encoding="utf-8")).substitute(
                function=_quoted(cpp() / "cmake" / "TensoracleCubinPlugin.cmake"),
                bundle=_quoted(bundle.resolve()),
                sources=" ".join(_quoted(source.resolve()) for source in sources),
                name=_quoted(Path(library.name.removeprefix("lib").removesuffix(".so"))),
            ),
            encoding="utf-8",
        )
        cxx_compiler()  # CMake's own words for its absence fill a screen
        run(
            [
                cmake,
                "-G",
                "Ninja",
                f"-DCMAKE_MAKE_PROGRAM={ninja}",
                "-DCMAKE_BUILD_TYPE=Release",
                "-S",
                project,
                "-B",
                build,
            ],
            what="CMake's configure step",
            remedy="Install a C++17 compiler, such as g++ 9 or newer, or name one in the variable CXX.",
        )
        run(
            [cmake, "--build", build, "--parallel", str(len(os.sched_getaffinity(0)))],
            what="The compiler",
            remedy="Mend the C++ file named in the first error.",
        )
        library.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(build / library.name, library)


def _tool(name: str) -> Path:
    try:
        return tool_of(name, name)
    except (importlib.metadata.PackageNotFoundError, FileNotFoundError) as error:
        message = f"{error} is not installed"
        raise BuildError(message, remedy="Install hatch-tensoracle[producer].") from error


def _quoted(path: Path) -> str:
    """A CMake bracket argument: taken as it stands."""
    return f"[==[{path}]==]"
