"""The command `hatch-tensoracle tune`: configurations are measured on a GPU."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hatch_tensoracle.errors import ConfigurationError

__all__ = ["register", "tune"]


def register(commands: Any) -> None:
    """Add the command to those of the program."""
    parser = commands.add_parser(
        "tune",
        help="measure which configuration of a kernel is the fastest, by shape",
        description="Measure every configuration of the plugins' kernels on this machine's GPU, and write which is the"
        " fastest for which shapes. A run that was stopped goes on when it is started again. Exit: 0 all is measured,"
        " 1 something failed, 2 usage, 130 stopped by Ctrl-C.",
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="a .so, with its manifest beside it, or a .whl")
    parser.add_argument("--cases", type=Path, required=True, help="TOML file: plugins, and the sizes to measure")
    parser.add_argument("--output", type=Path, default=Path("tuning.json"), help="(default: tuning.json)")
    parser.add_argument("--plugin", metavar="LIBRARY", help="the library's path in a wheel that holds several")
    parser.add_argument("--restart", action="store_true", help="forget what the journal beside OUTPUT has")
    parser.set_defaults(run=tune)


def tune(*, path: Path, cases: Path, output: Path, plugin: str | None, restart: bool) -> int:
    """Measure the cases and write tuning.json."""
    from hatch_tensoracle.tune import opened, read_cases
    from hatch_tensoracle.tune import tune as measure

    if not path.is_file():
        raise ConfigurationError(f"{path} is no file", remedy="Name a plugin library or a wheel.")
    known = read_cases(cases)
    with opened(path, plugin) as (library, bundle, label):
        try:
            with _lines() as show:
                measure(library, bundle, known, output, show, restart=restart, label=label)
        except KeyboardInterrupt:
            print("the same command goes on from here", file=sys.stderr)
            raise
    print(f"wrote {output}")
    return 0


@contextlib.contextmanager
def _lines() -> Iterator[Callable[[str], None]]:
    """Lines as they come; on a terminal, where rich is installed, with a sign that it goes on."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        yield lambda line: print(line, flush=True)
        return
    console = Console(highlight=False)
    with console.status("measuring"):  # which is nothing where stdout is no terminal
        yield lambda line: console.print(line, markup=False, emoji=False, soft_wrap=True)
