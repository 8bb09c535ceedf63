"""The command line: `hatch-tensoracle inspect`, `diff`, `check`, `tune`, `build`, `cache` and `cmake-dir`."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hatch_tensoracle
from hatch_tensoracle import check_command, tune_command
from hatch_tensoracle.errors import BundleError, ConfigurationError, LibraryError, TensoracleError
from hatch_tensoracle.runtime import cache_command

__all__ = ["main"]

_DEFECTS = 1
_DIFFERENT = 1
_USAGE = 2
_INTERRUPTED, _BROKEN_PIPE = 128 + signal.SIGINT, 128 + signal.SIGPIPE
"""What a shell gives a program that the signal ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0, 1 if what was looked at or built is wrong, 2 for wrong usage, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="hatch-tensoracle", description=hatch_tensoracle.__doc__)
    parser.add_argument("--version", action="version", version=f"%(prog)s {hatch_tensoracle.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for register in (
        _register_inspect,
        _register_diff,
        check_command.register,
        tune_command.register,
        _register_build,
        cache_command.register,
        _register_cmake_dir,
    ):
        register(commands)
    options = vars(parser.parse_args(arguments))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names in any script, on terminals of one
    run: Callable[..., int] = options.pop("run")
    try:
        status = run(**options)
        sys.stdout.flush()
    except TensoracleError as error:
        print("\n".join(filter(None, (f"hatch-tensoracle: {error}", error.remedy))), file=sys.stderr)
        return _USAGE if isinstance(error, ConfigurationError) else _DEFECTS
    except BrokenPipeError:  # whoever read the output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:  # a path that cannot be read or written
        print(f"hatch-tensoracle: {error}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        print("hatch-tensoracle: stopped", file=sys.stderr)
        return _INTERRUPTED
    return status


def _register_inspect(commands: Any) -> None:
    parser = commands.add_parser(
        "inspect",
        help="verify wheels, bundle directories and plugin libraries",
        description="Verify wheels, bundle directories and plugin libraries. Exit: 0 no defect, 1 defects, 2 usage.",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a .whl, a bundle directory or a .so")
    parser.add_argument("--plugin", metavar="LIBRARY", help="the library of a bundle directory, or its path in a wheel")
    parser.add_argument("--strict", action="store_true", help="count advice (docs/inspection.md) as defects")
    parser.add_argument("--format", choices=("text", "json", "github", "html"), default="text")
    parser.set_defaults(run=inspect)


def inspect(*, paths: Sequence[Path], plugin: str | None, strict: bool, format: str) -> int:  # noqa: A002 - the option's name
    """Inspect every path and print one report."""
    from hatch_tensoracle import report
    from hatch_tensoracle.html_report import to_html

    for path in paths:
        if not path.exists():
            raise ConfigurationError(f"{path} does not exist")
    findings = [_inspect_one(path, plugin) for path in paths]
    forms = {"text": report.to_text, "json": report.to_json, "github": report.to_github, "html": to_html}
    sys.stdout.write(forms[format](findings, strict=strict))
    return _DEFECTS if any(finding.counted(strict=strict) for finding in findings) else 0


def _inspect_one(path: Path, plugin: str | None) -> Any:
    from hatch_tensoracle import advice, inspection
    from hatch_tensoracle._files import open_regular
    from hatch_tensoracle.report import Finding

    advised: list[advice.Advice] = []
    if path.is_dir():
        bundle, defects = inspection.collect(inspection.check_bundle(path, Path(plugin) if plugin else None))
    elif path.suffix == ".whl":
        bundles, defects = inspection.collect(inspection.check_wheel(path, plugin))
        with contextlib.suppress(BundleError):  # which is among the defects then
            advised += advice.advise_wheel(path, bundles or {})
        return Finding(path=str(path), bundles=bundles or {}, defects=defects, advice=advised)
    else:
        try:
            with open_regular(path) as stream:
                bundle, defects = inspection.collect(inspection.check_library(stream, str(path)))
            advised += advice.advise_file(path)
        except OSError as error:
            bundle, defects = None, [LibraryError(f"cannot be read: {error.strerror}", where=str(path))]
    if bundle is not None:
        advised += advice.advise_bundle(bundle, str(path))
    found = {str(path): bundle} if bundle is not None else {}
    return Finding(path=str(path), bundles=found, defects=defects, advice=advised)


def _register_diff(commands: Any) -> None:
    parser = commands.add_parser(
        "diff",
        help="compare two wheels, bundle directories or plugin libraries",
        description="Compare the kernels of two wheels, bundle directories or plugin libraries. Exit: 0 no difference,"
        " 1 differences, 2 usage, or a side that has defects.",
    )
    parser.add_argument("before", type=Path, metavar="A", help="a .whl, a bundle directory or a .so")
    parser.add_argument("after", type=Path, metavar="B", help="another")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(run=diff)


def diff(*, before: Path, after: Path, format: str) -> int:  # noqa: A002 - the option's name
    """Print what differs."""
    from hatch_tensoracle.difference import compare, comparison_json, comparison_text, read_artifact

    for path in (before, after):
        if not path.exists():
            raise ConfigurationError(f"{path} does not exist")
    try:
        left, right = read_artifact(before), read_artifact(after)
    except BundleError as defect:
        remedy = "Inspect it, which lists all of its defects."
        raise ConfigurationError(f"{defect.id}: {defect}", remedy=remedy) from defect
    changes = compare(left, right)
    sys.stdout.write(comparison_json(left, right, changes) if format == "json" else comparison_text(changes))
    return _DIFFERENT if changes else 0


def _register_build(commands: Any) -> None:
    parser = commands.add_parser(
        "build",
        help="build library and bundle of a project without a wheel",
        description="Build a project's library at its path in the wheel below OUTPUT, beside its bundle directory.",
    )
    parser.add_argument(
        "project", nargs="?", type=Path, default=Path(), help="directory of pyproject.toml (default: .)"
    )
    parser.add_argument("--output", type=Path, default=Path("build"), help="directory to write to (default: build)")
    parser.set_defaults(run=build)


def build(*, project: Path, output: Path) -> int:
    """Build every library that the project configures."""
    from hatch_tensoracle.build_directory import workspace
    from hatch_tensoracle.config import HookConfig
    from hatch_tensoracle.library import make_library

    def report(line: str) -> None:
        print(line, file=sys.stderr)

    config = HookConfig.from_table(_hook_table(project), os.environ)
    config.check_files(project)
    with workspace(config, project, report) as directory:
        for number, library in enumerate(config.libraries):
            where = output if len(config.libraries) == 1 else output / str(number)
            kept = directory / str(number) / "cmake"
            bundle = make_library(library, project, where, report, jobs=config.jobs, verbose=config.verbose, kept=kept)
            print(f"{where / library.library}: bundle {bundle.digest}")
    return 0


def _hook_table(project: Path) -> dict[str, Any]:
    """The table that hatchling hands to the hook of a wheel."""
    try:
        from hatchling.builders.wheel import WheelBuilder
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed", remedy="Install hatch-tensoracle[producer]."
        ) from error

    if not (project / "pyproject.toml").is_file():
        raise ConfigurationError(f"{project} has no pyproject.toml", remedy="Name the directory of a project.")
    try:
        table: dict[str, Any] = WheelBuilder(str(project)).config.hook_config.get("tensoracle", {})
    except (OSError, TypeError, ValueError) as error:  # of which the last is that of tomllib too
        raise ConfigurationError(f"{project / 'pyproject.toml'}: {error}") from error
    if not table:
        raise ConfigurationError(
            f"{project} configures no build hook `tensoracle`",
            remedy="Add a table [tool.hatch.build.targets.wheel.hooks.tensoracle] to its pyproject.toml.",
        )
    return table


def _register_cmake_dir(commands: Any) -> None:
    parser = commands.add_parser(
        "cmake-dir",
        help="print the directory of TensoracleCubinPlugin.cmake",
        description="Print the directory to give CMake: include(<dir>/TensoracleCubinPlugin.cmake).",
    )
    parser.set_defaults(run=cmake_dir)


def cmake_dir() -> int:
    """Print where the CMake function lies."""
    from hatch_tensoracle._paths import cpp

    print(cpp() / "cmake")
    return 0
