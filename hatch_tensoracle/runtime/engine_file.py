"""The file of a saved engine: a line that says what it is, the header below its digest, and the plan.

The header is JSON on one line; size and SHA-256 of the plan stand in it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from mmap import MAP_PRIVATE, mmap
from pathlib import Path
from typing import Any

from hatch_tensoracle._files import write_whole
from hatch_tensoracle.runtime.digests import seal, unseal
from hatch_tensoracle.runtime.errors import CorruptEngineError
from hatch_tensoracle.runtime.plugin_creators import CreatorKey

__all__ = ["EngineHeader", "read_header", "read_plan", "write_engine"]

_MAGIC = b"hatch-tensoracle engine 1\n"
_MAX_HEADER = 1 << 24
"""Bytes: far more than any declaration takes."""
_BLOCK = 1 << 23
"""Bytes that are read, and then hashed, at once."""
_REMEDY = "Build it again: open_engine(force_rebuild=True)"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHeader:
    """What a saved engine says of itself."""

    conditions: Mapping[str, object]
    """See `identity`."""
    creators: tuple[CreatorKey, ...]
    """Of the plugins in the network: deserialisation asks for them."""
    plan_size: int
    """Bytes."""
    plan_sha256: str


def write_engine(path: Path, plan: bytes, *, conditions: Mapping[str, Any], creators: tuple[CreatorKey, ...]) -> None:
    """Save a plan, atomically and durably. Raises OSError."""
    header = EngineHeader(
        conditions=conditions,
        creators=creators,
        plan_size=len(plan),
        plan_sha256=hashlib.sha256(plan).hexdigest(),
    )
    line = json.dumps(dataclasses.asdict(header), allow_nan=False).encode() + b"\n"
    write_whole(path, _MAGIC, seal(line), plan, durable=True)


def read_header(file: BufferedReader, path: Path) -> EngineHeader:
    """Read up to where the plan begins. Raises CorruptEngineError."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise _corrupt(path, "does not begin as a saved engine does")
    sealed = file.readline(_MAX_HEADER) + file.readline(_MAX_HEADER)
    try:
        content = json.loads(unseal(sealed))
        content["creators"] = tuple(CreatorKey(*creator) for creator in content["creators"])
        return EngineHeader(**content)
    except (KeyError, TypeError, ValueError) as error:
        raise _corrupt(path, f"has a damaged header: {error}") from error


def read_plan(file: BufferedReader, header: EngineHeader, path: Path) -> memoryview:
    """Read the plan, from where the header ends. Raises CorruptEngineError if it is not the one that was saved.

    It lies in memory of its own: no copy, and no page is cleared before it is written. One block is hashed while the
    next is read, in two threads.
    """
    size = os.fstat(file.fileno()).st_size - file.tell()
    if size != header.plan_size or not size:
        raise _corrupt(path, f"is not as long as it was: its plan of {header.plan_size} bytes has {size}")
    from concurrent.futures import ThreadPoolExecutor

    plan, hashed = memoryview(mmap(-1, size, flags=MAP_PRIVATE)), hashlib.sha256()
    with ThreadPoolExecutor(1) as hashing:
        for start in range(0, size, _BLOCK):
            file.readinto(block := plan[start : start + _BLOCK])
            hashing.submit(hashed.update, block)
    if (digest := hashed.hexdigest()) != header.plan_sha256:
        raise _corrupt(path, f"has a damaged plan: SHA-256 {digest}, was {header.plan_sha256}")
    return plan.toreadonly()


def _corrupt(path: Path, cause: str) -> CorruptEngineError:
    return CorruptEngineError(cause, file=str(path), remedy=_REMEDY)
