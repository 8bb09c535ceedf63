"""Makes the directory that measure.py takes to a machine with a GPU: `pack_libraries.py DIRECTORY`.

Libraries with their bundles, and the pure-Python packages that `hatch_tensoracle.testing` needs. The kernels are
compiled by the Triton of this environment: for the comparison with Triton's JIT, it should be the version over there.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from hatch_tensoracle.config import HookConfig, LibraryConfig
from hatch_tensoracle.library import make_library

__all__ = ["libraries", "main", "pack_library", "pack_python"]

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "example_plugin"
TARGETS = ("sm86", "sm89", "sm90", "sm120")
PACKAGES = ("filelock", "platformdirs")


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the directory and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), metavar="TARGET")
    options = parser.parse_args(arguments)
    for name, (root, config) in libraries().items():
        pack_library(options.directory / name, root, config, options.targets)
    pack_python(options.directory / "python")
    size = sum(file.stat().st_size for file in options.directory.rglob("*") if file.is_file())
    print(f"{options.directory}: {size / 1e6:.1f} MB")


def libraries() -> dict[str, tuple[Path, LibraryConfig]]:
    """Project and configuration of each library, by the directory that it goes to."""
    with (EXAMPLE / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["tensoracle"]
    (example,) = HookConfig.from_table(table).libraries
    launch = LibraryConfig(kernels="kernels.py:KERNELS", sources=("plugins.cpp",), library="launch/liblaunch.so")
    return {"example": (EXAMPLE, example), "launch": (HERE, launch)}


def pack_library(directory: Path, root: Path, config: LibraryConfig, targets: Sequence[str]) -> None:
    """A project's library, with `bundle/` beside it."""
    chosen = dataclasses.replace(config, targets=tuple(targets))
    bundle = make_library(chosen, root, directory, lambda line: print(line, file=sys.stderr))
    tools = ", ".join(f"{tool} {version}" for tool, version in bundle.tools.items())
    print(f"{config.library}: kernels by {tools}")


def pack_python(directory: Path) -> None:
    """The packages, as they are installed here."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).parent
        shutil.copytree(source, directory / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    main()
