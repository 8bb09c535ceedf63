"""Whether a file's code is mapped is told by the file, not by its path."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from helpers.libraries import link_library

from hatch_tensoracle.runtime.mapping import is_code_mapped


def is_mapped(path: Path) -> bool:
    with path.open("rb") as file:
        return is_code_mapped(file)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """One that is loaded."""
    path = link_library(None, tmp_path / "libx.so")
    assert not is_mapped(path)
    ctypes.CDLL(str(path))
    return path


def test_what_is_loaded_is_mapped_under_each_of_its_names(library: Path, tmp_path: Path) -> None:
    assert is_mapped(library)
    library.rename(tmp_path / "liby.so")
    (tmp_path / "libz.so").symlink_to("liby.so")
    assert is_mapped(tmp_path / "libz.so")


def test_what_is_put_in_its_place_is_not(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(library.read_bytes())
    copy.replace(library)
    ctypes.CDLL(str(library))  # the loader goes by the path
    assert not is_mapped(library)
