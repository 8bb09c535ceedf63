"""The journal: what is in it stays, whatever ends the process, and nothing of another machine gets in."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.tune.journal import Header, Journal, journal_path

HEADER = Header(gpu="H200", sm=90, driver="580.95.05", kernels="d1")
TIMES = {"a": 1.5, "b": None}

_WRITER = """
import sys
from hatch_tensoracle.tune.journal import Header, Journal
from pathlib import Path
with Journal(Path(sys.argv[1]), Header(gpu="H200", sm=90, driver="580.95.05", kernels="d1")) as journal:
    for i in range(10**9):
        journal.add("case", "k", {"M": i}, {"a": float(i)})
        print(i, flush=True)
"""


def refusal(path: Path, header: Header = HEADER) -> ConfigurationError:
    before = path.read_bytes()
    with pytest.raises(ConfigurationError) as caught:
        Journal(path, header)
    assert path.read_bytes() == before
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of two measurements."""
    file = tmp_path / "deep" / "tuning.journal.jsonl"
    with Journal(file, HEADER) as journal:
        journal.add("one", "k", {"M": 1, "N": 2}, TIMES)
        journal.add("other", "k", {"M": 1, "N": 2}, {"a": 3.0})
    return file


def test_a_journal_lies_beside_its_output() -> None:
    assert journal_path(Path("a/tuning.json")) == Path("a/tuning.journal.jsonl")


def test_what_was_measured_is_found_again(path: Path) -> None:
    with Journal(path, HEADER) as journal:
        assert len(journal) == 2
        assert journal.find("one", {"N": 2, "M": 1}) == TIMES
        assert journal.find("one", {"M": 2, "N": 2}) is None
        assert journal.find("another", {"M": 1, "N": 2}) is None
        journal.add("another", "k", {"M": 1, "N": 2}, {"a": 4.0})
        assert journal.find("another", {"M": 1, "N": 2}) == {"a": 4.0}
    assert len(path.read_text().splitlines()) == 4


@pytest.mark.parametrize(
    "torn", ['{"case": "one", "kern', "\0\0\0", '{"case": "x", "kernel": "k", "sizes": {}, "us": {}}']
)
def test_a_line_without_end_is_taken_away(path: Path, torn: str) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + torn.encode())
    with Journal(path, HEADER) as journal:
        assert len(journal) == 2
        assert path.read_bytes() == whole
        journal.add("three", "k", {}, TIMES)
    with Journal(path, HEADER) as journal:
        assert len(journal) == 3


@pytest.mark.parametrize("torn", ["", '{"gpu": "H2', "\n"])
def test_without_a_header_it_begins_anew(path: Path, torn: str) -> None:
    path.write_text(torn)
    with Journal(path, HEADER) as journal:
        assert len(journal) == 0
    with Journal(path, HEADER) as journal:
        assert len(journal) == 0


def test_what_was_written_before_a_kill_is_there(tmp_path: Path) -> None:
    file = tmp_path / "tuning.journal.jsonl"
    command = [sys.executable, "-c", _WRITER, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        seen = [int(writer.stdout.readline()) for _ in range(5)]
        os.kill(writer.pid, signal.SIGKILL)
        seen += [int(line) for line in writer.stdout]
    with Journal(file, HEADER) as journal:
        assert all(journal.find("case", {"M": i}) == {"a": float(i)} for i in seen)
        assert len(journal) in {len(seen), len(seen) + 1}


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"gpu": "H100"}, "gpu H200, now H100"),
        ({"sm": 89}, "sm 90, now 89"),
        ({"driver": "590.1"}, "driver 580.95.05, now 590.1"),
        ({"kernels": "d2"}, "kernels d1, now d2"),
        ({"gpu": "H100", "driver": "590.1"}, "gpu H200, now H100; driver 580.95.05, now 590.1"),
    ],
)
def test_measurements_of_something_else_are_refused(path: Path, change: dict[str, object], difference: str) -> None:
    error = refusal(path, dataclasses.replace(HEADER, **change))  # type: ignore[arg-type]
    assert str(error) == f"{path} was measured on something else: {difference}"
    assert error.remedy == "Name another --output, or measure anew with --restart, which forgets that journal."


def test_a_restart_forgets(path: Path) -> None:
    other = dataclasses.replace(HEADER, gpu="H100")
    with Journal(path, other, restart=True) as journal:
        assert len(journal) == 0
    assert [json.loads(line)["gpu"] for line in path.read_text().splitlines()] == ["H100"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [("nonsense", "Expecting value"), ('{"case": "one"}', "kernel: is missing"), ("[1]", "must be a table")],
)
def test_damage_in_the_middle_is_named(path: Path, line: str, problem: str) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    assert str(refusal(path)).startswith(f"{path}:3 is damaged: {problem}")


def test_two_runs_do_not_write_one_journal(path: Path) -> None:
    with Journal(path, HEADER):
        error = refusal(path)
        assert str(error) == f"{path} is in use: another run is measuring"
    with Journal(path, HEADER):
        pass
