"""Damages bundles: a good one is copied, and one thing in the copy is changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

from hatch_tensoracle import Bundle
from hatch_tensoracle.errors import BundleError

__all__ = ["change_cubins", "change_manifest", "collect", "embedded_cubins", "replace_cubin", "sealed"]

T = TypeVar("T")


def collect(checks: Generator[BundleError, None, T]) -> tuple[list[BundleError], T]:
    """Run checks to their end: all defects, and what the checks return."""
    defects = []
    while True:
        try:
            defects.append(next(checks))
        except StopIteration as end:
            return defects, end.value


def sealed(content: dict[str, Any]) -> bytes:
    """Write a manifest with the digest that its content has."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**rest, "digest": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


def change_manifest(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of a bundle directory and seal it again: only what the change says is wrong then."""
    content = json.loads((directory / "bundle.json").read_bytes())
    change(content)
    (directory / "bundle.json").write_bytes(sealed(content))


def change_cubins(directory: Path, target: str, **fields: Any) -> None:
    """Change what the manifest says of the cubins for one target."""

    def change(content: dict[str, Any]) -> None:
        for entry in content["entries"]:
            for cubin in entry["cubins"]:
                if cubin["target"] == target:
                    cubin.update(fields)

    change_manifest(directory, change)


def replace_cubin(directory: Path, target: str, data: bytes) -> None:
    """Put other bytes in the place of the cubin for one target, with size and digest to match."""
    bundle = Bundle.parse((directory / "bundle.json").read_bytes(), "bundle.json")
    (file,) = (cubin.file for _, cubin in bundle.cubins() if cubin.target == target)
    (directory / file).write_bytes(data)
    change_cubins(directory, target, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def embedded_cubins(directory: Path) -> bytes:
    """Return the bytes of the section in which a library embeds the cubins of a bundle directory."""
    bundle = Bundle.parse((directory / "bundle.json").read_bytes(), "bundle.json")
    files = [(directory / cubin.file).read_bytes() for _, cubin in bundle.cubins()]
    return b"".join(data + bytes(-len(data) % 16) for data in files)
