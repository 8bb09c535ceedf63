"""Writes files so that readers see the old or the new one, never a part."""

from __future__ import annotations

import secrets
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write the file aside and put it in its place, below directories that are made. Readers of the old one keep it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with aside.open("xb") as file:
            file.write(data)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
