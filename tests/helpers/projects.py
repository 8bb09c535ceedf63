"""Mini projects, and the real tools that build them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "PACKAGES",
    "Environment",
    "Outcome",
    "build_with",
    "contents",
    "copied",
    "edit",
    "hatchling_build",
    "pip_wheel",
    "tree",
]

PACKAGES = Path(__file__).resolve().parent.parent / "packages"
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.so", "*.bundle.json", "build", "dist")


def copied(project: str | Path, to: Path) -> Path:
    """Copy a project, one of PACKAGES if it is given by name, as it would be checked out."""
    return shutil.copytree(PACKAGES / project, to, ignore=_NOT_COPIED)


def edit(file: Path, old: str, new: str) -> None:
    """Replace the one place of a file that has `old`."""
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
    file.write_text(text.replace(old, new), encoding="utf-8")


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, with its bytes."""
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def contents(wheel: Path) -> dict[str, bytes]:
    """Every file in a wheel, with its bytes."""
    with zipfile.ZipFile(wheel) as archive:
        assert len(set(archive.namelist())) == len(archive.namelist())
        return {name: archive.read(name) for name in archive.namelist()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a build printed, and what it left in its output directory."""

    status: int
    stdout: str
    stderr: str
    artifacts: tuple[Path, ...]

    @property
    def artifact(self) -> Path:
        """The one file of a build that went well."""
        assert self.status == 0, self.stdout + self.stderr
        (artifact,) = self.artifacts
        return artifact

    @property
    def errors(self) -> list[str]:
        """The lines of a failed build after its progress: cause and remedy, never a traceback."""
        assert self.status == 1, self.stdout + self.stderr
        assert self.artifacts == ()
        assert "Traceback" not in self.stderr
        lines = self.stderr.splitlines()
        return lines[max((i + 1 for i, line in enumerate(lines) if _is_progress(line)), default=0) :]


def _is_progress(line: str) -> bool:
    return line.startswith(("tensoracle: compiling", "tensoracle: building", "tensoracle: inspecting", "tensoracle: ["))


def pip_wheel(
    project: Path, to: Path, *, links: Path | None = None, variables: Mapping[str, str] | None = None
) -> Outcome:
    """Build a wheel with pip: in isolation with packages of the directory `links` and the index, else here."""
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--wheel-dir", str(to)]
    command += ["--no-build-isolation", "--no-index"] if links is None else ["--find-links", str(links)]
    # A path, never a name: pip would look for a name in its index.
    return build_with([*command, str(project.resolve())], to, variables)


def hatchling_build(
    project: Path, to: Path, target: str = "wheel", *, variables: Mapping[str, str] | None = None, umask: int = -1
) -> Outcome:
    """Build a target with hatchling, whose output has no frame of a frontend around it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(to)]
    return build_with(command, to, variables, directory=project, umask=umask)


def build_with(
    command: Sequence[str],
    to: Path,
    variables: Mapping[str, str] | None = None,
    *,
    directory: Path | None = None,
    umask: int = -1,
) -> Outcome:
    """Run a command that builds into the directory `to`."""
    environment = os.environ | dict(variables or {})
    done = subprocess.run(
        command, cwd=directory, env=environment, umask=umask, capture_output=True, text=True, check=False
    )
    artifacts = tuple(sorted(to.iterdir())) if to.is_dir() else ()
    return Outcome(status=done.returncode, stdout=done.stdout, stderr=done.stderr, artifacts=artifacts)


class Environment:
    """A throw-away virtual environment that sees all that this one has."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, symlinks=True)
        self.python = directory / "bin" / "python"
        (self.packages,) = directory.glob("lib/python*/site-packages")
        # --system-site-packages would lead to what this environment itself was made from.
        lines = (f"import site; site.addsitedir({path!r})\n" for path in sys.path if path.endswith("site-packages"))
        (self.packages / "outer.pth").write_text("".join(lines), encoding="utf-8")

    def run(self, *arguments: str, directory: Path | None = None) -> str:
        """Run Python; return what it printed to stdout."""
        done = subprocess.run(
            [str(self.python), *arguments], cwd=directory, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def install(self, *arguments: str) -> None:
        """Install with pip, from files only."""
        self.run(
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--ignore-installed",
            *arguments,
        )
