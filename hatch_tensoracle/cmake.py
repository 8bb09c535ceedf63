"""Builds the plugin library around the launcher, with the CMake and Ninja of the build environment."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template

from hatch_tensoracle._files import open_regular, write_whole
from hatch_tensoracle._paths import cpp, templates
from hatch_tensoracle._process import cxx_compiler, run, tool_of
from hatch_tensoracle.build_directory import temporary_directory
from hatch_tensoracle.errors import BuildError

__all__ = ["build_library"]

_BUILD_DATE = "1580601600"
"""2020-02-02, what hatchling puts into wheels: for `__DATE__` and `__TIME__`, unless SOURCE_DATE_EPOCH says another."""

_VARIABLES = (
    *("CXX", "CXXFLAGS", "LDFLAGS", "CMAKE_TOOLCHAIN_FILE"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
)
"""What CMake and compilers go by beside their arguments."""
_COMPILED = "compiled.json"
"""In the directory of a build: the state of what its objects were compiled from."""

_REMEDIES = {
    "CMake's configure step": "Mend what the first error names; the option `cmake-arguments` goes to this step.",
    "The compiler": "Mend the C++ file named in the first error.",
}
_NO_COMPILER = re.compile(r'simple\s+test\s+program|existing\s+compiler\s+tool|dialect\s+"CXX17"')
"""CMake's words for one that is not there, does not work or is too old. It wraps lines."""
_NO_COMPILER_REMEDY = (
    "Install a C++17 compiler, such as g++ 9 or newer, or name one in the variable CXX; and look at the flags that it "
    "is given: the variables CXXFLAGS and LDFLAGS, the option `cmake-arguments`."
)


def build_library(  # noqa: PLR0913 - the options
    bundle: Path,
    sources: Sequence[Path],
    library: Path,
    *,
    include_directories: Sequence[Path] = (),
    definitions: Sequence[str] = (),
    arguments: Sequence[str] = (),
    jobs: int | None = None,
    kept: Path | None = None,
    show: Callable[[str], None] | None = None,
) -> None:
    """Compile `sources`, the launcher and the bundle directory into the shared object `library`.

    The compiler is CMake's choice: the variable CXX, else the first of c++, g++ and clang++ on PATH. `arguments` go to
    CMake's configure step. The directory `kept` has CMake's files, for the next build to go on with; `show` is given
    every command with what it printed. Raises BuildError with the compiler's own lines.
    """
    cmake, ninja = _tool("cmake"), _tool("ninja")
    cxx_compiler()  # CMake's own words for its absence fill a screen
    sources = [source.parent.resolve() / source.name for source in sources]
    tree = Path(os.path.commonpath([source.parent for source in sources]))
    included = {f"include_{i}": path.resolve() for i, path in enumerate(include_directories)}
    with contextlib.ExitStack() as stack:
        directory = kept or Path(stack.enter_context(temporary_directory("tensoracle-cmake-")))
        project, build = directory / "project", directory / "build"
        targets = {"launcher": cpp(), "bundle": bundle, "sources": tree, **included}
        places = stack.enter_context(_linked(project, targets))
        _write_project(
            project,
            library.name.removeprefix("lib").removesuffix(".so"),
            [f"sources/{source.relative_to(tree)}" for source in sources],
            {"INCLUDE_DIRECTORIES": [*included], "COMPILE_DEFINITIONS": definitions},
        )
        _forget_other_build(build, [project, tree, *included.values(), *arguments])
        if kept is not None:
            (build / _COMPILED).unlink(missing_ok=True)  # until this build has ended
            stack.callback(_record_compiled, build, ninja)
        options = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_BUILD_TYPE=Release", *arguments]
        steps: dict[str, list[str | Path]] = {
            "CMake's configure step": [cmake, *options, "-S", project, "-B", build],
            "The compiler": [cmake, "--build", build, "--parallel", str(jobs or len(os.sched_getaffinity(0)))],
        }
        if show is not None:
            steps["The compiler"].append("--verbose")
        for what, command in steps.items():
            try:
                done = run(command, what=what, remedy=_REMEDIES[what], env=_environment(directory))
            except BuildError as error:
                remedy = _NO_COMPILER_REMEDY if _NO_COMPILER.search(error.cause) else error.remedy
                raise BuildError(_in_the_tree(error.cause, places), remedy=remedy) from error
            if show is not None:
                show(_in_the_tree(f"{shlex.join(map(str, command))}\n{done.stdout}".rstrip(), places))
        write_whole(library, (build / library.name).read_bytes())  # a process may have the old one loaded


@contextlib.contextmanager
def _linked(project: Path, targets: Mapping[str, Path]) -> Iterator[dict[Path, Path]]:
    """Put everything that the project names behind a link below it; give what the links lead to.

    Paths are the same in every build then, and without characters that CMake mistakes for its own. The links do not
    stay: below a tree that they lead to, whoever follows links would walk in a circle.
    """
    project.mkdir(parents=True, exist_ok=True)
    links = {project / name: target.resolve() for name, target in targets.items()}
    try:
        for link, target in links.items():
            link.unlink(missing_ok=True)  # of a build that was killed
            link.symlink_to(target)
        yield links
    finally:
        for link in links:
            link.unlink(missing_ok=True)


def _write_project(project: Path, name: str, sources: Iterable[str], options: Mapping[str, Sequence[str]]) -> None:
    text = Template((templates() / "CMakeLists.txt").read_text(encoding="utf-8")).substitute(
        name=_quoted(name),
        sources=_quoted(*sources),
        options="\n  ".join(f"{keyword} {_quoted(*values)}" for keyword, values in options.items() if values),
    )
    file = project / "CMakeLists.txt"
    if not file.is_file() or file.read_text(encoding="utf-8") != text:  # or CMake would configure again
        file.write_text(text, encoding="utf-8")


def _forget_other_build(build: Path, identity: Sequence[str | Path]) -> None:
    """Remove what was built of another tree or launcher, by another compiler or with other options.

    CMake keeps to those that it has seen first, and files may be older than what was built of others; so may one that
    took the place of a file that was compiled.
    """
    variables = {name: os.environ.get(name, "") for name in _VARIABLES}
    launcher = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(cpp().rglob("*")) if file.is_file()))
    named = [*_named_files([*map(str, identity), variables["CMAKE_TOOLCHAIN_FILE"]], build)]
    written = json.dumps([*map(str, identity), _compiler(), variables, named, launcher.hexdigest()])
    stamp = build / "tensoracle.json"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != written or _was_replaced(build):
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir(parents=True)
        stamp.write_text(written, encoding="utf-8")


def _compiler() -> list[str]:
    """What stands behind a name such as c++: the file that it leads to, and what that says of itself."""
    command, version = cxx_compiler(), ""
    with contextlib.suppress(BuildError):
        version = run([*command, "--version"], what="The compiler").stdout
    return [*command, os.path.realpath(shutil.which(command[0]) or ""), version]


def _named_files(arguments: Iterable[str], build: Path) -> Iterator[str]:
    """SHA-256 of the files that arguments such as `-CFILE` and `-DCMAKE_TOOLCHAIN_FILE=FILE` name, empty for others."""
    for argument in arguments:
        for text in (argument, argument.removeprefix("-C"), argument.partition("=")[2]):
            yield from (_digest(place / text) for place in (Path.cwd(), build))


def _record_compiled(build: Path, ninja: Path) -> None:
    """Write down every file that an object was compiled from, headers of the system too."""
    with contextlib.suppress(BuildError):  # nothing was configured
        printed = run([ninja, "-C", build, "-t", "deps"], what="Ninja").stdout
        files = {line.strip() for line in printed.splitlines() if line.startswith("    ")}
        (build / _COMPILED).write_text(json.dumps({file: _state(build / file) for file in files}), encoding="utf-8")


def _was_replaced(build: Path) -> bool:
    """Whether a file that was compiled is another now, and no newer than what was built; or nobody knows."""
    try:
        compiled = json.loads((build / _COMPILED).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the build was killed
        return True
    newest = max(file.stat().st_mtime_ns for file in build.rglob("*") if file.is_file())
    states = ((_state(build / file), state) for file, state in compiled.items())
    return any(now is not None and [*now] != state and now[0] <= newest for now, state in states)


def _state(file: Path) -> tuple[int, str] | None:
    """Date and SHA-256, None of a file that is not there: that Ninja sees."""
    try:
        return file.stat().st_mtime_ns, _digest(file)
    except OSError:
        return None


def _digest(file: Path) -> str:
    """SHA-256, empty if it is no file."""
    try:
        with open_regular(file) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def _environment(directory: Path) -> dict[str, str]:
    temporary = directory / "tmp"  # what a compiler that was killed could not remove goes with the directory
    temporary.mkdir(exist_ok=True)
    return {"SOURCE_DATE_EPOCH": _BUILD_DATE, **os.environ, "TMPDIR": str(temporary)}


def _in_the_tree(text: str, places: Mapping[Path, Path]) -> str:
    """What a tool printed, with the files' own places instead of those of the links."""
    for link, target in places.items():
        text = text.replace(f"{link}/", f"{target}/")
    return text


def _tool(name: str) -> Path:
    try:
        return tool_of(name, name)
    except (importlib.metadata.PackageNotFoundError, FileNotFoundError) as error:
        message = f"{error} is not installed"
        raise BuildError(message, remedy="Install hatch-tensoracle[producer].") from error


def _quoted(*texts: str) -> str:
    """CMake's bracket arguments: taken as they stand."""
    return " ".join(f"[==[{text}]==]" for text in texts)
