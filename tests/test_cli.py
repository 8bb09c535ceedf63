"""The command line: what it prints, where, and how it exits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.projects import copied, tree
from helpers.waiting import wait_until

import hatch_tensoracle
from hatch_tensoracle import Bundle, inspect_wheel
from hatch_tensoracle._process import tool_of
from hatch_tensoracle.cli import main

TABLE = "tool.hatch.build.targets.wheel.hooks.tensoracle"
GLOBAL_TABLE = "tool.hatch.build.hooks.tensoracle"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """`python -m hatch_tensoracle build` inside a copy of the project `flat`, whose directory is `args[-1]`."""
    directory = tmp_path_factory.mktemp("built")
    project = copied("flat", directory / "flat")
    command = [sys.executable, "-m", "hatch_tensoracle", "build"]
    environment = {**os.environ, "TENSORACLE_CACHE_DIR": str(directory / "cache")}  # where nothing is known yet
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    done.args.append(project)
    return done


@pytest.fixture
def output(built: subprocess.CompletedProcess[str], tmp_path: Path) -> Path:
    """A copy of what `build` made, to be damaged."""
    assert built.returncode == 0, built.stderr
    return shutil.copytree(built.args[-1] / "build", tmp_path / "build")


@pytest.fixture
def digest(output: Path) -> str:
    """Of the bundle that `build` made."""
    return Bundle.parse((output / "bundle" / "bundle.json").read_bytes(), "").digest


def damage_cubin(library: Path, output: Path) -> None:
    """Change one byte of a cubin inside the library."""
    (cubin,) = (output / "bundle" / "cubins").iterdir()
    data, place = bytearray(library.read_bytes()), library.read_bytes().index(cubin.read_bytes())
    data[place + 100] ^= 1
    library.write_bytes(data)


class Json:
    """`inspect --format json` of some paths."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        self.status = main(["inspect", "--format", "json", *map(str, arguments)])
        self.report: dict[str, Any] = json.loads(capsys.readouterr().out)
        self.artifacts: list[dict[str, Any]] = self.report["artifacts"]
        self.defects = [[defect["id"] for defect in artifact["defects"]] for artifact in self.artifacts]


def test_build_writes_bundle_library_and_manifest_below_its_output(output: Path) -> None:
    (cubin,) = (output / "bundle/cubins").iterdir()
    assert set(tree(output)) == {
        "bundle/bundle.json",
        "bundle/bundle.cpp",
        "bundle/cubins_000.cpp",
        f"bundle/cubins/{cubin.name}",
        "flat/libflat.so",
        "flat/libflat.bundle.json",
    }


def test_build_prints_the_library_to_stdout_and_its_progress_to_stderr(
    built: subprocess.CompletedProcess[str], digest: str
) -> None:
    assert built.stdout == f"build/flat/libflat.so: bundle {digest}\n"
    lines = [line for line in built.stderr.splitlines() if not line.startswith("still ")]  # as a slow machine says
    assert lines[0] == "compiling 1 kernels for sm86"
    assert lines[1].startswith("[1/1] negate#0 sm86: ")
    assert lines[2:] == ["building flat/libflat.so", "inspecting flat/libflat.so"]


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        pytest.param({}, "{project} has no pyproject.toml", id="no-project"),
        pytest.param({"pyproject.toml": "[tool"}, "{project}/pyproject.toml: Expected ']'", id="no-toml"),
        pytest.param({"pyproject.toml": ""}, "{project} configures no build hook `tensoracle`", id="no-table"),
        pytest.param(
            {"pyproject.toml": "[tool.hatch]\nbuild = 3"},
            "{project}/pyproject.toml: Field `tool.hatch.build` must be a table",
            id="no-table-of-tables",
        ),
        pytest.param(
            {"pyproject.toml": f"[{TABLE}]\nkernel = 'k.py:K'"},
            "Option `kernel` for build hook `tensoracle` is an unknown key; did you mean `kernels`?",
            id="unknown-option",
        ),
        pytest.param(
            {"pyproject.toml": f"[{GLOBAL_TABLE}]\nkernels = 'k.py:K'\n[{TABLE}]\nsources = ['a.cpp']"},
            "Option `kernels` for build hook `tensoracle` is missing",
            id="the-wheel's-table-replaces-the-global-one",
        ),
        pytest.param(
            {"pyproject.toml": "", "hatch.toml": "[build.hooks.tensoracle]\nkernels = 'k.py:K'"},
            "Option `sources` for build hook `tensoracle` is missing",
            id="hatch.toml-is-read",
        ),
        pytest.param(
            {"pyproject.toml": f"[{TABLE}]\nkernels = 'k.py:K'\nsources = ['a.cpp']\nlibrary = 'a/liba.so'"},
            "Option `kernels` for build hook `tensoracle` names 'k.py', which is not in {project}",
            id="missing-file",
        ),
    ],
)
def test_build_of_a_project_without_a_right_table_is_wrong_usage(
    files: dict[str, str], cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert main(["build", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("hatch-tensoracle: " + cause.format(project=tmp_path))
    assert printed.err.endswith("\n")
    assert not (tmp_path / "out").exists()


def test_build_into_a_directory_of_something_else_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out/bundle").mkdir(parents=True)
    (tmp_path / "out/bundle/thesis.tex").touch()
    assert main(["build", str(copied("flat", tmp_path / "flat")), "--output", str(tmp_path / "out")]) == 2
    message = f"hatch-tensoracle: {tmp_path}/out/bundle is not empty and holds no bundle.json: it is not replaced"
    assert capsys.readouterr().err.splitlines()[-1] == message
    assert (tmp_path / "out/bundle/thesis.tex").exists()


def test_build_without_a_compiler_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["build", str(copied("flat", tmp_path / "flat")), "--output", str(tmp_path / "out")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2] == "hatch-tensoracle: no C++ compiler: no-such-compiler of the variable CXX not on PATH"
    assert not list(tmp_path.rglob("*.so"))


def test_build_that_is_stopped_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    project, temporary = copied("flat", tmp_path / "flat"), tmp_path / "temporary"
    before = tree(project)
    temporary.mkdir()
    program = """
import signal, sys
from hatch_tensoracle.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
sys.exit(main(["build"]))
"""
    environment = {**os.environ, "TENSORACLE_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=project, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: process.poll() is not None or any(temporary.iterdir()), "its first temporary directory")
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate()
    assert (process.returncode, printed.splitlines()[-1]) == (130, "hatch-tensoracle: stopped")
    assert "Traceback" not in printed
    assert tree(project) == before
    assert list(temporary.iterdir()) == []


def test_inspect_shows_what_a_wheel_holds(example_wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(example_wheel)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("example_plugin/libexample_plugin.so: bundle ")
    (bundle,) = inspect_wheel(example_wheel).values()
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in text.splitlines()}
    for entry, cubin in bundle.cubins():
        row = rows[entry.label, cubin.target]
        assert row[:2] == [str(cubin.size), str(cubin.registers)]
        assert len(row) == 5 + len(entry.arguments)
    assert rows["add_rms_norm_fp16#0", "sm86"][5:] == ["*fp16/16"] * 5 + ["i32/8", "fp32"]
    assert text.endswith(f"{example_wheel}: no defects\n")


def test_inspect_reports_a_wheel_to_programs(example_wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = Json(capsys, example_wheel)
    assert (seen.status, seen.report["version"], seen.defects) == (0, 1, [[]])
    (artifact,) = seen.artifacts
    assert artifact["path"] == str(example_wheel)
    assert list(artifact["libraries"]) == ["example_plugin/libexample_plugin.so"]
    manifest = json.dumps(artifact["libraries"]["example_plugin/libexample_plugin.so"]).encode()
    assert Bundle.parse(manifest, "").targets == ("sm86", "sm89", "sm90", "sm120")


def test_inspect_shows_ptx(ptx_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(ptx_bundle)]) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines() if line.lstrip().startswith("copy#0")]
    size = (ptx_bundle / "ptx" / "copy.0.0.sm89.ptx").stat().st_size
    assert rows[1] == ["copy#0", "sm89", "PTX", str(size), "0", "128", "*fp32", "*fp32/16", "i32"]
    assert "needs driver 525.60.13 or newer" in text
    seen = Json(capsys, ptx_bundle)
    manifest = seen.artifacts[0]["libraries"][str(ptx_bundle)]
    assert manifest["ptx_target"] == "sm89"
    assert (manifest["entries"][0]["ptx"]["version"], manifest["entries"][0]["ptx"]["size"]) == ("8.0", size)


def test_inspect_names_a_defect_of_ptx(ptx_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = Path(shutil.copytree(ptx_bundle, tmp_path / "bundle"))
    (bundle / "ptx" / "copy.0.0.sm89.ptx").write_text("")
    seen = Json(capsys, bundle)
    assert (seen.status, seen.defects) == (1, [["corrupt-ptx"]])


def test_inspect_looks_for_the_library_of_a_wheel_that_is_asked_for(
    example_wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Json(capsys, example_wheel, "--plugin", "example_plugin/libexample_plugin.so").status == 0
    seen = Json(capsys, example_wheel, "--plugin", "example_plugin/libother.so")
    assert (seen.status, seen.defects) == (1, [["missing-plugin"]])


def test_inspect_takes_a_bundle_directory_with_and_without_its_library(
    output: Path, digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--plugin", output / "flat/libflat.so"]):
        seen = Json(capsys, output / "bundle", *options)
        assert (seen.status, seen.defects) == (0, [[]])
        assert seen.artifacts[0]["libraries"][str(output / "bundle")]["digest"] == digest


def test_inspect_takes_a_library_alone(output: Path, digest: str, capsys: pytest.CaptureFixture[str]) -> None:
    library = output / "flat/libflat.so"
    seen = Json(capsys, library)
    assert (seen.status, seen.defects) == (0, [[]])
    assert seen.artifacts[0]["libraries"][str(library)]["digest"] == digest


def test_inspect_of_a_damaged_library_fails_in_both_formats(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = output / "flat/libflat.so"
    damage_cubin(library, output)
    seen = Json(capsys, library)
    assert (seen.status, seen.defects) == (1, [["corrupt-cubin"]])
    (defect,) = seen.artifacts[0]["defects"]
    assert set(defect) == {"id", "where", "cause", "remedy"}
    assert defect["where"].startswith(str(library))
    assert main(["inspect", str(library)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"corrupt-cubin: {defect['where']}: {defect['cause']}" in lines
    assert lines[-1] == f"{library}: 1 defect"


def test_inspect_lists_every_defect_not_only_the_first(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cubin,) = (output / "bundle/cubins").iterdir()
    cubin.rename(cubin.with_name("other.cubin"))
    library = output / "flat/libflat.so"
    damage_cubin(library, output)
    seen = Json(capsys, output / "bundle", "--plugin", library)
    assert (seen.status, seen.defects) == (1, [["missing-cubin", "unexpected-file", "corrupt-cubin"]])


def test_inspect_goes_on_after_a_path_with_defects(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, unreadable, good = output / "bad.so", output / "pipe.so", output / "flat/libflat.so"
    bad.write_bytes(b"no library")
    os.mkfifo(unreadable)
    seen = Json(capsys, bad, unreadable, good, output / "bundle")
    assert (seen.status, seen.defects) == (1, [["library"], ["library"], [], []])
    assert [artifact["path"] for artifact in seen.artifacts] == [*map(str, (bad, unreadable, good, output / "bundle"))]
    (defect,) = seen.artifacts[1]["defects"]
    assert (defect["where"], defect["cause"]) == (str(unreadable), "cannot be read: is not a regular file")


def test_inspect_of_a_path_that_is_not_there_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "no.whl")]) == 2
    assert capsys.readouterr() == ("", f"hatch-tensoracle: {tmp_path / 'no.whl'} does not exist\n")


@pytest.mark.parametrize(
    "arguments",
    [[], ["inspekt"], ["inspect"], ["inspect", "--format", "xml", "."], ["build", "--no-such"], ["cmake-dir", "x"]],
    ids=["no-command", "unknown-command", "no-path", "unknown-format", "unknown-option", "too-many"],
)
def test_wrong_arguments_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("usage: hatch-tensoracle")


def test_inspect_needs_no_build_tools(output: Path) -> None:
    program = """
import sys
from hatch_tensoracle.cli import main
assert main(["inspect", *sys.argv[1:]]) == 0
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"hatchling", "triton", "torch", "tensorrt", "tensorrt_rtx", "tensoracle_producer"}, loaded
"""
    command = [sys.executable, "-c", program, str(output / "bundle"), str(output / "flat/libflat.so")]
    subprocess.run(command, check=True, capture_output=True)


def test_the_cmake_function_serves_a_build_of_ones_own(output: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatch_tensoracle", "cmake-dir"]
    directory = subprocess.run(command, capture_output=True, text=True, check=True).stdout.removesuffix("\n")
    project = copied("flat", tmp_path / "own")
    (project / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.25)
project(own LANGUAGES CXX)
include("{directory}/TensoracleCubinPlugin.cmake")
tensoracle_add_cubin_plugin(own BUNDLE "{output / "bundle"}" SOURCES negate.cpp OUTPUT_NAME mine)
""")
    cmake, ninja = tool_of("cmake", "cmake"), tool_of("ninja", "ninja")
    configure = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-S", project, "-B", tmp_path / "cmake"]
    for step in (configure, ["--build", tmp_path / "cmake"]):
        subprocess.run([str(cmake), *map(str, step)], check=True, capture_output=True)
    assert main(["inspect", str(output / "bundle"), "--plugin", str(tmp_path / "cmake/libmine.so")]) == 0


def test_the_script_says_its_version() -> None:
    script = Path(sys.executable).with_name("hatch-tensoracle")
    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hatch-tensoracle {hatch_tensoracle.__version__}\n"


def test_reader_that_goes_away_ends_the_program_quietly(output: Path) -> None:
    command = [sys.executable, "-m", "hatch_tensoracle", "inspect", "--format", "json", str(output / "bundle")]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
