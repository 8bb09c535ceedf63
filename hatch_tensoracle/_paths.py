"""Finds the files that ship with the package, and the user's cache directory."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_directory", "cpp", "templates"]

_PACKAGE = Path(__file__).resolve().parent


def cpp() -> Path:
    """The launcher: include/, src/ and cmake/."""
    return _find("cpp")


def templates() -> Path:
    """What is rendered into bundles and builds."""
    return _find("templates")


def cache_directory() -> Path:
    """What may be deleted at any time: the variable TENSORACLE_CACHE_DIR, or else where the system keeps caches."""
    from platformdirs import user_cache_path

    return Path(os.environ.get("TENSORACLE_CACHE_DIR") or user_cache_path("hatch-tensoracle"))


def _find(name: str) -> Path:
    # Inside the package when installed from a wheel, beside it in a source tree or editable install.
    for directory in (_PACKAGE / name, _PACKAGE.parent / name):
        if directory.is_dir():
            return directory
    message = f"{_PACKAGE / name} is missing: the installation of hatch-tensoracle is damaged"
    raise FileNotFoundError(message)
