"""Compiles the native parts, on first use and with the author's compiler, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle._paths import cache_directory, cpp
from hatch_tensoracle._process import cxx_compiler, run

__all__ = ["FAKE_DRIVER", "FLAGS_VARIABLE", "HARNESS", "NativeLibrary", "build"]

FLAGS_VARIABLE = "TENSORACLE_TESTING_CXXFLAGS"
"""Names the environment variable with further flags of the compiler, such as `-fsanitize=address`."""

_FLAGS = ("-std=c++17", "-O1", "-g1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLibrary:
    """A shared object that is made from sources shipped with the package. Paths are below cpp/."""

    file: str
    """Its name, and its SONAME."""
    directory: str
    """Holds its sources and their headers."""
    further_sources: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    """What the sources include from elsewhere."""


FAKE_DRIVER = NativeLibrary(
    file="libcuda.so.1",
    directory="testing/fake_driver",
    further_sources=("src/sha256.cpp",),
    headers=("src/sha256.hpp",),
)
HARNESS = NativeLibrary(
    file="libtensoracle_harness.so",
    directory="testing/harness",
    headers=("include/tensoracle/plugin_abi.hpp",),
)


def build(library: NativeLibrary) -> Path:
    """Return the compiled library, compiling it if the cache has none from these sources, compiler and flags.

    The compiler is the one of the variable CXX, else the first of c++, g++ and clang++ on PATH. Raises BuildError with
    the compiler's own lines. Safe from several processes at once.
    """
    from filelock import FileLock

    compiler = cxx_compiler()
    flags = [*_FLAGS, f"-Wl,-soname,{library.file}", *shlex.split(os.environ.get(FLAGS_VARIABLE, ""))]
    directory = cache_directory() / "testing" / _key(library, compiler, flags)
    finished = directory / library.file
    if finished.is_file():
        return finished
    directory.mkdir(parents=True, exist_ok=True)
    with FileLock(directory / "lock"):
        if not finished.is_file():  # another process may have been first
            _compile(library, [*compiler, *flags], finished)
    return finished


def _compile(library: NativeLibrary, command: Sequence[str], finished: Path) -> None:
    sources = [*sorted((cpp() / library.directory).glob("*.cpp")), *(cpp() / name for name in library.further_sources)]
    with tempfile.TemporaryDirectory(dir=finished.parent) as directory:
        output = Path(directory) / library.file
        run(
            [*command, "-I", cpp() / "include", "-o", output, *sources, "-ldl"],
            what=f"The compiler of {library.file}",
            remedy=f"Name a C++17 compiler in the variable CXX, and look at {FLAGS_VARIABLE}.",
            env=_environment(),
        )
        output.replace(finished)


def _key(library: NativeLibrary, compiler: Sequence[str], flags: Sequence[str]) -> str:
    version = run([*compiler, "--version"], what="The compiler", env=_environment()).stdout
    digest = hashlib.sha256()
    for part in (*compiler, version, *flags, *_contents(library)):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()[:32]


def _environment() -> dict[str, str]:
    """Without what is preloaded for the tests: a sanitizer's runtime would find the compiler's own leaks."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def _contents(library: NativeLibrary) -> Iterator[str]:
    for path in sorted((cpp() / library.directory).iterdir()):
        yield path.name
        yield path.read_text(encoding="utf-8")
    for name in (*library.further_sources, *library.headers):
        yield (cpp() / name).read_text(encoding="utf-8")
