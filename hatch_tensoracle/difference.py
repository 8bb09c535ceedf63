"""What differs between two wheels, libraries or bundles: kernels, their code, and what it needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from hatch_tensoracle._files import open_regular
from hatch_tensoracle.bundle import Bundle, Code, Entry, Ptx
from hatch_tensoracle.inspection import inspect_bundle, inspect_library, inspect_wheel
from hatch_tensoracle.report import plain
from hatch_tensoracle.wheel import Wheel

__all__ = ["COMPARISON_VERSION", "Artifact", "Change", "compare", "comparison_json", "comparison_text", "read_artifact"]

COMPARISON_VERSION = 1
"""Of the JSON form: raised when a key changes its meaning or goes away."""

Value: TypeAlias = int | str
Properties: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A wheel, a library or a bundle directory without defects."""

    path: str
    properties: Properties
    """Of a wheel: its size in bytes."""
    bundles: Mapping[str, Bundle]
    libraries: Mapping[str, Properties]
    """Size in bytes and SHA-256 of each library, by its path in the wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is only on one side, or that differs."""

    kind: Literal["added", "removed", "changed"]
    what: str
    """Such as `kernel copy#0 for sm86`, `library pkg/libpkg.so` or `bundle of pkg/libpkg.so`."""
    before: Properties = field(default_factory=dict)
    after: Properties = field(default_factory=dict)
    """Of a change, those properties that differ; otherwise all."""


def read_artifact(path: Path) -> Artifact:
    """Read and inspect one side. Raises the first defect, a BundleError."""
    if path.is_dir():
        return Artifact(path=str(path), properties={}, bundles={"": inspect_bundle(path)}, libraries={})
    size = {"size": path.stat().st_size}
    if path.suffix != ".whl":
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        own: dict[str, Properties] = {"": {**size, "sha256": digest}}
        return Artifact(path=str(path), properties={}, bundles={"": inspect_library(path)}, libraries=own)
    bundles = inspect_wheel(path)
    with Wheel(path) as wheel:
        libraries: dict[str, Properties] = {
            name: {"size": wheel.size(name), "sha256": wheel.digest(name, "sha256").hex()} for name in bundles
        }
    return Artifact(path=str(path), properties=size, bundles=bundles, libraries=libraries)


def compare(before: Artifact, after: Artifact) -> list[Change]:
    """What differs. Of two artifacts with one library each, these are compared, whatever their paths are."""
    if len(before.bundles) == len(after.bundles) == 1:
        before, after = _unnamed(before), _unnamed(after)
    changes: list[Change] = []
    if before.properties and after.properties:
        changes += _compare({"wheel": before.properties}, {"wheel": after.properties})
    if before.libraries and after.libraries:
        changes += _compare(_named("library", before.libraries), _named("library", after.libraries))
    sides = [_bundle_properties(side.bundles) for side in (before, after)]
    changes += _compare(*sides)
    codes = [dict(_codes(side.bundles)) for side in (before, after)]
    return [*changes, *_compare(*codes)]


def comparison_text(changes: list[Change]) -> str:
    """A line for each change: `+` added, `-` removed, `~` changed."""
    lines = [plain(f"{_SIGNS[change.kind]} {change.what}: {_shown(change)}") for change in changes]
    counts = [f"{sum(change.kind == kind for change in changes)} {kind}" for kind in _SIGNS]
    return "".join(f"{line}\n" for line in [*lines, ", ".join(counts) if changes else "no differences"])


def comparison_json(before: Artifact, after: Artifact, changes: list[Change]) -> str:
    """The same for programs, as docs/inspection.md describes it."""
    rows = [
        {"kind": change.kind, "what": change.what, "before": dict(change.before), "after": dict(change.after)}
        for change in changes
    ]
    content = {"version": COMPARISON_VERSION, "before": before.path, "after": after.path, "changes": rows}
    return json.dumps(content, indent=2) + "\n"


_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_UNSHOWN = "sha256"
_BRIEF = ("size", "registers", "local memory")
"""What is shown of a kernel that is on one side only."""


def _shown(change: Change) -> str:
    if change.kind != "changed":
        properties = change.after or change.before
        return ", ".join(f"{name} {value}" for name, value in properties.items() if name in _BRIEF)
    names = [*change.before, *(name for name in change.after if name not in change.before)]
    return ", ".join(
        "other bytes" if name == _UNSHOWN else f"{name} {_side(change.before, name)} -> {_side(change.after, name)}"
        for name in names
    )


def _side(properties: Properties, name: str) -> Value:
    return properties.get(name, "none")


def _compare(before: Mapping[str, Properties], after: Mapping[str, Properties]) -> Iterator[Change]:
    for what, properties in before.items():
        if what not in after:
            yield Change(kind="removed", what=what, before=properties)
            continue
        old, new = properties, after[what]
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if names:
            left = {name: old[name] for name in names if name in old}
            right = {name: new[name] for name in names if name in new}
            yield Change(kind="changed", what=what, before=left, after=right)
    for what, properties in after.items():
        if what not in before:
            yield Change(kind="added", what=what, after=properties)


def _unnamed(side: Artifact) -> Artifact:
    (bundle,) = side.bundles.values()
    libraries = dict(zip([""], side.libraries.values(), strict=False))
    return Artifact(path=side.path, properties=side.properties, bundles={"": bundle}, libraries=libraries)


def _named(kind: str, libraries: Mapping[str, Properties]) -> dict[str, Properties]:
    return {f"{kind} {name}".rstrip(): properties for name, properties in libraries.items()}


def _bundle_properties(bundles: Mapping[str, Bundle]) -> dict[str, Properties]:
    found: dict[str, Properties] = {}
    for name, bundle in bundles.items():
        tools = {f"{tool} version": version for tool, version in sorted(bundle.tools.items())}
        tuning = json.dumps(json.loads(bundle.to_json())["tuning"], sort_keys=True).encode()
        found[f"bundle of {name}" if name else "bundle"] = {
            **tools,
            "minimum driver": bundle.minimum_driver,
            "targets": " ".join(bundle.targets),
            "tuning": hashlib.sha256(tuning).hexdigest()[:12] if bundle.tuning else "none",
        }
    return found


def _codes(bundles: Mapping[str, Bundle]) -> Iterator[tuple[str, Properties]]:
    for name, bundle in bundles.items():
        place = f" in {name}" if name else ""
        for entry, code in bundle.codes():
            yield f"kernel {entry.label} for {code.label}{place}", _properties(entry, code)


def _properties(entry: Entry, code: Code) -> Properties:
    constants = " ".join(f"{each.name}={each.value}" for each in entry.constants)
    found: dict[str, Value] = {
        "sha256": code.sha256,
        "size": code.size,
        "threads": code.threads,
        "dynamic shared memory": code.dynamic_shared,
    }
    if isinstance(code, Ptx):
        found["PTX version"] = code.version
    else:
        found["registers"] = code.registers
        found["local memory"] = code.local_bytes
        found["static shared memory"] = code.static_shared
    return {**found, "arguments": entry.signature, "constants": constants or "none"}
