"""The file of a saved engine: read as it was written, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hatch_tensoracle.runtime.engine_file import EngineHeader, read_header, read_plan, write_engine
from hatch_tensoracle.runtime.errors import CorruptEngineError
from hatch_tensoracle.runtime.plugin_creators import CreatorKey
from runtime.conditions import conditions, plan_of

CREATORS = (CreatorKey("AddRmsNorm", "1", ""), CreatorKey("Ünïcode", "2", "space"))
PLAN = plan_of(1, 9_000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.engine"
    write_engine(path, PLAN, conditions=conditions(), creators=CREATORS)
    return path


def read(path: Path) -> tuple[EngineHeader, memoryview]:
    with path.open("rb") as file:
        header = read_header(file, path)
        return header, read_plan(file, header, path)


def test_what_was_saved_is_read(file: Path) -> None:
    header, plan = read(file)
    assert plan == PLAN
    assert header.conditions == conditions()
    assert header.creators == CREATORS
    assert header.plan_size == len(PLAN)


def test_nothing_else_is_left_beside_it(file: Path) -> None:
    assert list(file.parent.iterdir()) == [file]


def test_it_is_on_the_disk_before_it_has_its_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its name is when the call returns: what is on the disk then survives a loss of power."""
    steps: list[object] = []
    replace = Path.replace

    def synced(descriptor: int) -> None:
        steps.append((Path(f"/proc/self/fd/{descriptor}").readlink() == file.parent, os.fstat(descriptor).st_size))

    def replaced(path: Path, target: Path) -> Path:
        steps.append("named")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_engine(file, PLAN, conditions=conditions(), creators=CREATORS)
    assert steps == [(False, file.stat().st_size), "named", (True, file.parent.stat().st_size)]


def test_every_byte_counts(file: Path) -> None:
    """Of the first line, the header's digest and the header each, of the plan some."""
    good = file.read_bytes()
    start = len(good) - len(PLAN)
    for place in [*range(start), *range(start, len(good), 97), len(good) - 1]:
        file.write_bytes(good[:place] + bytes([good[place] ^ 0x20]) + good[place + 1 :])
        with pytest.raises(CorruptEngineError) as caught:
            read(file)
        assert caught.value.file == str(file)


def test_every_length_counts(file: Path) -> None:
    good = file.read_bytes()
    start = len(good) - len(PLAN)
    for length in [*range(start + 2), *range(start, len(good), 97), len(good) - 1]:
        file.write_bytes(good[:length])
        with pytest.raises(CorruptEngineError):
            read(file)
    file.write_bytes(good + b"\0")
    with pytest.raises(CorruptEngineError, match=f"its plan of {len(PLAN)} bytes has {len(PLAN) + 1}"):
        read(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "does not begin as a saved engine does", id="empty"),
        pytest.param(b"ftrt" * 100, "does not begin as a saved engine does", id="a bare plan"),
        pytest.param(b"hatch-tensoracle engine 2\n", "does not begin as a saved engine does", id="another format"),
        pytest.param(b"hatch-tensoracle engine 1\n" + bytes(1 << 16), "has a damaged header", id="no header"),
    ],
)
def test_what_is_no_saved_engine_is_said(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(CorruptEngineError, match=message) as caught:
        read(file)
    assert "force_rebuild=True" in str(caught.value)


def test_a_damaged_plan_is_told_from_a_damaged_header(file: Path) -> None:
    good = file.read_bytes()
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(CorruptEngineError, match=r"has a damaged plan: SHA-256 [0-9a-f]{64}, was [0-9a-f]{64}"):
        read(file)
