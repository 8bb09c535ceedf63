"""Which manylinux tags a library fits: decided by the versions of the system's symbols that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hatch_tensoracle.elf import LibraryImage

__all__ = ["NEWEST_MINOR", "manylinux_minor", "misfits", "oldest_minor"]

_PROMISED = {
    5: {"GLIBCXX": (3, 4, 8), "CXXABI": (1, 3, 1), "GCC": (4, 2, 0)},
    12: {"GLIBCXX": (3, 4, 13), "CXXABI": (1, 3, 3), "GCC": (4, 3, 0)},
    17: {"GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 8, 0)},
    24: {"GLIBCXX": (3, 4, 22), "CXXABI": (1, 3, 10), "GCC": (4, 8, 0)},
    27: {"GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)},
    31: {"GLIBCXX": (3, 4, 28), "CXXABI": (1, 3, 12), "GCC": (7, 0, 0)},
    34: {"GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)},
    35: {"GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)},
    39: {"GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14, 0, 0)},
}
"""What systems with glibc 2.N have of libstdc++ and libgcc, by N; others have what the next lower N has. From the
policies of auditwheel 6.8, which a test compares."""
_NAMED = {"CXXABI_FLOAT128": 24, "CXXABI_TM_1": 17, "GLIBC_ABI_DT_RELR": 36}
"""Versions without a number, and the N that brought them."""
_OLD_NAMES = {"1": "5", "2010": "12", "2014": "17"}
"""PEP 600."""
_LIBRARIES = re.compile(
    r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|util|nsl|resolv|anl|mvec|atomic)\.so\.\d+|ld-linux-x86-64\.so\.2"
)
"""What every such system has (PEP 599 and auditwheel's policies); a plugin library has no need of the others there."""
_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)")
NEWEST_MINOR = 99
"""Of no system yet."""


def manylinux_minor(platform: str) -> int | None:
    """N of the platform part of a tag, `manylinux_2_N_x86_64` or an older name of one; None of another platform."""
    match = re.fullmatch(r"manylinux(1|2010|2014|_2_(\d+))_x86_64", platform)
    return None if match is None else int(match[2] or _OLD_NAMES[match[1]])


def misfits(image: LibraryImage, minor: int) -> tuple[str, ...]:
    """What the library needs beyond manylinux_2_<minor>: versions of symbols, or libraries. Raises ElfError."""
    return _beyond(_needs(image), minor)


def oldest_minor(images: Iterable[LibraryImage]) -> int | None:
    """N of the oldest manylinux_2_N that all the libraries fit, None if there is none. Raises ElfError."""
    needs = [_needs(image) for image in images]
    minors = range(min(_PROMISED), NEWEST_MINOR)
    return next((minor for minor in minors if not any(_beyond(each, minor) for each in needs)), None)


def _needs(image: LibraryImage) -> tuple[set[str], set[str]]:
    """Libraries that systems lack, and versions of symbols: read once, an image is limited in how often it is."""
    versions = {version for _, version in image.version_needs()}
    return {name for name in image.dynamic("needed") if not _LIBRARIES.fullmatch(name)}, versions


def _beyond(needs: tuple[set[str], set[str]], minor: int) -> tuple[str, ...]:
    strange, versions = needs
    return (*sorted(strange), *sorted(version for version in versions if not _is_promised(version, minor)))


def _is_promised(version: str, minor: int) -> bool:
    match = _VERSION.fullmatch(version)
    if match is None:
        return version in _NAMED and _NAMED[version] <= minor
    known = max((known for known in _PROMISED if known <= minor), default=0)
    promised = {"GLIBC": (2, minor), **_PROMISED.get(known, {})}
    return tuple(map(int, match[2].split("."))) <= promised.get(match[1], ())
