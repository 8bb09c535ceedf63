"""Imports run one way, and nothing heavy is imported before it is used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from helpers.tools import run

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Layer:
    """Modules, the layers that they may import from, and packages that their functions may import where they use them.

    Modules of one layer may import one another.
    """

    modules: tuple[str, ...]
    below: tuple[str, ...] = ()
    third_party: tuple[str, ...] = ()


LAYERS = {
    "leaves": Layer(
        tuple(
            f"hatch_tensoracle.{name}"
            for name in (
                "_blocks",
                "_decode",
                "_files",
                "_interrupts",
                "_paths",
                "data_types",
                "errors",
                "targets",
                "tuning",
            )
        ),
        third_party=("platformdirs",),
    ),
    "arrays": Layer(("hatch_tensoracle._arrays",), below=("leaves",), third_party=("numpy",)),
    "process": Layer(("hatch_tensoracle._process",), below=("leaves",)),
    "formats": Layer(
        tuple(f"hatch_tensoracle.{name}" for name in ("_elf_reader", "elf", "manylinux", "ptx")),
        third_party=("elftools",),
    ),
    "manifest": Layer(("hatch_tensoracle.bundle",), below=("leaves",)),
    "code checks": Layer(
        ("hatch_tensoracle.code_checks", "hatch_tensoracle.occupancy"), below=("leaves", "manifest", "formats")
    ),
    "inspection": Layer(
        tuple(
            f"hatch_tensoracle.{name}"
            for name in (
                "_archive",
                "_markup",
                "advice",
                "difference",
                "heat_map",
                "html_report",
                "inspection",
                "library_checks",
                "wheel_checks",
                "report",
                "wheel",
            )
        ),
        below=("leaves", "manifest", "formats", "code checks"),
        third_party=("rich",),
    ),
    "face": Layer(("hatch_tensoracle",), below=("leaves", "manifest", "inspection")),
    "building": Layer(
        tuple(
            f"hatch_tensoracle.{name}"
            for name in (
                *("cmake", "config", "dependencies", "incremental", "kernels_file", "library", "observation"),
                *("build_directory", "overrides", "platform_tag"),
            )
        ),
        below=("leaves", "process", "manifest", "formats", "inspection", "producer"),
        third_party=("filelock",),
    ),
    "front": Layer(
        tuple(
            f"hatch_tensoracle.{name}"
            for name in ("build_hook", "hooks", "cli", "check_command", "tune_command", "__main__")
        ),
        below=("leaves", "manifest", "inspection", "face", "building", "conformance", "runtime", "tune"),
        third_party=("hatchling", "rich"),
    ),
    "conformance": Layer(
        ("hatch_tensoracle.conformance", "hatch_tensoracle.conformance.*"),
        below=("leaves", "testing"),
    ),
    "tune": Layer(
        ("hatch_tensoracle.tune", "hatch_tensoracle.tune.*"),
        below=("leaves", "manifest", "inspection", "testing"),
        third_party=("numpy",),
    ),
    "testing": Layer(
        ("hatch_tensoracle.testing", "hatch_tensoracle.testing.*"),
        below=("leaves", "arrays", "process"),
        third_party=("filelock", "ml_dtypes", "numpy", "platformdirs"),
    ),
    "runtime": Layer(
        ("hatch_tensoracle.runtime", "hatch_tensoracle.runtime.*"),
        below=("leaves", "arrays", "manifest", "formats", "inspection"),
        third_party=("filelock", "matplotlib", "numpy", "platformdirs", "rich"),
    ),
    "convert": Layer(
        ("hatch_tensoracle.convert", "hatch_tensoracle.convert.*"),
        below=("leaves",),
        third_party=("rich", "torch"),
    ),
    "producer": Layer(
        ("tensoracle_producer", "tensoracle_producer.*"),
        below=("leaves", "process", "manifest", "formats", "code checks"),
        third_party=("fsspec", "triton"),
    ),
}
TO_THE_PRODUCER = {"hatch_tensoracle.incremental"}
"""The one place where the hook's package needs the producer's."""
BEFORE_USE = {("hatch_tensoracle.hooks", "hatchling"), ("hatch_tensoracle.build_hook", "hatchling")}
"""Imported with the module: only hatchling imports these."""


@dataclass(frozen=True)
class Import:
    """What a module imports, and whether only a function of it does."""

    importer: str
    module: str
    is_lazy: bool

    @property
    def package(self) -> str:
        """The imported package."""
        return self.module.partition(".")[0]

    @property
    def is_ours(self) -> bool:
        """Whether it is of this repository."""
        return self.package in {"hatch_tensoracle", "tensoracle_producer"}


def parsed() -> dict[str, ast.Module]:
    """Every module of both packages by its dotted name."""
    found = {}
    for package in (ROOT / "hatch_tensoracle", ROOT / "producer" / "tensoracle_producer"):
        for file in sorted(package.rglob("*.py")):
            name = ".".join(file.relative_to(package.parent).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def imports_below(node: ast.AST, importer: str, *, is_lazy: bool = False) -> Iterator[Import]:
    """Imports below the node; those for type checkers alone are left out."""
    match node:
        case ast.Import(names):
            yield from (Import(importer, alias.name, is_lazy) for alias in names)
        case ast.ImportFrom(str() as module, names, 0):
            for alias in names:
                inner = f"{module}.{alias.name}"
                yield Import(importer, inner if inner in MODULES else module, is_lazy)
        case ast.ImportFrom():
            yield Import(importer, "a relative import", is_lazy)
        case ast.If(ast.Name("TYPE_CHECKING")):
            return
        case _:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from imports_below(child, importer, is_lazy=is_lazy or is_function)


MODULES = parsed()
IMPORTS = [found for module, tree in MODULES.items() for found in imports_below(tree, module)]


def layers_of(module: str) -> list[str]:
    return [name for name, layer in LAYERS.items() if any(fnmatchcase(module, pattern) for pattern in layer.modules)]


def layer_of(module: str) -> str:
    (name,) = layers_of(module)
    return name


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_of_one_layer(module: str) -> None:
    assert len(layers_of(module)) == 1


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_what_lies_below_it(layer: str) -> None:
    allowed = {layer, *LAYERS[layer].below}
    wrong = [
        found
        for found in IMPORTS
        if found.is_ours and layer_of(found.importer) == layer and layer_of(found.module) not in allowed
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_uses_only_the_packages_that_it_is_allowed(layer: str) -> None:
    wrong = [
        found
        for found in IMPORTS
        if layer_of(found.importer) == layer
        and not found.is_ours
        and found.package not in sys.stdlib_module_names
        and found.package not in LAYERS[layer].third_party
    ]
    assert wrong == []


def test_what_is_not_of_the_standard_library_is_imported_where_it_is_used() -> None:
    at_once = {
        (found.importer, found.package)
        for found in IMPORTS
        if not found.is_lazy and not found.is_ours and found.package not in sys.stdlib_module_names
    }
    assert at_once == BEFORE_USE


def test_only_the_building_of_a_library_reaches_the_producer() -> None:
    crossing = [
        found
        for found in IMPORTS
        if found.importer.startswith("hatch_tensoracle") and found.package == "tensoracle_producer"
    ]
    assert {found.importer for found in crossing} == TO_THE_PRODUCER
    assert all(found.is_lazy for found in crossing)


def test_the_producer_imports_only_neutral_ground() -> None:
    used = {
        found.module.removeprefix("hatch_tensoracle.")
        for found in IMPORTS
        if found.importer.startswith("tensoracle_producer") and found.package == "hatch_tensoracle"
    }
    assert used <= {
        *("bundle", "code_checks", "data_types", "elf", "errors", "ptx", "targets", "tuning"),
        *("_files", "_interrupts", "_paths", "_process"),
    }


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """As they are loaded: what a function imports comes later."""
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in IMPORTS:
        is_own_package = found.importer.startswith(f"{found.module}.")  # which is loaded first anyway
        if found.is_ours and not found.is_lazy and not is_own_package:
            graph[found.importer].add(found.module)
    assert list(TopologicalSorter(graph).static_order())


def loaded_by(statement: str) -> set[str]:
    """Packages that a fresh process has loaded after the statement."""
    return set(run(sys.executable, "-c", f"import sys; {statement}; print(*sys.modules, sep='\\n')").split())


HEAVY = {"triton", "torch", "tensorrt", "tensorrt_rtx", "hatchling", "numpy", "rich", "elftools", "zipfile"}


@pytest.mark.parametrize(
    ("statement", "also_allowed"),
    [
        pytest.param("import hatch_tensoracle", set(), id="the package"),
        pytest.param("import tensoracle_producer", {"elftools", "zipfile"}, id="the producer"),
        pytest.param("import hatch_tensoracle.cli", set(), id="the command line"),
        pytest.param("from hatch_tensoracle import Bundle, BundleError, TensoracleError", set(), id="the manifest"),
        pytest.param("from hatch_tensoracle import inspect_bundle", {"zipfile"}, id="inspection"),
        pytest.param("import hatch_tensoracle.runtime", set(), id="the runtime"),
        pytest.param("from hatch_tensoracle.runtime import *", set(), id="the runtime's names"),
        pytest.param("import hatch_tensoracle.convert", {"zipfile"}, id="the converter"),
        pytest.param("import hatch_tensoracle.hooks", {"hatchling", "zipfile"}, id="the hook"),
    ],
)
def test_importing_loads_nothing_heavy(statement: str, also_allowed: set[str]) -> None:
    assert loaded_by(statement) & HEAVY <= also_allowed


def test_what_is_loaded_is_seen() -> None:
    """The test above could fail."""
    assert {"numpy", "rich", "zipfile"} <= loaded_by("import numpy, rich, zipfile")
