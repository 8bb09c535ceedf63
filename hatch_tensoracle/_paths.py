"""Finds the files that ship with the package: C++ sources and templates."""

from __future__ import annotations

from pathlib import Path

__all__ = ["cpp", "templates"]

_PACKAGE = Path(__file__).resolve().parent


def cpp() -> Path:
    """The launcher: include/, src/ and cmake/."""
    return _find("cpp")


def templates() -> Path:
    """What is rendered into bundles and builds."""
    return _find("templates")


def _find(name: str) -> Path:
    # Inside the package when installed from a wheel, beside it in a source tree or editable install.
    for directory in (_PACKAGE / name, _PACKAGE.parent / name):
        if directory.is_dir():
            return directory
    message = f"{_PACKAGE / name} is missing: the installation of hatch-tensoracle is damaged"
    raise FileNotFoundError(message)
