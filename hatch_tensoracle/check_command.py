"""The command `hatch-tensoracle check`: plugins are walked through TensorRT's contract."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatch_tensoracle.errors import ConfigurationError

__all__ = ["check", "register"]

_DEFECTS = 1


def register(commands: Any) -> None:
    """Add the command to those of the program."""
    parser = commands.add_parser(
        "check",
        help="walk the plugins of a library through TensorRT's contract",
        description="Walk the plugins of a library or a wheel through TensorRT's plugin contract, on a fake CUDA driver"
        " or a GPU. Exit: 0 nothing is wrong, 1 a check failed, 2 usage.",
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="a .so or a .whl")
    parser.add_argument("--cases", type=Path, required=True, help="TOML file: fields and inputs that plugins accept")
    parser.add_argument("--plugin", metavar="LIBRARY", help="the library's path in a wheel that holds several")
    parser.add_argument("--gpu", action="store_true", help="run on this machine's GPU instead of the fake driver")
    parser.add_argument("--sm", default="sm89", help="what the fake driver is (default: sm89)")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for a case (default: 120)")
    parser.add_argument("--format", choices=("text", "json", "github"), default="text")
    parser.set_defaults(run=check)


def check(  # noqa: PLR0913 - the options
    *,
    path: Path,
    cases: Path,
    plugin: str | None,
    gpu: bool,
    sm: str,
    timeout: float,
    format: str,  # noqa: A002 - the option's name
) -> int:
    """Make every check of every case and print each as it ends, on GitHub those that failed, or all as JSON."""
    from hatch_tensoracle.conformance import read_cases, walk
    from hatch_tensoracle.report import REPORT_VERSION, annotation

    if not path.is_file():
        raise ConfigurationError(f"{path} is no file", remedy="Name a plugin library or a wheel.")
    known = read_cases(cases)
    outcomes = []
    driver = "real" if gpu else f"sm{sm.removeprefix('sm')}"
    with _library_file(path, plugin) as (library, label):
        for outcome in walk(library, known, driver, timeout=timeout, label=label):
            outcomes.append(outcome)
            if format == "text":
                _print_outcome(outcome)
            elif format == "github" and outcome.cause is not None:
                message = f"{outcome.case}: {outcome.cause}"
                print(annotation("error", str(path), outcome.check, message, outcome.remedy), flush=True)
    failed = sum(outcome.cause is not None for outcome in outcomes)
    skipped = sum(bool(outcome.skipped) for outcome in outcomes)
    if format == "json":
        artifacts = [{"path": str(path), "outcomes": [dataclasses.asdict(outcome) for outcome in outcomes]}]
        print(json.dumps({"version": REPORT_VERSION, "artifacts": artifacts}, indent=2))
    else:
        print(f"{path}: {len(outcomes) - skipped} checks, {failed} failed, {skipped} not made")
    return _DEFECTS if failed else 0


def _print_outcome(outcome: Any) -> None:
    word = "FAIL" if outcome.cause is not None else "none" if outcome.skipped else "ok"
    details = [*(outcome.cause or "").splitlines(), outcome.remedy, outcome.skipped]
    print(
        f"{word:4} {outcome.case}: {outcome.check}", *(f"     {line}" for line in details if line), sep="\n", flush=True
    )


@contextlib.contextmanager
def _library_file(path: Path, plugin: str | None) -> Iterator[tuple[Path, str]]:
    """The library as a file, itself or a copy of the one in a wheel; and what to call it."""
    if path.suffix != ".whl":
        yield path, str(path)
        return
    from hatch_tensoracle.inspection import inspect_wheel
    from hatch_tensoracle.wheel import Wheel

    names = list(inspect_wheel(path, plugin))
    if len(names) != 1:  # a wheel without any is an error of inspection
        raise ConfigurationError(f"{path} holds {', '.join(names)}", remedy="Choose one with --plugin.")
    with tempfile.TemporaryDirectory() as directory, Wheel(path) as wheel:
        yield wheel.extract(names[0], Path(directory)), f"{path}: {names[0]}"
