"""What is no defect, but seldom meant: `inspect --strict` counts it as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hatch_tensoracle.bundle import Bundle, Entry
from hatch_tensoracle.wheel import Wheel

__all__ = ["LARGE", "Advice", "advise_bundle", "advise_file", "advise_wheel"]

LARGE = 100_000_000
"""Bytes: PyPI takes no larger file from a project unless it is asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to look at."""

    id: str
    """`spills`, `size`, `no-unspecialised-variant`, `no-ptx` or `no-manylinux-tag`."""
    where: str
    """The file, and inside it the member, kernel and target."""
    cause: str
    remedy: str


def advise_bundle(bundle: Bundle, where: str) -> Iterator[Advice]:
    """Local memory, kernels that refuse arguments, and GPUs that nothing is for."""
    for entry, cubin in bundle.cubins():
        if cubin.local_bytes:
            yield Advice(
                id="spills",
                where=f"{where}: kernel `{entry.label}` for {cubin.label}",
                cause=f"{cubin.local_bytes} bytes of local memory a thread, for spilled registers or a stack",
                remedy="Use smaller tiles or more warps.",
            )
    for last in _last_variants(bundle):
        assumed = [argument.name for argument in last.arguments if argument.assumption]
        if assumed:
            yield Advice(
                id="no-unspecialised-variant",
                where=f"{where}: kernel `{last.label}`",
                cause=f"the last variant assumes something of {', '.join(assumed)}: other arguments are refused",
                remedy="Declare a last spec of the same name without divisible_by and equal_to.",
            )
    if bundle.ptx_target is None:
        yield Advice(
            id="no-ptx",
            where=where,
            cause=f"no PTX: nothing for GPUs that are newer than {', '.join(bundle.targets)}",
            remedy="Set the option `ptx`.",
        )


def advise_file(path: Path) -> Iterator[Advice]:
    """A wheel, or a library, that is large."""
    yield from _advise_size(path.stat().st_size, str(path))


def advise_wheel(path: Path, bundles: Mapping[str, Bundle]) -> Iterator[Advice]:
    """A wheel that inspection could read, and the libraries in it."""
    yield from advise_file(path)
    with Wheel(path) as wheel:
        platforms = sorted({tag.rpartition("-")[2] for tag in wheel.named_tags})
        if bundles and not any(platform.startswith("manylinux") for platform in platforms):
            yield Advice(
                id="no-manylinux-tag",
                where=str(path),
                cause=f"tagged {', '.join(platforms)}, which package indexes do not take",
                remedy="Set the hook's option `platform-tag` to `auto`, or let auditwheel repair the wheel.",
            )
        for name, bundle in bundles.items():
            where = f"{path}: {name}"
            yield from _advise_size(wheel.size(name), where)
            yield from advise_bundle(bundle, where)


def _advise_size(size: int, where: str) -> Iterator[Advice]:
    if size > LARGE:
        yield Advice(
            id="size",
            where=where,
            cause=f"{size} bytes, more than {LARGE}",
            remedy="Compile for fewer targets, or with fewer configurations.",
        )


def _last_variants(bundle: Bundle) -> list[Entry]:
    last: dict[tuple[str, int], Entry] = {}
    for entry in bundle.entries:
        last[entry.kernel, entry.configuration] = entry
    return list(last.values())
