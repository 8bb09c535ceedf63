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

__all__ = ["main", "pack_libraries", "pack_python"]

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
    pack_libraries(options.directory, options.targets)
    pack_python(options.directory / "python")
    size = sum(file.stat().st_size for file in options.directory.rglob("*") if file.is_file())
    print(f"{options.directory}: {size / 1e6:.1f} MB")


def pack_libraries(directory: Path, targets: Sequence[str]) -> None:
    """`example/` and `launch/`, each with `bundle/` and its library."""
    from hatch_tensoracle.config import HookConfig, LibraryConfig
    from hatch_tensoracle.library import make_library

    with (EXAMPLE / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["tensoracle"]
    (example,) = HookConfig.from_table(table).libraries
    launch = LibraryConfig(kernels="kernels.py:KERNELS", sources=("plugins.cpp",), library="launch/liblaunch.so")
    for name, config, root in (("example", example, EXAMPLE), ("launch", launch, HERE)):
        chosen = dataclasses.replace(config, targets=tuple(targets))
        bundle = make_library(chosen, root, directory / name, lambda line: print(line, file=sys.stderr))
        print(f"{name}: kernels by {', '.join(f'{tool} {version}' for tool, version in bundle.tools.items())}")


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
