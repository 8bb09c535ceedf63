"""Builds the launcher's test libraries, with the instrumentation that the environment asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from helpers.tools import run, tool

from launcher.records import Entry, write_bundle

__all__ = ["CPP", "SANITIZER", "child_environment", "flags", "link", "make_library"]

CPP = Path(__file__).resolve().parents[2] / "cpp"
HERE = Path(__file__).parent

SANITIZER = os.environ.get("TENSORACLE_TEST_SANITIZER", "")
"""`address`, which stands for undefined behaviour too, or `thread`: what native code is instrumented with."""
COVERAGE = bool(os.environ.get("TENSORACLE_TEST_COVERAGE"))
"""Whether executed lines are counted; see coverage.py."""

_SANITIZERS = {
    "": ("", ""),
    "address": ("-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1", "libasan.so"),
    "thread": ("-fsanitize=thread -g1", "libtsan.so"),
}

_CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(launcher LANGUAGES CXX)
include("{cpp}/cmake/TensoracleCubinPlugin.cmake")
tensoracle_add_cubin_plugin(launcher BUNDLE "{bundle}" SOURCES "{source}")
"""


def flags() -> str:
    """The compiler's further flags."""
    return f"{_SANITIZERS[SANITIZER][0]} {'--coverage' if COVERAGE else ''}".strip()


def child_environment() -> Mapping[str, str]:
    """What a process needs in order to load instrumented libraries."""
    runtime = _SANITIZERS[SANITIZER][1]
    if not runtime:
        return {}
    # With the C++ library, which the runtime looks for when it starts, and Python does not load.
    preloaded = [run(tool("g++"), f"-print-file-name={name}").strip() for name in (runtime, "libstdc++.so.6")]
    return {
        "LD_PRELOAD": " ".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": f"halt_on_error=1 second_deadlock_stack=1 suppressions={HERE / 'tsan.supp'}",
    }


def make_library(bundle: Path, directory: Path) -> Path:
    """Build plugins.cpp and a bundle directory as users do. The launcher's objects stay below the directory."""
    (directory / "CMakeLists.txt").write_text(_CMAKE.format(cpp=CPP, bundle=bundle, source=HERE / "plugins.cpp"))
    build, kind = directory / "build", "Debug" if COVERAGE else "Release"
    environment = {"CXXFLAGS": f"-Wall -Wextra -Werror {flags()}"}
    run(tool("cmake"), "-G", "Ninja", "-S", directory, "-B", build, f"-DCMAKE_BUILD_TYPE={kind}", env=environment)
    run(tool("cmake"), "--build", build)
    return build / "liblauncher.so"


def link(library: Path, entries: list[Entry], directory: Path, *options: str, source: str = "plugins.cpp") -> Path:
    """Link a source and the launcher's objects of another library around records written by hand."""
    directory.mkdir()
    write_bundle(entries, directory)
    objects = list(library.parent.glob("CMakeFiles/launcher_launcher.dir/**/*.o"))
    assert objects
    linked = directory / f"lib{directory.name}.so"
    compiling = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-Wall", "-Wextra", "-Werror"]
    linking = ["-shared", "-ldl", "-Wl,-z,nodelete", f"-Wl,--version-script={CPP / 'cmake' / 'exports.map'}"]
    includes: list[str | Path] = ["-I", CPP / "include", f"-Wa,-I{directory}"]
    defined = ["-DWITHOUT_TUNED", *options]
    sources = [HERE / source, directory / "bundle.cpp", *objects]
    run(tool("g++"), *compiling, *flags().split(), *defined, *includes, *sources, "-o", linked, *linking)
    return linked
