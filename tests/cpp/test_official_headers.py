"""TENSORRT_INCLUDE_DIR puts TensorRT's headers in the place of our own: the same vtables, the same code."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from helpers.tools import run, tool

from cpp.test_plugin_abi import EXPECTED, HEADER, observe

CPP = HEADER.parents[2]
SOURCE = CPP.parent / "example_plugin" / "src" / "add_rms_norm.cpp"

CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES CXX)
include("{cpp}/cmake/TensoracleCubinPlugin.cmake")
tensoracle_add_cubin_plugin(headers BUNDLE bundle SOURCES "{source}" INCLUDE_DIRECTORIES . {directories})
"""
SECTIONS = {".text", ".rodata", ".data.rel.ro"}
BUNDLE = "#include <tensoracle/bundle_entry.hpp>\nnamespace tensoracle {\nBundleRecord const kBUNDLE = {};\n}\n"


@pytest.fixture(params=["our declarations under their name", "TensorRT's"])
def official(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[str]]:
    """The directory of NvInferRuntime.h, and those of the CUDA headers that it includes."""
    if request.param == "TensorRT's":
        if not (given := os.environ.get("TENSORRT_INCLUDE_DIR")):
            pytest.skip("TENSORRT_INCLUDE_DIR is not set; with CUDA_INCLUDE_DIR it names TensorRT's and CUDA's headers")
        return Path(given), [path] if (path := os.environ.get("CUDA_INCLUDE_DIR")) else []
    directory = tmp_path / "official"
    directory.mkdir()
    text = HEADER.read_text().replace("#ifdef TENSORACLE_OFFICIAL_HEADERS", "#if 0")
    (directory / "NvInferRuntime.h").write_text(text)
    return directory, []


def code(directory: Path, includes: list[str], *options: str | Path) -> dict[str, bytes]:
    """What of a library runs, by section."""
    (directory / "bundle").mkdir(parents=True)
    (directory / "bundle" / "bundle.json").write_text("{}")
    (directory / "bundle" / "bundle.cpp").write_text(BUNDLE)
    (directory / "CMakeLists.txt").write_text(CMAKE.format(cpp=CPP, source=SOURCE, directories=" ".join(includes)))
    run(tool("cmake"), "-G", "Ninja", "-S", directory, "-B", directory / "build", *options)
    run(tool("cmake"), "--build", directory / "build")
    elf = ELFFile(io.BytesIO((directory / "build" / "libheaders.so").read_bytes()))
    return {section.name: section.data() for section in elf.iter_sections() if section.name in SECTIONS}


def test_facts_hold_for_them(official: tuple[Path, list[str]], tmp_path: Path) -> None:
    directory, includes = official
    flags = [f"-isystem{path}" for path in (directory, *includes)]
    assert observe(HEADER.read_text(), tmp_path, "-DTENSORACLE_OFFICIAL_HEADERS", *flags) == EXPECTED


def test_library_is_the_same_with_them(official: tuple[Path, list[str]], tmp_path: Path) -> None:
    directory, includes = official
    ours = code(tmp_path / "ours", [])
    theirs = code(tmp_path / "theirs", includes, f"-DTENSORRT_INCLUDE_DIR={directory}")
    assert ours.keys() == SECTIONS
    assert ours == theirs


def test_directory_without_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"has no NvInferRuntime\.h"):
        code(tmp_path / "none", [], f"-DTENSORRT_INCLUDE_DIR={tmp_path}")
