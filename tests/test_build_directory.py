"""Where a build keeps its files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from hatch_tensoracle.build_directory import temporary_directory


@pytest.mark.parametrize("name", ["plain", "with space", "日本", "a,b", "a'b", "a$b"])
def test_temporary_files_lie_where_the_user_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    with temporary_directory("x-") as directory:
        assert Path(directory).parent == tmp_path / name
    assert not Path(directory).exists()


@pytest.mark.parametrize("name", ["a;b", "a[b", "a]b", "a|b", 'a"b', "a\\b"])
def test_cmake_does_not_work_where_it_cannot(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    with temporary_directory("x-") as directory:
        assert name not in directory
