"""Shows what inspection found as one HTML file, without scripts and without anything from the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import Template

from hatch_tensoracle import _paths
from hatch_tensoracle._markup import element, text
from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.heat_map import all_numbers, heat_map, shown_bytes, styles, switch
from hatch_tensoracle.report import Finding, Remark

__all__ = ["to_html"]


def to_html(findings: Sequence[Finding], *, strict: bool = False) -> str:
    """One page: defects on top, then a heat map of kernels and targets for each library."""
    template = Template((_paths.templates() / "inspection.html").read_text(encoding="utf-8"))
    names = ", ".join(text(finding.path.rpartition("/")[2]) for finding in findings)
    count = sum(len(finding.counted(strict=strict)) for finding in findings)
    return template.substitute(
        title="Inspection",
        summary=f"{names} {_badge(count)}",
        metrics=styles(),
        defects="".join(_defects(finding, strict=strict) for finding in findings if finding.counted(strict=strict)),
        switch=switch() if any(finding.bundles for finding in findings) else "",
        artifacts="".join(_artifact(finding, strict=strict) for finding in findings),
    )


def _badge(defects: int) -> str:
    return element("span", _count(defects, "defect"), class_=f"badge {'bad' if defects else 'good'}")


def _defects(finding: Finding, *, strict: bool) -> str:
    counted = finding.counted(strict=strict)
    heading = element("h2", f"{_count(len(counted), 'defect')} of {text(finding.path)}")
    return element("section", heading, _list(counted, "remarks"), class_="defects")


def _list(remarks: Iterable[Remark], kind: str) -> str:
    items = []
    for remark in remarks:
        details = [element("small", text(detail)) for detail in (remark.where, remark.remedy) if detail]
        items.append(element("li", element("b", element("code", text(remark.id))), text(remark.cause), *details))
    return element("ul", *items, class_=kind)


def _artifact(finding: Finding, *, strict: bool) -> str:
    parts = [element("h2", text(finding.path)), _badge(len(finding.counted(strict=strict)))]
    folded = ""
    if finding.advice and not strict:
        parts.append(element("span", _count(len(finding.advice), "remark"), class_="badge note"))
        folded = element("details", element("summary", "Advice"), _list(finding.advice, "remarks note"))
    libraries = []
    for name, bundle in finding.bundles.items():
        heading = element("h3", text(name)) if name != finding.path else ""
        libraries.append(element("div", heading, _facts(bundle), heat_map(name, bundle), all_numbers(bundle)))
    return element("section", element("div", *parts, class_="head"), folded, *libraries)


def _facts(bundle: Bundle) -> str:
    codes = [code for _, code in bundle.codes()]
    facts = {
        "Kernels": len({entry.kernel for entry in bundle.entries}),
        "Variants and configurations": len(bundle.entries),
        "Cubins and PTX": f"{len(codes)}, {shown_bytes(sum(code.size for code in codes))}",
        "Made with": ", ".join(f"{tool} {version}" for tool, version in sorted(bundle.tools.items())),
        "Driver": f"{bundle.minimum_driver} or newer",
    }
    if bundle.tuning:
        facts["Tuned on"] = ", ".join(sorted({each.gpu for each in bundle.tuning}))
    facts["Bundle"] = bundle.digest[:16]
    pairs = [element("div", element("dt", name), element("dd", text(value))) for name, value in facts.items()]
    return element("dl", *pairs)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
