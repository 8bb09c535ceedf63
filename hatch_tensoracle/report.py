"""Shows what inspection found, to people and to programs."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hatch_tensoracle.bundle import Bundle, Code, Ptx
from hatch_tensoracle.errors import BundleError

__all__ = ["REPORT_VERSION", "Finding", "to_json", "to_text"]

REPORT_VERSION = 1
"""Of the JSON form: raised when a key changes its meaning or goes away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What inspection found in one path."""

    path: str
    bundles: Mapping[str, Bundle]
    """Manifest of each library; those that could be read."""
    defects: Sequence[BundleError]


def to_text(findings: Sequence[Finding]) -> str:
    """A table of every library's cubins and PTX, then the defects."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=150, color_system=None)
    for finding in findings:
        for name, bundle in finding.bundles.items():
            tools = ", ".join(f"{tool} {version}" for tool, version in sorted(bundle.tools.items()))
            console.print(f"{name}: bundle {bundle.digest}", markup=False, highlight=False, soft_wrap=True)
            console.print(f"made with {tools}; needs driver {bundle.minimum_driver} or newer", markup=False)
            for tuning in bundle.tuning:
                measured = f"{tuning.plugin} of {' '.join(tuning.types)}: {tuning.kernel}, {len(tuning.ranges)} ranges"
                where = f"sm{tuning.sm} ({tuning.gpu}, driver {tuning.driver})"
                console.print(f"tuned on {where}: {measured}", markup=False, highlight=False, soft_wrap=True)
            console.print(_table(bundle))
        for defect in finding.defects:
            console.print(f"{defect.id}: {defect}", markup=False, highlight=False, soft_wrap=True)
            if defect.remedy:
                console.print(f"  {defect.remedy}", markup=False, highlight=False, soft_wrap=True)
        count = len(finding.defects)
        verdict = f"{count or 'no'} defect{'' if count == 1 else 's'}"
        console.print(f"{finding.path}: {verdict}", markup=False, highlight=False, soft_wrap=True)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def _table(bundle: Bundle) -> object:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("kernel")
    table.add_column("target")
    for heading in ("bytes", "registers", "spilled", "shared", "threads"):
        table.add_column(heading, justify="right")
    table.add_column("parameters")
    for entry, code in bundle.codes():
        parameters = " ".join(
            argument.type
            + (f":{argument.divisible_by}" if argument.divisible_by > 1 else "")
            + (f"={argument.equal_to}" if argument.equal_to is not None else "")
            for argument in entry.arguments
        )
        table.add_row(entry.label, *_cells(code), parameters)
    return table


def _cells(code: Code) -> tuple[str, ...]:
    """From the target to the threads; what the driver's compiler decides is left empty."""
    if isinstance(code, Ptx):
        return (code.label, str(code.size), "", "", str(code.dynamic_shared), str(code.threads))
    shared = code.static_shared + code.dynamic_shared
    return (code.label, *map(str, (code.size, code.registers, code.local_bytes, shared, code.threads)))


def to_json(findings: Sequence[Finding]) -> str:
    """The same for programs: `{"version": 1, "artifacts": [...]}`; sizes are bytes, counts are per thread or block."""
    artifacts = [
        {
            "path": finding.path,
            "libraries": {name: json.loads(bundle.to_json()) for name, bundle in finding.bundles.items()},
            "defects": [
                {"id": defect.id, "where": defect.where, "cause": defect.cause, "remedy": defect.remedy}
                for defect in finding.defects
            ],
        }
        for finding in findings
    ]
    return json.dumps({"version": REPORT_VERSION, "artifacts": artifacts}, indent=2)
