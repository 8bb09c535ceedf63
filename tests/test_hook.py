"""The build hook, run by real frontends on mini projects."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.projects import Environment, Outcome, build_with, contents, copied, edit, hatchling_build, pip_wheel, tree
from helpers.waiting import is_running, wait_until

from hatch_tensoracle import inspect_wheel
from hatch_tensoracle.inspection import check_library

ROOT = Path(__file__).resolve().parent.parent
FLAT_MEMBERS = {
    "flat/__init__.py",
    "flat/libflat.so",
    "flat/libflat.bundle.json",
    "flat-1.0.dist-info/METADATA",
    "flat-1.0.dist-info/WHEEL",
    "flat-1.0.dist-info/RECORD",
}
SHARED_BYTES = ("flat/libflat.so", "flat/libflat.bundle.json")
TABLE = "[tool.hatch.build.targets.wheel.hooks.tensoracle]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A project that was built, and what that left where."""

    project: Path
    before: dict[str, bytes]
    changed: set[Path]
    wheel: Path
    printed: str
    temporary: Path


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The project `flat`, built by pip."""
    directory = tmp_path_factory.mktemp("flat")
    project, temporary = copied("flat", directory / "project"), directory / "tmp"
    temporary.mkdir()
    before, times = tree(project), directory_times(project)
    for path in times:
        path.chmod(0o555)
    outcome = pip_wheel(project, directory / "dist", variables={"TMPDIR": str(temporary)})
    changed = {path for path, time in directory_times(project).items() if times.get(path) != time}
    for path in times:
        path.chmod(0o755)
    return Built(
        project=project,
        before=before,
        changed=changed,
        wheel=outcome.artifact,
        printed=outcome.stdout + outcome.stderr,
        temporary=temporary,
    )


def directory_times(project: Path) -> dict[Path, int]:
    """When a name was last added to each directory, or removed."""
    return {path: path.stat().st_mtime_ns for path in (project, *project.rglob("*")) if path.is_dir()}


def test_a_wheel_holds_the_package_its_library_and_the_manifest(flat: Built) -> None:
    assert set(contents(flat.wheel)) == FLAT_MEMBERS


def test_a_wheel_is_for_linux_and_any_python_3(flat: Built) -> None:
    assert flat.wheel.name == "flat-1.0-py3-none-linux_x86_64.whl"
    lines = contents(flat.wheel)["flat-1.0.dist-info/WHEEL"].decode().split("\n")
    assert {"Root-Is-Purelib: false", "Tag: py3-none-linux_x86_64"} <= set(lines)
    assert sum(line.startswith("Tag:") for line in lines) == 1


def test_a_wheel_passes_inspection(flat: Built) -> None:
    (bundle,) = inspect_wheel(flat.wheel).values()
    assert [(entry.label, cubin.target) for entry, cubin in bundle.cubins()] == [("negate#0", "sm86")]


def test_pip_runs_the_hook_once(flat: Built) -> None:
    assert flat.printed.count("tensoracle: building flat/libflat.so") == 1
    assert flat.printed.count("tensoracle: verified flat/libflat.so: bundle ") == 1


def test_a_build_leaves_nothing_in_the_tree(flat: Built) -> None:
    assert tree(flat.project) == flat.before


def test_a_build_needs_no_write_access_to_the_tree(flat: Built) -> None:
    """Permissions do not keep the superuser from writing, so times have to tell."""
    assert flat.changed == set()


def test_a_build_leaves_no_temporary_files(flat: Built) -> None:
    assert tree(flat.temporary) == {}


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the broken tools write their names when they are called."""
    return tmp_path_factory.mktemp("tools") / "called"


@pytest.fixture(scope="module")
def moved(flat: Built, called: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of `flat`, built again with all else changed: stale files in the tree, broken tools first on PATH."""
    project = copied(flat.project, tmp_path_factory.mktemp("moved") / "ein Projekt [für, 日本; 'x' $HOME")
    places = {name: project.with_name(f"{name}, [;") for name in ("TMPDIR", "HOME", "TENSORACLE_CACHE_DIR")}
    for place in places.values():
        place.mkdir()
    for name in SHARED_BYTES:
        (project / name).write_text("of an earlier build")
    for tool in ("ninja", "cmake"):
        script = called.with_name(tool)
        script.write_text(f"#!/bin/sh\necho {tool} >> '{called}'\nexit 1\n")
        script.chmod(0o755)
    variables = {
        **{name: str(place) for name, place in places.items()},
        "PATH": f"{called.parent}:{os.environ['PATH']}",
        "LC_ALL": "C",
        "TZ": "Asia/Tokyo",
        "LOGNAME": "somebody",
        "PYTHONHASHSEED": "1",
        "TENSORACLE_JOBS": "1",
    }
    return hatchling_build(project, project.with_name("dist"), variables=variables, umask=0o077).artifact


def test_directory_user_locale_time_zone_umask_jobs_and_cold_caches_make_no_difference(
    flat: Built, moved: Path
) -> None:
    assert contents(moved) == contents(flat.wheel)
    assert moved.read_bytes() == flat.wheel.read_bytes()


def test_a_wheel_tells_nothing_of_where_and_when_it_was_built(flat: Built) -> None:
    found = contents(flat.wheel)
    assert b"./sources/negate.cpp on Feb  2 2020 at 00:00:00" in found["flat/libflat.so"]
    places = [flat.project.parent, flat.temporary, Path.home(), Path(sys.prefix), ROOT]
    secrets = [*map(str, places), tempfile.gettempdir(), f"{datetime.now(UTC):%Y-%m}"]
    if len(host := socket.gethostname()) > 6:  # a shorter one may be part of anything
        secrets.append(host)
    for name, data in found.items():
        assert [secret for secret in secrets if secret.encode() in data] == [], name
    with zipfile.ZipFile(flat.wheel) as archive:
        assert {member.date_time for member in archive.infolist()} == {(2020, 2, 2, 0, 0, 0)}


@pytest.mark.parametrize("frontend", ["build", "hatch", "uv"])
def test_every_frontend_gives_the_same_wheel(flat: Built, frontend: str, tmp_path: Path) -> None:
    project, dist = copied(flat.project, tmp_path / "project"), tmp_path / "dist"
    environment = Environment(tmp_path / "venv")
    with (project / "pyproject.toml").open("a") as file:  # or hatch would install what the build needs from an index
        file.write(f'\n[tool.hatch.envs.hatch-build]\npath = "{tmp_path / "venv"}"\n')
    command = {
        "build": [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist)],
        "hatch": [sys.executable, "-m", "hatch", "build", "--target", "wheel", str(dist)],
        "uv": ["uv", "build", "--wheel", "--no-build-isolation", "--offline", "--out-dir", str(dist)],
    }[frontend]
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "UV_PYTHON": str(environment.python),
        "HOME": str(tmp_path),  # the frontends have settings and caches of the user's
    }
    wheels = [
        file for file in build_with(command, dist, variables, directory=project).artifacts if file.suffix == ".whl"
    ]
    assert [wheel.read_bytes() for wheel in wheels] == [flat.wheel.read_bytes()]


def test_a_stale_library_in_the_tree_is_not_shipped(moved: Path) -> None:
    found = contents(moved)
    assert set(found) == FLAT_MEMBERS
    assert b"of an earlier build" not in {found[name] for name in SHARED_BYTES}


@pytest.mark.usefixtures("moved")
def test_the_tools_of_the_environment_are_used_not_those_on_path(called: Path) -> None:
    assert not called.exists()


def test_builds_of_one_tree_at_the_same_time_do_not_meet(flat: Built, tmp_path: Path) -> None:
    before = tree(flat.project)
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda i: pip_wheel(flat.project, tmp_path / str(i)), range(2)))
    assert [contents(outcome.artifact) for outcome in outcomes] == [contents(flat.wheel)] * 2
    assert tree(flat.project) == before


def test_a_src_layout_gives_a_wheel_without_src(tmp_path: Path) -> None:
    project = copied("src_layout", tmp_path / "project")
    (project / "src/src_layout/libsrc_layout.so").write_text("of an earlier build")
    wheel = pip_wheel(project, tmp_path / "dist").artifact
    assert set(contents(wheel)) == {
        "src_layout/__init__.py",
        "src_layout/libsrc_layout.so",
        "src_layout/libsrc_layout.bundle.json",
        "src_layout-1.0.dist-info/METADATA",
        "src_layout-1.0.dist-info/WHEEL",
        "src_layout-1.0.dist-info/RECORD",
    }
    assert set(inspect_wheel(wheel)) == {"src_layout/libsrc_layout.so"}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The sdist of `flat` with the hook configured for every target; there is no compiler."""
    directory = tmp_path_factory.mktemp("sdist")
    project = copied("flat", directory / "project")
    edit(project / "pyproject.toml", TABLE, "[tool.hatch.build.hooks.tensoracle]")
    return hatchling_build(project, directory / "dist", "sdist", variables={"PATH": "", "CXX": ""})


def test_a_hook_of_all_targets_does_nothing_for_the_sdist(sdist: Outcome) -> None:
    with tarfile.open(sdist.artifact) as archive:
        names = {name.removeprefix("flat-1.0/") for name in archive.getnames()}
    assert names == {"PKG-INFO", "flat/__init__.py", "kernels.py", "negate.cpp", "pyproject.toml"}
    assert "tensoracle" not in sdist.stderr


def test_the_wheel_of_the_sdist_is_that_of_the_tree(flat: Built, sdist: Outcome, tmp_path: Path) -> None:
    assert pip_wheel(sdist.artifact, tmp_path).artifact.read_bytes() == flat.wheel.read_bytes()


def test_a_source_that_the_sdist_lacks_is_named(tmp_path: Path) -> None:
    project = copied("flat", tmp_path / "project")
    edit(project / "pyproject.toml", TABLE, f'[tool.hatch.build.targets.sdist]\nexclude = ["negate.cpp"]\n\n{TABLE}')
    with tarfile.open(hatchling_build(project, tmp_path / "dist", "sdist").artifact) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / "flat-1.0"
    assert hatchling_build(unpacked, tmp_path / "wheels").errors == [
        f"tensoracle: Option `sources` for build hook `tensoracle` names 'negate.cpp', which is not in {unpacked}",
        "Paths are relative to pyproject.toml; is the file left out of the sdist?",
    ]


@pytest.mark.parametrize(("name", "inside"), [("flat", "flat"), ("src_layout", "src/src_layout")], ids=["flat", "src"])
def test_an_editable_install_puts_the_library_beside_its_package(name: str, inside: str, tmp_path: Path) -> None:
    project = copied(name, tmp_path / "project")
    library, manifest = (project / inside / f"lib{name}{suffix}" for suffix in (".so", ".bundle.json"))
    library.write_text("of an earlier build")
    before = set(tree(project))

    environment = Environment(tmp_path / "venv")
    environment.install("--editable", str(project))

    found = environment.run("-c", f"import {name}; print({name}.__file__)", directory=tmp_path)
    assert Path(found).parent == library.parent
    assert {Path(file) for file in set(tree(project)) - before} <= {manifest.relative_to(project)}
    with library.open("rb") as stream:
        assert list(check_library(stream, str(library), manifest.read_bytes())) == []


def test_two_libraries_of_one_wheel_are_built_each_from_its_own_files(tmp_path: Path) -> None:
    wheel = pip_wheel(copied("two_libraries", tmp_path / "project"), tmp_path / "dist").artifact
    assert set(contents(wheel)) == {
        "two_libraries/__init__.py",
        "two_libraries/libone.so",
        "two_libraries/libone.bundle.json",
        "two_libraries/inner/libother.so",
        "two_libraries/inner/libother.bundle.json",
        "two_libraries-1.0.dist-info/METADATA",
        "two_libraries-1.0.dist-info/WHEEL",
        "two_libraries-1.0.dist-info/RECORD",
    }
    bundles = inspect_wheel(wheel)
    entries = {name: [(entry.label, cubin.target) for entry, cubin in bundles[name].cubins()] for name in bundles}
    assert entries == {
        "two_libraries/libone.so": [("scale_one#0", "sm86")],
        "two_libraries/inner/libother.so": [("scale_other#0", "sm89")],
    }
    # The kernels differ in nothing but a constant, which stands in two files of one name.
    assert len({entry.source_sha256 for bundle in bundles.values() for entry in bundle.entries}) == 2


def test_a_wheel_holds_ptx_that_was_asked_for(tmp_path: Path) -> None:
    project = copied("flat", tmp_path / "project")
    edit(project / "pyproject.toml", 'targets = ["sm86"]', 'targets = ["sm86"]\nptx = "sm80"')
    # Other tests may have built the same.
    outcome = pip_wheel(project, tmp_path / "dist", variables={"TENSORACLE_CACHE_DIR": str(tmp_path / "cache")})
    assert "tensoracle: compiling 1 kernels for sm86, sm80 PTX" in outcome.stdout + outcome.stderr
    assert set(contents(outcome.artifact)) == FLAT_MEMBERS
    (bundle,) = inspect_wheel(outcome.artifact).values()
    assert [(entry.label, code.label) for entry, code in bundle.codes()] == [
        ("negate#0", "sm86"),
        ("negate#0", "sm80 PTX"),
    ]
    library = contents(outcome.artifact)["flat/libflat.so"]
    assert re.search(
        rb"\.version 8\.0\n\.target sm_80\n[\x09-\x7e]*\.visible \.entry negate\([\x09-\x7e]*\}\s*\0", library
    )


def test_ptx_that_would_run_nowhere_else_is_refused_with_the_reason(tmp_path: Path) -> None:
    project = copied("flat", tmp_path / "project")
    edit(project / "pyproject.toml", 'targets = ["sm86"]', 'targets = ["sm86"]\nptx = "sm90"')
    outcome = hatchling_build(project, tmp_path / "dist")
    assert outcome.errors[0] == (
        "tensoracle: Option `ptx` for build hook `tensoracle` is an unusable PTX target `sm90`: from sm90 on Triton"
        " makes PTX for the architecture-specific form, here sm_90a, which runs on no other GPU;"
        " name sm89 or an older one"
    )


def test_a_wheel_that_fails_inspection_is_removed(tmp_path: Path) -> None:
    """Another hook makes the wheel claim that it runs everywhere."""
    project = copied("flat", tmp_path / "project")
    with (project / "pyproject.toml").open("a") as stream:
        stream.write("\n[tool.hatch.build.targets.wheel.hooks.custom]\n")
    hook = """
        from hatchling.builders.hooks.plugin.interface import BuildHookInterface

        class Pure(BuildHookInterface):
            def initialize(self, version, build_data):
                build_data["tag"] = "py3-none-any"
    """
    (project / "hatch_build.py").write_text(textwrap.dedent(hook))
    wheel = tmp_path / "dist" / "flat-1.0-py3-none-any.whl"
    assert hatchling_build(project, wheel.parent).errors == [
        f"tensoracle: {wheel}: tag py3-none-any, but flat/libflat.so is a library for Linux x86_64",
        "Build the wheel with the tensoracle hook, which sets the tag.",
    ]


def _option(text: str) -> Callable[[Path], None]:
    return lambda project: edit(project / "pyproject.toml", 'targets = ["sm86"]', text)


def _tuning(project: Path) -> None:
    _option('targets = ["sm86"]\ntuning = "tuning.json"')(project)
    entry = {"plugin": "Negate", "version": "1", "kernel": "negated", "types": ["fp32"], "sm": 86}
    content = {"schema": 1, "tuning": [{**entry, "gpu": "A10", "driver": "580.95.05", "ranges": []}]}
    (project / "tuning.json").write_text(json.dumps(content))


def _kernels(text: str) -> Callable[[Path], None]:
    return lambda project: edit(project / "kernels.py", "KERNELS = [", f"{text}\nKERNELS = [")


OPTION = "tensoracle: Option `{}` for build hook `tensoracle` "
OPTIONS = (
    "Options are kernels, sources, library, targets, ptx, tuning, ptxas, ship-cubins, include-directories,"
    " compile-definitions, cmake-arguments, platform-tag, jobs, verbose, build-directory."
)
RUN = "The file must run from top to bottom when it is imported, without a GPU."


@pytest.mark.parametrize(
    ("damage", "cause", "remedy"),
    [
        pytest.param(
            _option('target = ["sm86"]'),
            OPTION.format("target") + "is an unknown key; did you mean `targets`?",
            OPTIONS,
            id="unknown-option",
        ),
        pytest.param(
            _option('targets = "sm86"'),
            OPTION.format("targets") + "must be an array, not 'sm86'",
            OPTIONS,
            id="wrong-type",
        ),
        pytest.param(
            lambda project: (project / "kernels.py").unlink(),
            OPTION.format("kernels") + "names 'kernels.py', which is not in {project}",
            "Paths are relative to pyproject.toml; is the file left out of the sdist?",
            id="missing-kernels",
        ),
        pytest.param(
            _kernels('raise OSError("no GPU")'),
            "tensoracle: {project}/kernels.py:16: OSError: no GPU",
            RUN,
            id="error-in-kernels",
        ),
        pytest.param(
            _kernels("raise SystemExit(0)"),
            "tensoracle: {project}/kernels.py:16: SystemExit: 0",
            RUN,
            id="exit-in-kernels",
        ),
        pytest.param(
            _option('targets = ["sm86"]\n\n[tool.hatch.build.targets.wheel.force-include]\n"a.so" = "flat/libflat.so"'),
            "tensoracle: {project}/a.so is to be put at flat/libflat.so too, by `force-include`",
            "Remove this entry: the hook puts library and manifest into the wheel itself.",
            id="path-taken",
        ),
        pytest.param(
            _option('targets = ["sm86"]\ntuning = "tuned.json"'),
            OPTION.format("tuning") + "names 'tuned.json', which is not in {project}",
            "Paths are relative to pyproject.toml; is the file left out of the sdist?",
            id="missing-tuning",
        ),
        pytest.param(
            _tuning,
            "tensoracle: tuning.json: tuning[0].kernel: there is no kernel `negated`; there are negate",
            "Build without the option `tuning`, run `hatch-tensoracle tune` with that library, and build again.",
            id="tuning-of-other-kernels",
        ),
        pytest.param(
            lambda project: edit(project / "kernels.py", "KERNELS = [", "KERNELS = [negate, "),
            "tensoracle: kernels.py:KERNELS: specs[0] must be a KernelSpec, not .*",
            "Mend the specs in the kernels file.",
            id="no-spec",
        ),
    ],
)
def test_a_mistake_is_answered_by_cause_and_remedy(
    damage: Callable[[Path], object], cause: str, remedy: str, tmp_path: Path
) -> None:
    project, temporary = copied("flat", tmp_path / "project"), tmp_path / "tmp"
    temporary.mkdir()
    damage(project)
    before = tree(project)
    errors = hatchling_build(project, tmp_path / "dist", variables={"TMPDIR": str(temporary)}).errors
    assert len(errors) == 2
    assert re.fullmatch(re.escape(cause.format(project=project)).replace(r"\.\*", ".*"), errors[0])
    assert errors[1] == remedy
    assert (tree(project), tree(temporary)) == (before, {})


def test_pip_shows_cause_and_remedy(tmp_path: Path) -> None:
    project = copied("flat", tmp_path / "project")
    _option('targets = ["sm85"]')(project)
    outcome = pip_wheel(project, tmp_path / "dist")
    assert (outcome.status, outcome.artifacts) == (1, ())
    assert OPTION.format("targets[0]") + "is an unknown target `sm85`; did you mean `sm8" in outcome.stderr
    assert OPTIONS in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_kernel_that_does_not_compile_is_named_with_its_target(tmp_path: Path) -> None:
    project = copied("flat", tmp_path / "project")
    edit(project / "kernels.py", "-tl.load(x + offsets)", "tl.load(x + offsets).to(tl.float8e4nv).to(tl.float32)")
    _option('targets = ["sm86", "sm89"]')(project)
    cause, remedy = hatchling_build(project, tmp_path / "dist").errors
    assert cause.startswith("tensoracle: kernel `negate#0` for sm86: kernels.py:13: ValueError: type fp8e4nv not supp")
    assert remedy == "Change the kernel or its spec, or leave the target out."


@pytest.mark.parametrize(
    ("compiler", "cause", "remedy"),
    [
        pytest.param(
            "",
            "tensoracle: no C++ compiler: c++, g++, clang++ not on PATH",
            "Install one, such as Debian's package g++, or name it in the variable CXX.",
            id="none-on-path",
        ),
        pytest.param(
            "/opt/no/g++ -m64",
            "tensoracle: no C++ compiler: /opt/no/g++ of the variable CXX not on PATH",
            "Install one, such as Debian's package g++, or name it in the variable CXX.",
            id="none-where-cxx-says",
        ),
    ],
)
def test_a_missing_compiler_is_said_in_one_line(compiler: str, cause: str, remedy: str, tmp_path: Path) -> None:
    project = copied("flat", tmp_path / "project")
    outcome = hatchling_build(project, tmp_path / "dist", variables={"PATH": "/nowhere", "CXX": compiler})
    assert outcome.errors == [cause, remedy]


def test_an_error_in_cpp_shows_the_compilers_own_lines(tmp_path: Path) -> None:
    project, temporary = copied("flat", tmp_path / "project"), tmp_path / "tmp"
    temporary.mkdir()
    edit(project / "negate.cpp", "return {inputs[0]};", "return inputz;")
    errors = hatchling_build(project, tmp_path / "dist", variables={"TMPDIR": str(temporary)}).errors
    assert errors[0] == "tensoracle: The compiler failed with status 1:"
    assert [line for line in errors if re.search(r"negate\.cpp:19:\d+: error: .*inputz", line)]
    assert errors[-1] == "Mend the C++ file named in the first error."
    assert tree(temporary) == {}


def test_ctrl_c_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    """The compiler writes a temporary file, as g++ does, and never comes to an end."""
    project, temporary, compiler = copied("flat", tmp_path / "project"), tmp_path / "tmp", tmp_path / "c++"
    temporary.mkdir()
    before = tree(project)
    told = tmp_path / "compiling"
    script = f"""
        #!/bin/sh
        case "$*" in
          *negate.cpp*) mktemp; echo $$ > '{told}'; exec sleep 1000;;
        esac
        exec g++ "$@"
    """
    compiler.write_text(textwrap.dedent(script).lstrip())
    compiler.chmod(0o755)
    program = """
        import signal
        from hatchling.cli import hatchling
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
        hatchling()
    """
    arguments = ["build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        cwd=project,
        env=os.environ | {"TMPDIR": str(temporary), "CXX": str(compiler)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: process.poll() is not None or (told.is_file() and told.read_text()), "a compiler at work")
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() != 0
    compiling = int(told.read_text())
    wait_until(lambda: not (is_running(compiling) or processes_below(temporary)), "the end of all that it has started")
    assert (tree(project), tree(temporary)) == (before, {})


def processes_below(directory: Path) -> list[str]:
    """Command lines of processes that name the directory."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended
            found += [line] if str(directory) in (line := file.read_bytes().replace(b"\0", b" ").decode()) else []
    return found


def test_a_platform_that_a_cross_build_asks_for_is_refused(tmp_path: Path) -> None:
    project = copied("flat", tmp_path / "project")
    outcome = hatchling_build(project, tmp_path / "dist", variables={"_PYTHON_HOST_PLATFORM": "linux-aarch64"})
    found = "this is linux-aarch64 by the variable _PYTHON_HOST_PLATFORM"
    assert outcome.errors == [
        f"tensoracle: wheels can be built on linux-x86_64 only, {found}",
        "Build on Linux x86_64, in a container for example.",
    ]


def test_a_library_for_another_processor_is_not_shipped_as_one_for_x86(tmp_path: Path) -> None:
    """The compiler is said to be for x86-64, and links for arm64: its libraries get that mark."""
    project, compiler = copied("flat", tmp_path / "project"), tmp_path / "c++"
    script = """
        #!/bin/sh
        g++ "$@" || exit
        for word; do
          case $last$word in -o*.so) printf '\\267' | dd of="$word" bs=1 seek=18 conv=notrunc status=none;; esac
          last=$word
        done
        exit 0
    """
    compiler.write_text(textwrap.dedent(script).lstrip())
    compiler.chmod(0o755)
    variables = {"CXX": str(compiler), "_PYTHON_HOST_PLATFORM": "linux-x86_64"}
    (cause,) = hatchling_build(project, tmp_path / "dist", variables=variables).errors
    assert cause.endswith(
        "libflat.so: is not a shared object for x86-64: it is EM_AARCH64 ET_DYN, 64 bits, little-endian"
    )
