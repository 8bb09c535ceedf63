"""benchmarks/gpu as far as it runs without a GPU: what it prints, what it survives, and its native program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gpu.pack import libraries, pack_library, pack_python

from hatch_tensoracle.testing import native

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "benchmarks" / "gpu"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, example_output: Path) -> Path:
    """What tests/gpu/pack.py makes for benchmarks, for one target."""
    directory = tmp_path_factory.mktemp("packed")
    pack_library(directory / "launch", *libraries(["sm86"])["launch"])
    pack_python(directory / "python")
    (directory / "example").symlink_to(example_output)
    return directory


def measure(directory: Path, output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [
        sys.executable,
        SCRIPTS / "measure.py",
        directory,
        "--output",
        output,
        "--quick",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_figure_says_whether_its_goal_is_met() -> None:
    from records import Figure

    assert str(Figure(name="plugin / JIT", value=1.0123, at_most=1.02)) == "plugin / JIT 1.01 [goal: at most 1.02, met]"
    assert str(Figure(name="share", value=0.84, at_least=0.85)) == "share 0.84 [goal: at least 0.85, missed]"
    assert str(Figure.median("bare", [3000.0, 3400.0, 9000.0], "ns")) == "bare 3,400 ns (3,200 to 6,200)"


def test_report_is_tables_and_json() -> None:
    from records import Figure, Report, Row, Section

    ratio = Figure(name="a | b", value=2.0)
    rows = (Row(case="one", ratios=(ratio,), note="x"), Row(case="two", failure="Error: no\nGPU"))
    report = Report(machine={"GPU": "H"}, sections=(Section(title="T", rows=rows, seconds=1.4),))
    assert report.to_markdown().splitlines() == [
        "GPU: H  ",
        "",
        "## T",
        "",
        "1 s",
        "",
        "| case | against the baseline | absolute | note |",
        "| --- | --- | --- | --- |",
        "| one | a \\| b 2 |  | x |",
        "| two | failed: Error: no GPU |  |  |",
    ]
    content = json.loads(report.to_json())
    assert (content["schema"], content["machine"]) == (1, {"GPU": "H"})
    assert content["sections"][0]["rows"][0]["ratios"][0]["value"] == 2.0


def test_rows_of_a_killed_part_are_kept(tmp_path: Path) -> None:
    from measure import rows_of
    from records import Figure, Row

    row = Row(case="one", absolutes=(Figure.median("plugin", [1.0, 2.0], "µs"),))
    file = tmp_path / "rows"
    file.write_text(row.to_json() + "\n" + row.to_json()[:20])
    assert rows_of(file) == [row]
    assert rows_of(tmp_path / "none") == []


def test_unknown_part_is_refused(packed: Path, tmp_path: Path) -> None:
    done = measure(packed, tmp_path / "gpu", "--parts", "nonsense")
    assert done.returncode == 2
    assert "enqueue" in done.stderr


def test_failing_parts_leave_the_others(packed: Path, tmp_path: Path) -> None:
    """Without a driver every part fails, and each is told of."""
    done = measure(packed, tmp_path / "gpu", "--driver", "/no/libcuda.so.1", "--fake-sm", "86")
    assert done.returncode == 1
    content = json.loads((tmp_path / "gpu.json").read_text())
    assert len(content["sections"]) == 5
    failures = [row["failure"] for section in content["sections"] for row in section["rows"]]
    assert all(failures)
    assert "/no/libcuda.so.1" in failures[0]
    assert "| failed: " in done.stdout


@pytest.mark.parametrize("what", ["enqueue", "plugin", "bare"])
def test_native_program_launches(packed: Path, what: str) -> None:
    """On the fake driver, which refuses parameters that are not the kernel's."""
    from launch_program import LAUNCHES, LaunchProgram
    from part import Setting

    driver = str(native.build(native.FAKE_DRIVER))
    program = LaunchProgram(Setting(directory=packed, is_quick=True, driver=driver, fake_sm=86))
    for launch in LAUNCHES:
        series = program.run(what, launch, *([3, 2] if what == "enqueue" else []))  # type: ignore[arg-type]
        expected = {
            "enqueue": ("plugin", "function", "kernel"),
            "plugin": ("plugin", "dlopen", "create", "onShapeChange", "enqueue", "wait"),
            "bare": ("bare",),
        }
        assert tuple(series) == expected[what]
        assert {len(values) for values in series.values()} == {3 if what == "enqueue" else 1}
        assert all(value > 0 for values in series.values() for value in values)


def test_missing_target_is_named(packed: Path) -> None:
    from launch_program import LAUNCHES, LaunchProgram
    from part import Setting

    program = LaunchProgram(Setting(directory=packed, is_quick=True, driver="", fake_sm=90))
    with pytest.raises(RuntimeError, match="no cubins for sm90; they have sm86: pack them with it"):
        program.run("bare", LAUNCHES[0])
