"""hatch-tensoracle itself: what its wheel and sdist hold, and that they work away from the sources."""

from __future__ import annotations

import email
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from helpers.projects import Environment, contents, hatchling_build, pip_wheel

import hatch_tensoracle
import tensoracle_producer

ROOT = Path(__file__).resolve().parent.parent
VERSION = hatch_tensoracle.__version__
DIST_INFO = f"hatch_tensoracle-{VERSION}.dist-info"
MOVED = {"producer/": "", "cpp/": "hatch_tensoracle/cpp/", "templates/": "hatch_tensoracle/templates/"}
RESOLVE = """
import importlib.metadata, json, sys
sys.path[:0] = sys.argv[1:]
import hatch_tensoracle, tensoracle_producer
from hatch_tensoracle import _paths
(hook,) = importlib.metadata.entry_points(group="hatch", name="tensoracle")
places = (hatch_tensoracle.__file__, tensoracle_producer.__file__, _paths.cpp(), _paths.templates(), hook.value)
print(json.dumps([str(place) for place in places]))
"""


@pytest.fixture(scope="module")
def sources() -> set[str]:
    """Every file of the repository that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in listed if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def checkout(sources: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository without what only this checkout has."""
    directory = tmp_path_factory.mktemp("checkout")
    for name in sources:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, directory / name)
    return directory


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by pip from the tree."""
    return pip_wheel(checkout, tmp_path_factory.mktemp("wheel")).artifact


@pytest.fixture(scope="module")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist."""
    return hatchling_build(checkout, tmp_path_factory.mktemp("sdist"), "sdist").artifact


def in_wheel(source: str) -> str:
    for before, after in MOVED.items():
        if source.startswith(before):
            return after + source.removeprefix(before)
    return source


def test_the_wheel_holds_the_packages_cpp_and_templates_and_nothing_else(wheel: Path, sources: set[str]) -> None:
    shipped = {name for name in sources if name.startswith(("hatch_tensoracle/", *MOVED))}
    metadata = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert set(contents(wheel)) == {in_wheel(name) for name in shipped} | {f"{DIST_INFO}/{name}" for name in metadata}


@pytest.mark.parametrize(
    "name",
    [
        "hatch_tensoracle/py.typed",
        "tensoracle_producer/py.typed",
        "hatch_tensoracle/cpp/include/tensoracle/plugin.hpp",
        "hatch_tensoracle/cpp/src/kernel.cpp",
        "hatch_tensoracle/cpp/cmake/TensoracleCubinPlugin.cmake",
        "hatch_tensoracle/cpp/cmake/exports.map",
        "hatch_tensoracle/templates/CMakeLists.txt",
        "hatch_tensoracle/templates/bundle.cpp",
    ],
)
def test_what_builds_and_type_checks_need_is_in_the_wheel(wheel: Path, name: str) -> None:
    assert name in contents(wheel)


def test_the_wheel_is_pure(wheel: Path) -> None:
    assert wheel.name == f"hatch_tensoracle-{VERSION}-py3-none-any.whl"


def test_the_metadata_asks_for_little(wheel: Path) -> None:
    metadata = email.message_from_bytes(contents(wheel)[f"{DIST_INFO}/METADATA"])
    required = metadata.get_all("Requires-Dist", [])
    assert metadata["Version"] == VERSION
    assert {line.split(">")[0] for line in required if "extra ==" not in line} == {
        "numpy",
        "pyelftools",
        "filelock",
        "platformdirs",
        "rich",
    }
    extras = {"producer", "tensorrt", "rtx", "convert", "plot", "dask", "fsspec", "test"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras


def test_the_sdist_holds_the_repository(sdist: Path, sources: set[str]) -> None:
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert names == sources | {"PKG-INFO"}


def test_the_wheel_of_the_sdist_is_that_of_the_tree(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    assert contents(pip_wheel(sdist, tmp_path).artifact) == contents(wheel)


def test_an_installed_wheel_finds_its_files_and_is_found_by_hatchling(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*command, str(wheel)], check=True)
    # -S: without the environment, which leads to the sources.
    command = [sys.executable, "-I", "-S", "-c", RESOLVE, str(target)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        str(target / "hatch_tensoracle/__init__.py"),
        str(target / "tensoracle_producer/__init__.py"),
        str(target / "hatch_tensoracle/cpp"),
        str(target / "hatch_tensoracle/templates"),
        "hatch_tensoracle.hooks",
    ]


def test_an_editable_install_finds_its_files_in_the_tree(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    tree = tmp_path / f"hatch_tensoracle-{VERSION}"
    environment = Environment(tmp_path / "venv")
    environment.install("--editable", str(tree))
    assert json.loads(environment.run("-c", RESOLVE, directory=tmp_path)) == [
        str(tree / "hatch_tensoracle/__init__.py"),
        str(tree / "producer/tensoracle_producer/__init__.py"),
        str(tree / "cpp"),
        str(tree / "templates"),
        "hatch_tensoracle.hooks",
    ]


def test_the_public_names_are_these() -> None:
    assert sorted(hatch_tensoracle.__all__) == [
        "Bundle",
        "BundleError",
        "TensoracleError",
        "__version__",
        "inspect_bundle",
        "inspect_wheel",
    ]
    assert sorted(tensoracle_producer.__all__) == [
        "CaptureError",
        "CompileError",
        "Config",
        "Failure",
        "KernelSpec",
        "Pointer",
        "ProducerError",
        "Scalar",
        "ToolchainError",
        "compile_bundle",
    ]


@pytest.mark.parametrize("package", [hatch_tensoracle, tensoracle_producer], ids=lambda package: package.__name__)
def test_every_public_name_is_there(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is not None


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'hatch_tensoracle' has no attribute 'inspect'"):
        hatch_tensoracle.inspect  # noqa: B018


@pytest.mark.parametrize("package", ["hatch_tensoracle", "hatch_tensoracle.inspection", "tensoracle_producer"])
def test_importing_loads_nothing_heavy(package: str) -> None:
    program = f"import sys, {package}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"hatchling", "numpy", "onnx", "rich", "tensorrt", "tensorrt_rtx", "torch", "triton"}
    assert set(done.stdout.split()) & heavy == set()
