"""Shows what inspection found, to people and to programs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hatch_tensoracle.bundle import Bundle, Code, Entry, Ptx
from hatch_tensoracle.errors import BundleError

__all__ = ["REPORT_VERSION", "Finding", "Remark", "annotation", "plain", "to_github", "to_json", "to_text"]

REPORT_VERSION = 1
"""Of the JSON form: raised when a key changes its meaning or goes away."""
_MOST_ROWS = 2000
"""Of a table on a terminal: rich takes a millisecond for each, and a hostile manifest has tens of thousands."""


class Remark(Protocol):
    """A defect or an advice."""

    @property
    def id(self) -> str:
        """Stable name of its kind."""

    @property
    def where(self) -> str:
        """The file, and inside it the member, kernel and target."""

    @property
    def cause(self) -> str:
        """What was found."""

    @property
    def remedy(self) -> str:
        """What can be done, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What inspection found in one path."""

    path: str
    bundles: Mapping[str, Bundle]
    """Manifest of each library; those that could be read."""
    defects: Sequence[BundleError]
    advice: Sequence[Remark] = ()
    """What is no defect unless inspection is strict."""

    def counted(self, *, strict: bool) -> Sequence[Remark]:
        """What makes inspection fail."""
        return [*self.defects, *self.advice] if strict else self.defects


def to_text(findings: Sequence[Finding], *, strict: bool = False) -> str:
    """A table of every library's cubins and PTX, then the defects."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=150, color_system=None, emoji=False)

    def show(line: str) -> None:
        console.print(plain(line), markup=False, highlight=False, soft_wrap=True)

    for finding in findings:
        for name, bundle in finding.bundles.items():
            tools = ", ".join(f"{tool} {version}" for tool, version in sorted(bundle.tools.items()))
            show(f"{name}: bundle {bundle.digest}")
            show(f"made with {tools}; needs driver {bundle.minimum_driver} or newer")
            for tuning in bundle.tuning:
                measured = f"{tuning.plugin} of {' '.join(tuning.types)}: {tuning.kernel}, {len(tuning.ranges)} ranges"
                show(f"tuned on sm{tuning.sm} ({tuning.gpu}, driver {tuning.driver}): {measured}")
            codes = [*bundle.codes()]
            console.print(_table(codes[:_MOST_ROWS]))
            if len(codes) > _MOST_ROWS:
                show(f"and {len(codes) - _MOST_ROWS} more, which the other formats have")
        for remark in finding.counted(strict=strict):
            show(f"{remark.id}: {remark.where}: {remark.cause}" if remark.where else f"{remark.id}: {remark.cause}")
            if remark.remedy:
                show(f"  {remark.remedy}")
        show(_verdict(finding, strict=strict))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def to_github(findings: Sequence[Finding], *, strict: bool = False) -> str:
    """Annotations of GitHub Actions (workflow commands `error` and `warning`), and a line for each path."""
    lines: list[str] = []
    for finding in findings:
        lines += _annotations("error", finding, finding.defects)
        lines += _annotations("error" if strict else "warning", finding, finding.advice)
        lines.append(plain(_verdict(finding, strict=strict)))
    return "".join(f"{line}\n" for line in lines)


def to_json(findings: Sequence[Finding], *, strict: bool = False) -> str:
    """The same for programs, as docs/inspection.md describes it; sizes are bytes, counts are per thread or block."""
    artifacts = [
        {
            "path": finding.path,
            "libraries": {name: json.loads(bundle.to_json()) for name, bundle in finding.bundles.items()},
            "defects": [*map(_object, finding.defects)],
            "advice": [*map(_object, finding.advice)],
        }
        for finding in findings
    ]
    return json.dumps({"version": REPORT_VERSION, "strict": strict, "artifacts": artifacts}, indent=2) + "\n"


def annotation(level: str, path: str, id_: str, message: str, remedy: str) -> str:
    """A workflow command of GitHub Actions; `level` is `error` or `warning`."""
    properties = {"file": path, "title": f"hatch-tensoracle: {id_}"}
    shown = ",".join(f"{key}={_escaped(value, '%:,')}" for key, value in properties.items())
    return f"::{level} {shown}::{_escaped('. '.join(filter(None, (message, remedy))), '%')}"


def _verdict(finding: Finding, *, strict: bool) -> str:
    """How many defects a path has: `dist/x.whl: no defects`."""
    count = len(finding.counted(strict=strict))
    return f"{finding.path}: {count or 'no'} defect{'' if count == 1 else 's'}"


def _object(remark: Remark) -> dict[str, str]:
    return {"id": remark.id, "where": remark.where, "cause": remark.cause, "remedy": remark.remedy}


def _annotations(level: str, finding: Finding, remarks: Iterable[Remark]) -> Iterable[str]:
    for remark in remarks:
        yield annotation(level, finding.path, remark.id, f"{remark.where}: {remark.cause}", remark.remedy)


def _escaped(text: str, special: str) -> str:
    """As GitHub's runner reads it back; other control characters are shown by their escapes."""
    shown = "\n".join(map(plain, text.split("\n")))
    return "".join(f"%{ord(each):02X}" if each in special or each == "\n" else each for each in shown)


def plain(text: str) -> str:
    """Text for a terminal or a log, which obey control characters: those of a hostile artifact are shown instead."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _table(codes: Iterable[tuple[Entry, Code]]) -> object:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("kernel")
    table.add_column("target")
    for heading in ("bytes", "registers", "spilled", "shared", "threads"):
        table.add_column(heading, justify="right")
    table.add_column("parameters")
    for entry, code in codes:
        parameters = " ".join(f"{argument.type}{argument.assumption}" for argument in entry.arguments)
        table.add_row(entry.label, *_cells(code), plain(parameters))
    return table


def _cells(code: Code) -> tuple[str, ...]:
    """From the target to the threads; what the driver's compiler decides is left empty."""
    if isinstance(code, Ptx):
        return (code.label, str(code.size), "", "", str(code.dynamic_shared), str(code.threads))
    shared = code.static_shared + code.dynamic_shared
    return (code.label, *map(str, (code.size, code.registers, code.local_bytes, shared, code.threads)))
