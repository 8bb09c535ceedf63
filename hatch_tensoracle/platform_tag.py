"""The platform part of a wheel's tag: what was asked for, verified against the libraries."""

from __future__ import annotations

import contextlib
import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from hatch_tensoracle.elf import LibraryImage
from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.manylinux import NEWEST_MINOR, misfits, oldest_minor

__all__ = ["check_platform", "platform_tag"]

_PLATFORM = "linux-x86_64"
_HOST = "_PYTHON_HOST_PLATFORM"
"""What cross-compiling frontends set; sysconfig returns it."""


def check_platform() -> None:
    """Raise ConfigurationError unless wheels are for Linux on x86-64 here."""
    found = sysconfig.get_platform()
    if found == _PLATFORM:
        return
    said = f" by the variable {_HOST}" if os.environ.get(_HOST) == found else ""
    raise ConfigurationError(
        f"wheels can be built on {_PLATFORM} only, this is {found}{said}",
        remedy="Build on Linux x86_64, in a container for example.",
    )


def platform_tag(asked: str, libraries: Mapping[str, Path]) -> str:
    """Return the tag for the value of the option `platform-tag`; the libraries are files by their paths in the wheel.

    Raises ConfigurationError where they need more than the tag promises, ElfError.
    """
    if asked == "linux":
        return "linux_x86_64"
    with contextlib.ExitStack() as stack:
        images = {name: LibraryImage(stack.enter_context(path.open("rb"))) for name, path in libraries.items()}
        minor = oldest_minor(images.values()) if asked == "auto" else int(asked.rpartition("_")[2])
        beyond = {name: misfits(image, NEWEST_MINOR if minor is None else minor) for name, image in images.items()}
    for name, needs in beyond.items():
        if needs:
            raise ConfigurationError(
                f"Option `platform-tag` for build hook `tensoracle` is {asked!r}, but {name} needs {', '.join(needs)}",
                remedy="Link without these libraries, or use the tag `linux`."
                if minor is None
                else "Build where the system is as old, such as in the image of that manylinux, or use the tag `auto`.",
            )
    return f"manylinux_2_{minor}_x86_64"
