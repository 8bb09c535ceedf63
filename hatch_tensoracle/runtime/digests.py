"""SHA-256 of weight files, remembered so that gigabytes are read once and not at every opening."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatch_tensoracle._files import write_whole
from hatch_tensoracle._paths import cache_directory
from hatch_tensoracle.runtime.errors import EngineConditionError

__all__ = ["forget_digests", "seal", "unseal", "weight_digests"]

_FORMAT = 1
_SEAL_BYTES = 65
"""The digest of what follows, in hexadecimal, and a line break."""
_TICK = 20_000_000
_COARSE_TICK = 2_000_000_000
"""Nanoseconds within which a file can change without its time stamp: the kernel's tick is 10 ms at most; file systems
that count whole seconds round to 2 s at worst (FAT)."""


def weight_digests(files: Sequence[str | os.PathLike[str]], *, refresh: bool = False) -> tuple[str, ...]:
    """Return the SHA-256 of each file, in hexadecimal, in the order given.

    A digest is remembered by absolute path, size, modification time, device and inode. It is taken again if one of them
    has changed, if the file had been changed so shortly before it was read that a later change could bear the same time
    (Git's rule for its index), and with `refresh`. Several files are read on all cores. Raises OSError, and
    EngineConditionError if a file changes while it is read.
    """
    paths = [Path(file).absolute() for file in files]  # links stay: they are what can be re-pointed, also before a `..`
    digests = {} if refresh else {path: digest for path in paths if (digest := _recalled(path))}
    if unknown := [path for path in dict.fromkeys(paths) if path not in digests]:
        unknown.sort(key=lambda path: path.stat().st_size, reverse=True)  # the last one is then soon done
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(unknown), len(os.sched_getaffinity(0)))) as pool:  # hashing releases the GIL
            digests |= zip(unknown, pool.map(_taken, unknown), strict=True)
    return tuple(digests[path] for path in paths)


def forget_digests(*, of_missing_files: bool = False) -> None:
    """Forget all digests, or those of files that are no longer there."""
    for record in _directory().glob("*.json"):
        if not of_missing_files or not Path(_content(record).get("path", "")).is_file():
            record.unlink(missing_ok=True)


def seal(content: bytes) -> bytes:
    """Put the digest of a content before it."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def unseal(sealed: bytes) -> bytes:
    """Return the content. Raises ValueError if it is not what was sealed."""
    content = sealed[_SEAL_BYTES:]
    if sealed != seal(content):
        raise ValueError("its digest is not that of its content")
    return content


def _taken(path: Path) -> str:
    """Read the file, and remember its digest if that can be told from those of later contents."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
        raise ValueError(f"weights: {path} is not a file")
    with path.open("rb", buffering=0) as file:
        now = time.time_ns()
        before = _stamp(os.fstat(file.fileno()))
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if _stamp(os.fstat(file.fileno())) != before:
            raise EngineConditionError(
                "was changed while it was read", file=str(path), remedy="Open the engine when the file is complete."
            )
    tick = _TICK if before["mtime_ns"] % 1_000_000_000 else _COARSE_TICK
    if before["mtime_ns"] + tick < now:
        record = {"format": _FORMAT, "path": str(path), **before, "sha256": digest}
        try:
            write_whole(_record_file(path), seal(json.dumps(record).encode()))
        except OSError as error:
            warnings.warn(f"weights are read again at each opening: {error}", RuntimeWarning, stacklevel=2)
    return digest


def _recalled(path: Path) -> str | None:
    record = _content(_record_file(path))
    digest: str | None = record.pop("sha256", None)
    return digest if record == {"format": _FORMAT, "path": str(path), **_stamp(path.stat())} else None


def _content(record: Path) -> dict[str, Any]:
    """What was remembered; nothing if there is no such file, or a damaged one: then the weights are read."""
    try:
        content: dict[str, Any] = json.loads(unseal(record.read_bytes()))
    except (OSError, ValueError):
        return {}
    return content


def _stamp(status: os.stat_result) -> dict[str, int]:
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "device": status.st_dev, "inode": status.st_ino}


def _directory() -> Path:
    return cache_directory() / "weights"


def _record_file(path: Path) -> Path:
    return _directory() / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.json"
