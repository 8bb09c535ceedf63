"""Makes the folder that the tests on a GPU take their libraries from: `python tests/gpu/pack.py [DIRECTORY]`.

The folder and a checkout are all that a machine with a GPU needs beside Python, NumPy, pytest and g++: the libraries
are built here, and what the harness imports lies in `python/`.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "example_plugin"
CARRIED = ("filelock", "platformdirs")
"""What hatch_tensoracle.testing imports, of pure Python."""
OLDER = ("sm86", "sm89")
"""What no GPU from SM 9.0 on runs cubins of."""


def main() -> None:
    """Build every library of the folder."""
    from hatch_tensoracle.config import HookConfig
    from hatch_tensoracle.library import make_library

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--targets", default="", help="such as sm80,sm90; left out, those of the example")
    options = parser.parse_args()

    table = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))
    hooks = table["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    (example,) = HookConfig.from_table(hooks["tensoracle"]).libraries
    targets = tuple(options.targets.split(",")) if options.targets else example.targets
    libraries = {
        "all": dataclasses.replace(example, targets=targets),
        "older": dataclasses.replace(example, targets=OLDER),
        "ptx": dataclasses.replace(example, targets=OLDER, ptx=OLDER[-1]),  # which such a GPU's driver compiles
    }

    options.directory.mkdir(parents=True, exist_ok=True)
    for name, config in libraries.items():
        with tempfile.TemporaryDirectory() as output:
            make_library(config, EXAMPLE, Path(output), lambda line: print(line, file=sys.stderr))
            built = (Path(output) / config.library).parent
            shutil.copytree(built, options.directory / name, dirs_exist_ok=True)
    for package in CARRIED:
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        kept = options.directory / "python" / package
        shutil.copytree(
            Path(found.origin).parent, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    size = sum(path.stat().st_size for path in options.directory.rglob("*") if path.is_file())
    print(f"{options.directory}: {size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
