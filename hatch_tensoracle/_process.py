"""Runs the tools of the build environment."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shlex
import shutil
import signal
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from hatch_tensoracle.errors import BuildError

__all__ = ["cxx_compiler", "run", "tool_of"]

_GRACE = 10.0
"""Seconds in which a tool that is to end may do so by itself."""


def run(
    command: Sequence[str | Path], *, what: str, remedy: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. If it fails, BuildError shows it, its exit status and all that it printed.

    After a keyboard interrupt nothing that it has started goes on.
    """
    arguments = [str(part) for part in command]
    try:
        process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            text=True,
            errors="replace",
            process_group=0,  # of its own, to be ended as a whole
        )
    except OSError as error:
        message = f"{what} could not be started: {error}"
        raise BuildError(message, remedy=remedy) from error
    with process:
        try:
            output, _ = process.communicate()
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        shown = shlex.join(arguments)
        message = f"{what} failed with status {process.returncode}:\n  {shown}\n{textwrap.indent(output.strip(), '  ')}"
        raise BuildError(message, remedy=remedy)
    return subprocess.CompletedProcess(arguments, process.returncode, output)


def _end(process: subprocess.Popen[str]) -> None:
    """End a tool with all that it has started, and return when none of them has its output open any more.

    Ninja, which has each compiler in a process group of its own, passes SIGTERM on to them and waits; of SIGKILL it
    would hear nothing.
    """
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=_GRACE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(process.pid, signal.SIGKILL)


def tool_of(distribution: str, name: str) -> Path:
    """Find a program that an installed distribution brings, wherever its environment lies.

    Under pip's build isolation and in an environment that was not activated, PATH leads to other programs of the same
    name or to none. Raises PackageNotFoundError or FileNotFoundError.
    """
    files = importlib.metadata.files(distribution) or ()
    # Inside the package first: the one among the environment's scripts may be a script that starts it.
    for file in sorted(files, key=lambda file: ".." in file.parts):
        if file.name == name and file.parent.name == "bin":
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return path
    message = f"{name} of {distribution}"
    raise FileNotFoundError(message)


def cxx_compiler() -> list[str]:
    """Find the author's C++ compiler: the variable CXX, else the first of c++, g++ and clang++ on PATH.

    Raises BuildError.
    """
    named = shlex.split(os.environ.get("CXX", ""))
    for command in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    raise BuildError(
        f"no C++ compiler: {f'{named[0]} of the variable CXX' if named else 'c++, g++, clang++'} not on PATH",
        remedy="Install one, such as Debian's package g++, or name it in the variable CXX.",
    )
