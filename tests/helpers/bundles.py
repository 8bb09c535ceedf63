"""Damages bundles: a good one is copied, and one thing in the copy is changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

from hatch_tensoracle import Bundle
from hatch_tensoracle.bundle import Ptx
from hatch_tensoracle.errors import BundleError

__all__ = [
    "change_cubins",
    "change_manifest",
    "change_ptx",
    "collect",
    "embedded_code",
    "replace_cubin",
    "replace_ptx",
    "sealed",
]

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


def change_ptx(directory: Path, **fields: Any) -> None:
    """Change what the manifest says of the PTX of its only entry."""
    change_manifest(directory, lambda content: content["entries"][0]["ptx"].update(fields))


def replace_ptx(directory: Path, data: bytes) -> None:
    """Put other bytes in the place of the PTX of the only entry, with size and digest to match."""
    (entry,) = Bundle.parse((directory / "bundle.json").read_bytes(), "bundle.json").entries
    assert entry.ptx is not None
    (directory / entry.ptx.file).write_bytes(data)
    change_ptx(directory, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def embedded_code(directory: Path) -> bytes:
    """Return the bytes of the section in which a library embeds the cubins and PTX of a bundle directory."""
    bundle = Bundle.parse((directory / "bundle.json").read_bytes(), "bundle.json")
    files = [(directory / code.file).read_bytes() + bytes(isinstance(code, Ptx)) for _, code in bundle.codes()]
    return b"".join(data + bytes(-len(data) % 16) for data in files)
