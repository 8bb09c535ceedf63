"""The producer's step: a tree that has not changed costs no import of Triton or of the kernels file."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.projects import Environment, copied, edit, hatchling_build, tree
from helpers.tools import run

from hatch_tensoracle.config import LibraryConfig
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.incremental import make_bundle
from hatch_tensoracle.tuning import TUNING_SCHEMA

KERNELS = """
import triton
import triton.language as tl
from tensoracle_producer import KernelSpec, Pointer

print("the kernels file runs")


@triton.jit
def scaled(x, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * FACTOR)


def specs(factors):
    return [
        KernelSpec(scaled, name=f"scaled_{n}", arguments=[Pointer("fp32")], constants={"BLOCK": 64, "FACTOR": factor})
        for n, factor in enumerate(factors)
    ]
"""
STEP = """
import json, sys
from pathlib import Path
from hatch_tensoracle.config import LibraryConfig
from hatch_tensoracle.incremental import make_bundle

project, output = map(Path, sys.argv[1:3])
options = {"kernels": "kernels.py:KERNELS", "targets": ("sm86",), **json.loads(sys.argv[3])}
config = LibraryConfig(sources=("p.cpp",), library="p/libp.so", **options)
lines = []
bundle = make_bundle(config, project, output, lines.append)
print(json.dumps({"lines": lines, "modules": sorted(sys.modules), "digest": bundle.digest}))
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENSORACLE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def project(directory: Path, rest: str = "KERNELS = specs([2.0])", **files: str) -> Path:
    """Write kernels.py and files beside it, NAME.py each, some time ago."""
    directory.mkdir(parents=True)
    texts = {"kernels": KERNELS + textwrap.dedent(rest) + "\n", **files}
    for name, text in texts.items():
        (directory / f"{name}.py").write_text(text)
    aged(directory)
    return directory


def written(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)


def aged(directory: Path) -> None:
    past = time.time() - 60
    for path in directory.rglob("*"):
        os.utime(path, (past, past))


class Step:
    """One run of the step in a process of its own."""

    def __init__(
        self, directory: Path, output: Path | None = None, python: str | Path = sys.executable, **options: Any
    ) -> None:
        output = output or directory.with_name("bundle")
        shown = json.dumps(options)
        printed = run(python, "-c", STEP, str(directory), str(output), shown, cwd=directory.parent)
        answer = json.loads(printed)
        self.lines: list[str] = answer["lines"]
        self.modules = set(answer["modules"])
        self.digest: str = answer["digest"]

    @property
    def is_known(self) -> bool:
        """Whether nothing was done again."""
        known = self.lines[0].startswith("compiling nothing: ")
        assert known == ("triton" not in self.modules)
        return known

    @property
    def compiled(self) -> list[str]:
        """Kernels that were compiled."""
        return [line.split()[1] for line in self.lines if line.startswith("[")]


def test_an_unchanged_tree_imports_neither_triton_nor_the_kernels_file(tmp_path: Path) -> None:
    where = project(
        tmp_path / "project", "from pathlib import Path\nPath('ran').open('a').write('.')\nKERNELS = specs([2.0])"
    )
    first = Step(where, tmp_path / "one")
    assert not first.is_known
    second = Step(where, tmp_path / "two")
    assert second.is_known
    assert second.lines == ["compiling nothing: all is as in an earlier build, 1 files come from the cache"]
    assert (where.parent / "ran").read_text() == "."
    assert second.digest == first.digest
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_a_tree_may_be_moved_and_be_another_copy(tmp_path: Path) -> None:
    """As pip's temporary directories and what is unpacked from an sdist are."""
    where = project(tmp_path / "project", "from inner import FACTOR\nKERNELS = specs([FACTOR])", inner="FACTOR = 3.0\n")
    Step(where)
    shutil.copytree(where, tmp_path / "a copy é")
    shutil.rmtree(where)
    assert Step(tmp_path / "a copy é").is_known


def test_another_environment_with_the_same_tools_knows_it_too(tmp_path: Path) -> None:
    where = project(tmp_path / "project")
    Step(where)
    assert Step(where, python=Environment(tmp_path / "venv").python).is_known


READS = """
import json, os
from pathlib import Path
HERE = Path(__file__).parent
"""
FACTORS = """
def factors(name, otherwise):
    try:
        return json.loads((HERE / name).read_text())
    except OSError:
        return otherwise
"""
CHANGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "the kernels file": ("KERNELS = specs([2.0])", lambda p: edit(p / "kernels.py", "[2.0]", "[3.0]"), ""),
    "a module beside it": (
        "from inner import FACTOR\nKERNELS = specs([FACTOR])",
        lambda p: edit(p / "inner.py", "2.0", "3.0"),
        "inner.py",
    ),
    "a module of a package beside it": (
        "from package.inner import FACTOR\nKERNELS = specs([FACTOR])",
        lambda p: edit(p / "package" / "inner.py", "2.0", "3.0"),
        "package/inner.py",
    ),
    "a file that it reads": (
        "KERNELS = specs(json.loads((HERE / 'factors.json').read_text()))",
        lambda p: (p / "factors.json").write_text("[3.0]"),
        "factors.json",
    ),
    "a file that comes to be": (
        f"{FACTORS}\nKERNELS = specs(factors('more.json', [2.0]))",
        lambda p: (p / "more.json").write_text("[3.0]"),
        "more.json",
    ),
    "a file that goes": (
        f"{FACTORS}\nKERNELS = specs(factors('factors.json', [3.0]))",
        lambda p: (p / "factors.json").unlink(),
        "factors.json",
    ),
    "a directory that it lists": (
        "KERNELS = specs([float(file.stem) for file in (HERE / 'factors').glob('*.txt')])",
        lambda p: (p / "factors" / "3.txt").touch(),
        "factors",
    ),
    "the kernels file's own directory, listed": (
        "KERNELS = specs([float(file.stem) for file in HERE.glob('*.txt')])",
        lambda p: (p / "3.txt").touch(),
        ".",
    ),
    "a module that hides another": (
        "import colorsys\nKERNELS = specs([getattr(colorsys, 'FACTOR', 2.0)])",
        lambda p: (p / "colorsys.py").write_text("FACTOR = 3.0"),
        "what can be imported from .",
    ),
    "a package that hides a module": (
        "from inner import FACTOR\nKERNELS = specs([FACTOR])",
        lambda p: written(p / "inner" / "__init__.py", "FACTOR = 3.0"),
        "what can be imported from .",
    ),
    "a module that comes to be": (
        "try:\n    from more import FACTOR\nexcept ImportError:\n    FACTOR = 2.0\nKERNELS = specs([FACTOR])",
        lambda p: (p / "more.py").write_text("FACTOR = 3.0"),
        "more",
    ),
    "a module of a package that comes to be": (
        (
            "try:\n    from package import more\nexcept ImportError:\n    from package import inner as more\n"
            "KERNELS = specs([more.FACTOR])"
        ),
        lambda p: (p / "package" / "more.py").write_text("FACTOR = 3.0"),
        "what can be imported from package",
    ),
    "a module where the file looks for more": (
        (
            "import sys\nsys.path.insert(0, str(HERE / 'factors'))\n"
            "try:\n    from more import FACTOR\nexcept ImportError:\n    FACTOR = 2.0\nKERNELS = specs([FACTOR])"
        ),
        lambda p: (p / "factors" / "more.py").write_text("FACTOR = 3.0"),
        "what can be imported from factors",
    ),
    "a directory of modules that comes to be": (
        "try:\n    from extra.more import FACTOR\nexcept ImportError:\n    FACTOR = 2.0\nKERNELS = specs([FACTOR])",
        lambda p: written(p / "extra" / "more.py", "FACTOR = 3.0"),
        "extra",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_has_changed_is_seen(tmp_path: Path, name: str) -> None:
    rest, change, said = CHANGES[name]
    where = project(tmp_path / "project", READS + rest, inner="FACTOR = 2.0\n")
    (where / "factors.json").write_text("[2.0]")
    for directory in ("package", "factors"):
        (where / directory).mkdir()
    (where / "package" / "inner.py").write_text("FACTOR = 2.0\n")
    (where / "factors" / "2.txt").touch()
    (where / "2.txt").touch()
    aged(where)
    first = Step(where)
    assert Step(where).is_known
    change(where)
    changed = Step(where)
    assert not changed.is_known
    if said:
        assert changed.lines[0] == f"{said} has changed since an earlier build"
    assert changed.digest != first.digest


@pytest.mark.parametrize(
    "read", ["os.environ['FACTOR']", "os.environ.get('FACTOR')", "os.getenv('FACTOR')", "os.environb[b'FACTOR']"]
)
def test_a_variable_that_the_file_reads_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    monkeypatch.setenv("FACTOR", "2.0")
    where = project(tmp_path / "project", f"import os\nKERNELS = specs([float({read})])")
    first = Step(where)
    monkeypatch.setenv("ANOTHER", "1")
    assert Step(where).is_known
    monkeypatch.setenv("FACTOR", "3.0")
    changed = Step(where)
    assert changed.lines[0] == "$FACTOR has changed since an earlier build"
    assert changed.digest != first.digest


def test_the_author_s_own_lies_in_the_whole_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = """
        import sys
        sys.path.insert(0, __file__.rsplit("/", 2)[0])
        from common import FACTOR, NAMES
        KERNELS = specs([FACTOR, *map(float, NAMES)])
    """
    project(tmp_path / "project" / "kernels", rest)
    where = tmp_path / "project"
    (where / "factors").mkdir()
    reads = "NAMES = os.listdir(os.path.join(os.path.dirname(__file__), 'factors'))"
    (where / "common.py").write_text(f"import os\nFACTOR = float(os.environ['FACTOR'])\n{reads}\n")
    aged(where)
    monkeypatch.setenv("FACTOR", "2.0")
    kernels = "kernels/kernels.py:KERNELS"
    Step(where, kernels=kernels)
    assert Step(where, kernels=kernels).is_known
    monkeypatch.setenv("FACTOR", "3.0")
    assert Step(where, kernels=kernels).lines[0] == "$FACTOR has changed since an earlier build"
    (where / "factors" / "4").touch()
    assert Step(where, kernels=kernels).lines[0] == "factors has changed since an earlier build"


def test_options_and_the_tuning_file_count(tmp_path: Path) -> None:
    where = project(tmp_path / "project")
    Step(where)
    assert not Step(where, targets=["sm86", "sm120"]).is_known
    assert Step(where).is_known  # both are remembered
    tuning = where / "tuning.json"
    for text in f'{{"schema": {TUNING_SCHEMA}, "tuning": []}}', f'{{"tuning": [], "schema": {TUNING_SCHEMA}}}':
        tuning.write_text(text)
        aged(where)
        assert not Step(where, tuning=tuning.name).is_known
        assert Step(where, tuning=tuning.name).is_known


def test_a_distribution_that_the_file_imports_counts_by_version_and_by_content(tmp_path: Path) -> None:
    """One that is installed from a path may keep its version while its code changes."""
    environment = Environment(tmp_path / "venv")

    def install(version: str, factor: float) -> None:
        text = f"FACTOR = {factor}\n"
        (environment.packages / "factors.py").write_text(text)
        for old in environment.packages.glob("factors-*.dist-info"):
            shutil.rmtree(old)
        info = environment.packages / f"factors-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: factors\nVersion: {version}\n")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows = [f"factors.py,sha256={digest},{len(text)}", f"{info.name}/METADATA,,", f"{info.name}/RECORD,,"]
        (info / "RECORD").write_text("\n".join(rows))
        aged(environment.packages)

    install("1.0", 2.0)
    where = project(tmp_path / "project", "from factors import FACTOR\nKERNELS = specs([FACTOR])")
    Step(where, python=environment.python)
    for version, factor in ("1.1", 2.0), ("1.1", 3.0):
        assert Step(where, python=environment.python).is_known
        install(version, factor)
        changed = Step(where, python=environment.python)
        assert changed.lines[0] == "factors has changed since an earlier build"


def test_a_module_of_no_distribution_counts_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of an editable installation do."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "factors.py").write_text("FACTOR = 2.0\n")
    aged(elsewhere)
    monkeypatch.setenv("PYTHONPATH", f"{elsewhere}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    where = project(tmp_path / "project", "from factors import FACTOR\nKERNELS = specs([FACTOR])")
    Step(where)
    assert Step(where).is_known
    (elsewhere / "factors.py").write_text("FACTOR = 3.0\n")
    assert Step(where).lines[0] == f"{elsewhere / 'factors.py'} has changed since an earlier build"


def test_another_checkout_has_another_file_outside_of_the_project(tmp_path: Path) -> None:
    rest = """
        import sys
        sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/common")
        from shared_factor import FACTOR
        KERNELS = specs([FACTOR])
    """
    wheres = []
    for name, factor in ("a", 2.0), ("b", 3.0):
        (tmp_path / name / "common").mkdir(parents=True)
        (tmp_path / name / "common" / "shared_factor.py").write_text(f"FACTOR = {factor}\n")
        aged(tmp_path / name)
        wheres.append(project(tmp_path / name / "project", rest))
    first = Step(wheres[0])
    assert Step(wheres[0]).is_known
    other = Step(wheres[1])
    assert not other.is_known
    assert other.digest != first.digest


def test_what_another_library_of_the_wheel_has_loaded_already_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is read once in a process, though two kernels files depend on it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "inner_factors.py").write_text("FACTOR = 2.0\n")
    (elsewhere / "outer_factors.py").write_text("from inner_factors import FACTOR\n")
    aged(elsewhere)
    rest = "from outer_factors import FACTOR\nKERNELS = specs([FACTOR])"
    (tmp_path / "projects").mkdir()  # where steps run, so that Python finds no module through their directory
    one, two = (
        project(tmp_path / "projects" / name, text) for name, text in (("one", rest), ("two", f"# Another.\n{rest}"))
    )
    config = LibraryConfig(kernels="kernels.py:KERNELS", sources=("p.cpp",), library="p/libp.so", targets=("sm86",))
    monkeypatch.syspath_prepend(elsewhere)
    try:
        for where in (one, two):
            make_bundle(config, where, tmp_path / "bundle", lambda _: None)
    finally:
        for name in ("inner_factors", "outer_factors"):
            sys.modules.pop(name, None)
    monkeypatch.setenv("PYTHONPATH", f"{elsewhere}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert Step(two).is_known
    (elsewhere / "inner_factors.py").write_text("FACTOR = 3.0\n")
    assert Step(two).lines[0] == f"{elsewhere / 'inner_factors.py'} has changed since an earlier build"


def test_a_variable_that_another_library_s_module_asked_for_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a module of the project above both kernels files, which runs once in a process."""
    where = tmp_path / "project"
    rest = "from above_both import FACTOR\nKERNELS = specs([FACTOR])"
    for name in ("one", "two"):
        project(where / name, f"# {name}\n{rest}")
    (where / "above_both.py").write_text("import os\nFACTOR = float(os.environ['FACTOR'])\n")
    aged(where)
    monkeypatch.setenv("FACTOR", "2.0")
    monkeypatch.syspath_prepend(where)
    config = LibraryConfig(kernels="one/kernels.py:KERNELS", sources=("p.cpp",), library="p/libp.so", targets=("sm86",))
    two = "two/kernels.py:KERNELS"
    try:
        for library in (config, dataclasses.replace(config, kernels=two)):
            make_bundle(library, where, tmp_path / "bundle", lambda _: None)
    finally:
        sys.modules.pop("above_both", None)
    monkeypatch.setenv("PYTHONPATH", f"{where}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert Step(where, kernels=two).is_known
    monkeypatch.setenv("FACTOR", "3.0")
    assert Step(where, kernels=two).lines[0] == "$FACTOR has changed since an earlier build"


def test_one_changed_kernel_of_several_is_compiled_alone(tmp_path: Path) -> None:
    where = project(tmp_path / "project", "KERNELS = specs([1.0, 2.0, 3.0, 4.0])")
    assert len(Step(where).compiled) == 4
    edit(where / "kernels.py", "3.0", "5.0")
    assert Step(where).compiled == ["scaled_2#0"]


def test_moved_lines_and_comments_compile_nothing(tmp_path: Path) -> None:
    where = project(tmp_path / "project", "KERNELS = specs([1.0, 2.0])")
    first = Step(where)
    edit(where / "kernels.py", "@triton.jit", "# Multiplies.\n\n\n@triton.jit")
    moved = Step(where)
    assert (moved.is_known, moved.compiled, moved.digest) == (False, [], first.digest)


@pytest.mark.parametrize("damage", ["missing", "changed", "emptied"])
@pytest.mark.parametrize("kind", ["cubins", "builds"])
def test_a_damaged_cache_means_a_full_build(tmp_path: Path, cache: Path, kind: str, damage: str) -> None:
    where = project(tmp_path / "project")
    first = Step(where)
    (file,) = (cache / kind).iterdir()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"?" if damage == "changed" else b"")
    again = Step(where)
    assert (again.is_known, again.digest) == (False, first.digest)
    assert Step(where).is_known


def test_a_file_that_may_have_changed_while_it_was_read_is_not_trusted(tmp_path: Path) -> None:
    where = project(tmp_path / "project")
    future = time.time() + 3600
    os.utime(where / "kernels.py", (future, future))
    Step(where)
    assert not Step(where).is_known


def test_code_of_our_own_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable installation keeps its version while its code changes."""
    ours = tmp_path / "ours"
    for package in ("hatch_tensoracle", "producer", "templates"):
        # Not what other processes may just be writing.
        no_bytecode = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(__file__).parents[1] / package, ours / package, ignore=no_bytecode)
    monkeypatch.setenv("PYTHONPATH", f"{ours}{os.pathsep}{ours / 'producer'}")
    where = project(tmp_path / "project")
    Step(where)
    assert Step(where).is_known
    with (ours / "producer" / "tensoracle_producer" / "render.py").open("a") as file:
        file.write("# changed\n")
    assert not Step(where).is_known


def test_a_file_that_imports_torch_gets_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere" / "torch").mkdir(parents=True)
    (tmp_path / "elsewhere" / "torch" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'elsewhere'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    where = project(tmp_path / "project", "import torch\nKERNELS = specs([2.0])")
    assert Step(where).lines[0].startswith("kernels.py imports torch, which every build then has to install")


def test_errors_of_our_own_are_no_errors_of_the_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with the specs is told with a remedy; a fault in here keeps its traceback."""
    wrong = project(tmp_path / "wrong", "KERNELS = [3]")
    config = LibraryConfig(kernels="kernels.py:KERNELS", sources=("p.cpp",), library="p/libp.so", targets=("sm86",))
    with pytest.raises(ConfigurationError, match=r"kernels.py:KERNELS: specs\[0\] must be a KernelSpec, not 3"):
        make_bundle(config, wrong, tmp_path / "bundle", lambda _: None)

    def broken(*_: Any) -> None:
        raise TypeError("a fault")

    monkeypatch.setattr("tensoracle_producer.variant.capture", broken)
    with pytest.raises(TypeError, match=r"^a fault$"):
        make_bundle(config, project(tmp_path / "right"), tmp_path / "bundle", lambda _: None)


def test_two_builds_at_once_make_the_same(tmp_path: Path) -> None:
    where = project(tmp_path / "project", "KERNELS = specs([1.0, 2.0, 3.0])")
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(Step, where, tmp_path / name) for name in ("one", "two")]
        assert len({run.result().digest for run in runs}) == 1
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert Step(where).is_known


def test_a_wheel_of_an_unchanged_project_is_built_without_its_kernels_file(tmp_path: Path) -> None:
    """Here and from another copy, through the hook."""
    where = copied("flat", tmp_path / "project")
    with (where / "kernels.py").open("a") as file:
        file.write(f"\nopen({str(tmp_path / 'ran')!r}, 'a').write('.')\n")
    aged(where)
    first = hatchling_build(where, tmp_path / "first").artifact
    shutil.copytree(where, tmp_path / "copy")
    again = hatchling_build(tmp_path / "copy", tmp_path / "again")
    assert "compiling nothing: " in again.stderr
    assert (tmp_path / "ran").read_text() == "."
    assert again.artifact.read_bytes() == first.read_bytes()
