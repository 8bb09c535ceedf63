"""Writes files so that readers see the old or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write the file aside and put it in its place, below directories that are made. Readers of the old one keep it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        aside.chmod(0o666 & ~_umask())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)  # there is no way to read it but to set it
    os.umask(mask)
    return mask
