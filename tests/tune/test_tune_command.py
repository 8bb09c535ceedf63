"""`hatch-tensoracle tune` from end to end, on the clock of the fake driver."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
from pathlib import Path

import pytest
from helpers.wheels import write_wheel
from testing.child import in_child

from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.cli import main
from hatch_tensoracle.inspection import manifest_name
from hatch_tensoracle.testing import FakeDriver, PluginHarness
from hatch_tensoracle.tuning import read_tuning, tuning_json
from tune.test_auto import configurations
from tune.tuning_runs import CASE, TuningRun, journal_lines, tune
from tune.tunings import CONFIGURATIONS, DEFAULTS, TUNINGS

BORDERS = [((1, 8), 0), ((9, 32), 1), ((33, 100), 2)]
"""Of the rows of CASE, by the fake driver's clock: what is within 2 % of the best, in as few runs as can be."""


def duration(configuration: int, rows: int) -> int:
    """Nanoseconds of a launch by the fake driver's clock: it has four multiprocessors."""
    described = CONFIGURATIONS[configuration]
    blocks = -(-rows * 64 // described["BLOCK"])
    return 1000 + -(-blocks // 4) * 32 * described["num_warps"]


def failed(run: TuningRun, status: int) -> list[str]:
    """Lines of stderr of a run that failed so."""
    assert run.returncode == status, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    return run.stderr.splitlines()


def test_what_was_measured_is_the_time_of_each_configuration(tuning_file: Path) -> None:
    lines = journal_lines(tuning_file)
    rows = [line["sizes"]["R"] for line in lines]
    assert rows[:8] == [1, 2, 4, 8, 16, 32, 64, 100]
    assert len(set(rows)) == len(rows)
    for line in lines:
        assert line["sizes"]["C"] == 64
        assert list(line["us"]) == [f"BLOCK={b} num_warps={w} num_stages=1" for b, w in ((64, 1), (256, 2), (1024, 4))]
        expected = [duration(i, line["sizes"]["R"]) / 1000 for i in range(3)]
        assert list(line["us"].values()) == pytest.approx(expected, rel=1e-5)


def test_ranges_have_their_winners(tuning_file: Path) -> None:
    (entry,) = (tuning for tuning in read_tuning(tuning_file) if tuning.sm == 90)
    assert (entry.plugin, entry.version, entry.namespace, entry.kernel) == ("Scale", "2", "tests", "scale_fp32")
    assert (entry.types, entry.gpu) == (("fp32",), "fake device of sm_90")
    assert entry.fields == {**DEFAULTS, "bfloat": 0.10009765625}
    assert [each.inputs for each in entry.ranges] == [((rows, 64),) for rows, _ in BORDERS]
    named = [{**CONFIGURATIONS[i], "num_stages": 1} for _, i in BORDERS]
    assert [each.configuration for each in entry.ranges] == named
    assert [each.us for each in entry.ranges] == [1.06, 1.13, 1.26]
    assert [each.runner_up_us for each in entry.ranges] == [1.06, 1.13, 1.45]


def test_entries_of_other_sms_stay(tuning_file: Path) -> None:
    others = [tuning for tuning in read_tuning(tuning_file) if tuning.sm != 90]
    assert tuning_json(others) == tuning_json(TUNINGS)


def test_the_next_run_measures_nothing_and_writes_the_same(
    tuning_file: Path, untuned: Path, cases: Path, tmp_path: Path
) -> None:
    output = tmp_path / "tuning.json"
    for file in (tuning_file, tuning_file.with_suffix(".journal.jsonl")):
        shutil.copy(file, tmp_path)
    before = journal_lines(output)
    run = tune(90, untuned, cases, output)
    assert run.returncode == 0, run.stderr
    assert f"has {len(before)} measurements" in run.stdout
    assert journal_lines(output) == before
    assert output.read_bytes() == tuning_file.read_bytes()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_stopped_goes_on(
    tuning_file: Path, untuned: Path, cases: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    output = tmp_path / "tuning.json"
    output.write_bytes(tuning_json(TUNINGS))
    run = tune(90, untuned, cases, output, stop=ending)
    if ending is signal.SIGINT:
        assert failed(run, 130) == ["the same command goes on from here", "hatch-tensoracle: stopped"]
    else:
        assert run.returncode == -ending
    stopped = journal_lines(output)
    assert len(stopped) == 4
    assert output.read_bytes() == tuning_json(TUNINGS)
    assert tune(90, untuned, cases, output).returncode == 0
    assert journal_lines(output)[: len(stopped)] == stopped
    assert journal_lines(output) == journal_lines(tuning_file)
    assert output.read_bytes() == tuning_file.read_bytes()


def test_another_gpu_needs_another_journal_and_keeps_the_entries(untuned: Path, tmp_path: Path) -> None:
    cases, output = tmp_path / "tune.toml", tmp_path / "tuning.json"
    cases.write_text(CASE.replace("{ min = 1, max = 100 }", "[1, 100]"))
    assert tune(90, untuned, cases, output).returncode == 0
    before = output.read_bytes()
    cause, remedy = failed(tune(80, untuned, cases, output), 2)
    assert cause == (
        f"hatch-tensoracle: {tmp_path / 'tuning.journal.jsonl'} was measured on something else: "
        "gpu fake device of sm_90, now fake device of sm_80; sm 90, now 80"
    )
    assert remedy == "Name another --output, or measure anew with --restart, which forgets that journal."
    assert output.read_bytes() == before
    assert tune(80, untuned, cases, output, "--restart").returncode == 0
    assert [tuning.sm for tuning in read_tuning(output)] == [80, 90]


def test_cases_of_one_plugin_and_types_are_one_entry(untuned: Path, tmp_path: Path) -> None:
    cases, output = tmp_path / "tune.toml", tmp_path / "tuning.json"
    one, other = (CASE.replace("{ min = 1, max = 100 }", str(rows)) for rows in (1, 100))
    cases.write_text(one + other)
    assert tune(90, untuned, cases, output).returncode == 0
    (entry,) = read_tuning(output)
    assert [each.inputs for each in entry.ranges] == [((1, 64),), ((100, 64),)]


@in_child
def test_the_wheel_s_library_takes_what_was_tuned(tuned: Path) -> None:
    """Also between the shapes that were measured: by this clock the winners are known for all."""
    with FakeDriver([90]) as driver, PluginHarness(tuned) as harness:
        driver.create_context()
        shapes = [(rows, 64) for rows in range(1, 102)]
        launched = configurations(harness, driver, shapes)
        for (rows, _), taken in zip(shapes[:100], launched, strict=False):
            assert taken == next(i for (least, greatest), i in BORDERS if least <= rows <= greatest)
            assert duration(taken, rows) <= 1.1 * min(duration(i, rows) for i in range(3))
        assert launched[100] == 2  # by itself


def test_a_wheel_can_be_tuned(wheel: Path, tmp_path: Path) -> None:
    """One that has tuning already: what it is has no part in what its kernels are."""
    cases, output = tmp_path / "tune.toml", tmp_path / "tuning.json"
    cases.write_text(CASE.replace("{ min = 1, max = 100 }", "100"))
    run = tune(90, wheel, cases, output)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == f"wrote {output}"
    (entry,) = read_tuning(output)
    assert [each.configuration["BLOCK"] for each in entry.ranges] == [1024]


@pytest.mark.parametrize(
    ("manifest", "case", "place"),
    [
        pytest.param("{}", CASE, "tuned/libtuned.bundle.json: ", id="manifest"),
        pytest.param(None, CASE.replace("Scale", "Scales"), "tuned/libtuned.so has no creator", id="library"),
    ],
)
def test_what_is_wrong_in_a_wheel_is_named_by_its_place_there(
    untuned: Path, tmp_path: Path, manifest: str | None, case: str, place: str
) -> None:
    names = (f"tuned/{untuned.name}", f"tuned/{manifest_name(untuned.name)}")
    manifest = manifest or Path(manifest_name(str(untuned))).read_text()
    wheel = write_wheel(tmp_path, dict(zip(names, (untuned.read_bytes(), manifest.encode()), strict=True)))
    cases = tmp_path / "tune.toml"
    cases.write_text(case)
    run = tune(90, wheel, cases, tmp_path / "tuning.json")
    assert run.returncode in {1, 2}
    assert f"{wheel}: {place}" in run.stderr.splitlines()[0]


def test_tuning_has_no_part_in_what_a_journal_is_of(
    tuning_file: Path, tuned: Path, cases: Path, tmp_path: Path
) -> None:
    output = tmp_path / "tuning.json"
    shutil.copy(tuning_file.with_suffix(".journal.jsonl"), tmp_path)
    assert tune(90, tuned, cases, output).returncode == 0
    assert journal_lines(output) == journal_lines(tuning_file)


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ('"Scale"', '"Scales"', "has no creator 'Scales'"),
        ("scale_fp32", "scale_fp64", "there is no kernel `scale_fp64`; there are scale_fp32, scale_fp16"),
        ("offsets", "ofsets", "field ofsets is unknown"),
        ('type = "fp32"', 'type = "bf16"', "the inputs have data types (BF16); permitted are (FLOAT) or (HALF)"),
        ('times = "C"', 'times = "C" }, mode = { repeat = 1, times = 2', "field mode"),
    ],
)
def test_a_case_that_does_not_fit_the_library_is_said_before_anything_is_measured(
    untuned: Path, tmp_path: Path, old: str, new: str, cause: str
) -> None:
    cases, output = tmp_path / "tune.toml", tmp_path / "tuning.json"
    cases.write_text(CASE + CASE.replace(old, new))
    lines = failed(tune(90, untuned, cases, output), 2)
    assert lines[0].startswith("hatch-tensoracle: case Scale")
    assert cause in "\n".join(lines)
    assert not output.exists()
    assert journal_lines(output) == []


def test_a_manifest_of_another_library_is_refused(untuned: Path, tuned: Path, cases: Path, tmp_path: Path) -> None:
    library = Path(shutil.copy(untuned, tmp_path))
    shutil.copy(manifest_name(str(tuned)), tmp_path)
    (line,) = failed(tune(90, library, cases, tmp_path / "tuning.json"), 2)
    assert line.endswith("the library was not built from the manifest beside it")
    Path(manifest_name(str(library))).unlink()
    line, _ = failed(tune(90, library, cases, tmp_path / "tuning.json"), 2)
    assert line == f"hatch-tensoracle: {tmp_path / 'libtuned.bundle.json'} is missing"


def test_a_tuning_json_that_cannot_be_read_is_not_written_over(untuned: Path, cases: Path, tmp_path: Path) -> None:
    output = tmp_path / "tuning.json"
    output.write_text("{}")
    cause, _ = failed(tune(90, untuned, cases, output), 2)
    assert cause == f"hatch-tensoracle: {output}: schema: is None; this release reads 1"
    assert output.read_text() == "{}"


def test_what_is_no_file_is_said(capsys: pytest.CaptureFixture[str], cases: Path) -> None:
    assert main(["tune", "nowhere.so", "--cases", str(cases)]) == 2
    assert capsys.readouterr().err.splitlines()[0] == "hatch-tensoracle: nowhere.so is no file"


def test_without_a_gpu_it_says_so(
    capsys: pytest.CaptureFixture[str], untuned: Path, cases: Path, tmp_path: Path
) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pass
    else:
        pytest.skip("this machine has a CUDA driver")
    assert main(["tune", str(untuned), "--cases", str(cases), "--output", str(tmp_path / "tuning.json")]) == 2
    cause, remedy = capsys.readouterr().err.splitlines()
    assert cause.startswith("hatch-tensoracle: no GPU can be used: the CUDA driver cannot be loaded: libcuda.so.1")
    assert remedy == "Tune on a machine with one."


def test_inspection_shows_what_was_tuned(capsys: pytest.CaptureFixture[str], wheel: Path) -> None:
    assert main(["inspect", str(wheel)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tuned on")]
    assert len(lines) == len(TUNINGS) + 1
    assert "tuned on sm86 (GPU of sm_86, driver 580.95.05): Scale of fp32: scale_fp32, 1 ranges" in lines


def test_the_manifest_has_the_tuning(wheel: Path, tuned: Path, tuning_file: Path, bundle: Bundle) -> None:
    manifest = Bundle.parse(Path(manifest_name(str(tuned))).read_bytes(), str(wheel))
    assert manifest.tuning == read_tuning(tuning_file)
    assert manifest.digest != bundle.digest
    assert manifest.entries == bundle.entries
    assert json.loads(bundle.to_json())["tuning"] == []
