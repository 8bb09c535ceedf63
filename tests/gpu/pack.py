"""Makes the folder of libraries for tests and benchmarks on a GPU: `python tests/gpu/pack.py [DIRECTORY]`.

The folder and a checkout are all that a machine with a GPU needs beside Python, NumPy, pytest and g++: the libraries
are built here, and what the harness imports lies in `python/`. The kernels are compiled by the Triton of this
environment: to compare them with Triton's JIT, it should be the version over there.
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

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "example_plugin"
CARRIED = ("filelock", "platformdirs")
"""What hatch_tensoracle.testing imports, of pure Python."""
OLDER = ("sm86", "sm89")
"""What no GPU from SM 9.0 on runs cubins of."""


def main() -> None:
    """Make the folder and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument(
        "--targets", nargs="+", default=(), metavar="TARGET", help="such as sm80 sm90; left out, those of the example"
    )
    options = parser.parse_args()
    for name, (root, config) in libraries(options.targets).items():
        pack_library(options.directory / name, root, config)
        if name in {"older", "ptx"}:
            shutil.rmtree(options.directory / name / "bundle")  # only benchmarks read bundles, and not these
    pack_python(options.directory / "python")
    size = sum(file.stat().st_size for file in options.directory.rglob("*") if file.is_file())
    print(f"{options.directory}: {size / 2**20:.0f} MiB")


def libraries(targets: Sequence[str] = ()) -> dict[str, tuple[Path, LibraryConfig]]:
    """Project and configuration of each library, by the directory that it goes to. No targets are the example's."""
    table = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))
    hooks = table["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    (example,) = HookConfig.from_table(hooks["tensoracle"]).libraries
    example = dataclasses.replace(example, targets=tuple(targets) or example.targets)
    older = dataclasses.replace(example, targets=OLDER)
    launch = LibraryConfig(
        kernels="launch_kernels.py:KERNELS",
        sources=("plugins.cpp",),
        library="launch/liblaunch.so",
        targets=example.targets,
    )
    return {
        "example": (EXAMPLE, example),
        "older": (EXAMPLE, older),
        "ptx": (EXAMPLE, dataclasses.replace(older, ptx=OLDER[-1])),  # which such a GPU's driver compiles
        "launch": (ROOT / "benchmarks" / "gpu", launch),
    }


def pack_library(directory: Path, root: Path, config: LibraryConfig) -> None:
    """A project's library, with `bundle/` beside it."""
    bundle = make_library(config, root, directory, lambda line: print(line, file=sys.stderr))
    tools = ", ".join(f"{tool} {version}" for tool, version in bundle.tools.items())
    print(f"{directory / config.library}: kernels by {tools}")


def pack_python(directory: Path) -> None:
    """The packages, as they are installed here."""
    for name in CARRIED:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).parent
        shutil.copytree(source, directory / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    main()
