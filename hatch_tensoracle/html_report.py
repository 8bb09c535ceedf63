"""Shows what inspection found as one HTML file, without scripts and without anything from the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from string import Template

from hatch_tensoracle import _paths
from hatch_tensoracle.bundle import Bundle, Code, Cubin, Entry, Ptx
from hatch_tensoracle.occupancy import occupancy_of
from hatch_tensoracle.report import Finding, Remark, plain
from hatch_tensoracle.targets import TARGETS

__all__ = ["to_html"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """One of the heat maps."""

    id: str
    name: str
    low: str
    high: str
    """What the ends of its scale stand for."""


_METRICS = (
    _Metric(id="size", name="Size", low="none", high="the largest"),
    _Metric(id="registers", name="Registers", low="0", high="255 a thread"),
    _Metric(id="local", name="Spills and stack", low="none", high="the most"),
    _Metric(id="shared", name="Shared memory", low="none", high="all of a block"),
    _Metric(id="occupancy", name="Occupancy", low="0", high="100%"),
)
_MOST_REGISTERS = 255
_STYLE = """
body:has(#show-$id:checked) .key.$id { display: flex; }
body:has(#show-$id:checked) .v:not(.$id) { display: none; }
body:has(#show-$id:checked) tbody td.cell {
  background: color-mix(in oklab, var(--hot-$id) calc(var(--$id, 0) * 100%), var(--card));
}
.key.$id i { background: linear-gradient(90deg in oklab, var(--card), var(--hot-$id)); }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What a cell shows of one metric."""

    text: str
    detail: str = ""
    heat: float = 0
    """From 0 to 1."""


def to_html(findings: Sequence[Finding], *, strict: bool = False) -> str:
    """One self-contained page: defects on top, then a heat map of kernels and targets for each library."""
    template = Template((_paths.templates() / "inspection.html").read_text(encoding="utf-8"))
    has_kernels = any(finding.bundles for finding in findings)
    paths = ", ".join(_text(finding.path.rpartition("/")[2]) for finding in findings)
    return template.substitute(
        title="Inspection",
        summary=f"{paths} {_badges(findings, strict=strict)}",
        metrics="".join(Template(_STYLE).substitute(id=metric.id) for metric in _METRICS),
        remarks="".join(_remarks(finding, strict=strict) for finding in findings if finding.counted(strict=strict)),
        bar=_bar() if has_kernels else "",
        artifacts="".join(_artifact(finding, strict=strict) for finding in findings),
    )


def _badges(findings: Sequence[Finding], *, strict: bool) -> str:
    defects = sum(len(finding.counted(strict=strict)) for finding in findings)
    return f'<span class="badge {"bad" if defects else "good"}">{_count(defects, "defect") if defects else "no defects"}</span>'


def _bar() -> str:
    radios = "".join(
        f'<label><input type="radio" name="metric" id="show-{metric.id}"{" checked" if i == 0 else ""}>{metric.name}</label>'
        for i, metric in enumerate(_METRICS)
    )
    keys = "".join(
        f'<span class="key {metric.id}" aria-hidden="true">{metric.low}<i></i>{metric.high}</span>'
        for metric in _METRICS
    )
    return f'<div class="bar"><fieldset><legend>Heat map of</legend>{radios}</fieldset>{keys}</div>\n'


def _remarks(finding: Finding, *, strict: bool) -> str:
    counted = finding.counted(strict=strict)
    heading = f"<h2>{_count(len(counted), 'defect')} of {_text(finding.path)}</h2>"
    return f'<section class="defects" aria-label="Defects">{heading}{_list(counted, "remarks")}</section>\n'


def _list(remarks: Iterable[Remark], kind: str) -> str:
    items = "".join(
        f"<li><b><code>{_text(remark.id)}</code></b>{_text(remark.cause)}"
        f"{_small(remark.where)}{_small(remark.remedy)}</li>"
        for remark in remarks
    )
    return f'<ul class="{kind}">{items}</ul>'


def _artifact(finding: Finding, *, strict: bool) -> str:
    advice = () if strict else finding.advice
    count = len(finding.counted(strict=strict))
    badge = (
        f'<span class="badge {"bad" if count else "good"}">{_count(count, "defect") if count else "no defects"}</span>'
    )
    if advice:
        badge += f'<span class="badge note">{_count(len(advice), "thing")} to look at</span>'
    folded = f"<details><summary>What to look at</summary>{_list(advice, 'remarks note')}</details>" if advice else ""
    libraries = "".join(
        _library(name, bundle, heading=f"<h3>{_text(name)}</h3>" if name != finding.path else "")
        for name, bundle in finding.bundles.items()
    )
    return f'<section><div class="head"><h2>{_text(finding.path)}</h2>{badge}</div>{folded}{libraries}</section>\n'


def _library(name: str, bundle: Bundle, *, heading: str) -> str:
    codes = [code for _, code in bundle.codes()]
    tools = ", ".join(f"{tool} {version}" for tool, version in sorted(bundle.tools.items()))
    facts = {
        "Bundle": f'<code title="{_text(bundle.digest)}">{_text(bundle.digest[:16])}</code>',
        "Kernels": _text(str(len({entry.kernel for entry in bundle.entries}))),
        "Variants and configurations": _text(str(len(bundle.entries))),
        "Cubins and PTX": _text(f"{len(codes)}, {_bytes(sum(code.size for code in codes))}"),
        "Made with": _text(tools),
        "Driver": _text(f"{bundle.minimum_driver} or newer"),
        **({"Tuned on": _text(", ".join(sorted({each.gpu for each in bundle.tuning})))} if bundle.tuning else {}),
    }
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return f'<div class="library">{heading}<dl>{listed}</dl>{_matrix(name, bundle)}{_numbers(bundle)}</div>'


def _matrix(name: str, bundle: Bundle) -> str:
    labels = [*bundle.targets, *([f"{bundle.ptx_target} PTX"] if bundle.ptx_target is not None else [])]
    columns = "".join(f'<th scope="col">{_text(label)}</th>' for label in labels)
    largest = max((code.size for _, code in bundle.codes()), default=0)
    spilled = max((cubin.local_bytes for _, cubin in bundle.cubins()), default=0)
    rows = "".join(
        f'<tr><th scope="row">{_text(entry.label)}<small title="{_text(_choices(entry))}">{_text(_choices(entry))}</small></th>'
        + "".join(_cell(entry, code, largest, spilled) for code in entry.codes)
        + "</tr>"
        for entry in bundle.entries
    )
    return (
        f'<div class="scroll" tabindex="0"><table><caption>Kernels and targets of {_text(name)}</caption>'
        f'<thead><tr><th scope="col">Kernel</th>{columns}</tr></thead><tbody>{rows}</tbody>'
        f'<tfoot><tr><th scope="row">{_summary_names()}</th>{"".join(_summary(bundle, i) for i in range(len(labels)))}</tr></tfoot>'
        "</table></div>"
    )


def _cell(entry: Entry, code: Code, largest: int, spilled: int) -> str:
    values = _values(code, largest, spilled)
    heat = ";".join(f"--{name}:{_clamped(value.heat):.3f}" for name, value in values.items() if value.heat > 0)
    spans = "".join(
        f'<span class="v {metric.id}">{_text(values[metric.id].text)}{_small(values[metric.id].detail)}</span>'
        if metric.id in values
        else f'<span class="v {metric.id}">-</span>'
        for metric in _METRICS
    )
    said = "; ".join(f"{metric.name} {values[metric.id].text}" for metric in _METRICS if metric.id in values)
    return f'<td class="cell" style="{heat}" title="{_text(f"{entry.label} {code.label}: {said}")}">{spans}</td>'


def _values(code: Code, largest: int, spilled: int) -> dict[str, _Value]:
    most = TARGETS[code.target].max_shared
    shared = code.dynamic_shared + (code.static_shared if isinstance(code, Cubin) else 0)
    values = {
        "size": _Value(text=_bytes(code.size), heat=code.size / largest if largest else 0),
        "shared": _Value(text=_bytes(shared), detail=f"of {_bytes(most)}" if shared else "", heat=shared / most),
    }
    if isinstance(code, Ptx):
        return values
    occupancy = occupancy_of(code)
    return {
        **values,
        "registers": _Value(text=str(code.registers), heat=code.registers / _MOST_REGISTERS),
        "local": _Value(text=_bytes(code.local_bytes), heat=code.local_bytes / spilled if spilled else 0),
        "occupancy": _Value(
            text=f"{occupancy.fraction:.0%}",
            detail=f"limited by {occupancy.limit}" if occupancy.fraction < 1 else "",
            heat=occupancy.fraction,
        ),
    }


def _summary_names() -> str:
    names = {"size": "All", "registers": "Most", "local": "Most", "shared": "Most", "occupancy": "Least"}
    return "".join(f'<span class="v {id_}">{name}</span>' for id_, name in names.items())


def _summary(bundle: Bundle, column: int) -> str:
    codes = [entry.codes[column] for entry in bundle.entries]
    cubins = [code for code in codes if isinstance(code, Cubin)]
    shared = [code.dynamic_shared + (code.static_shared if isinstance(code, Cubin) else 0) for code in codes]
    values = {
        "size": _bytes(sum(code.size for code in codes)),
        "registers": str(max((cubin.registers for cubin in cubins), default="-")),
        "local": _bytes(max(cubin.local_bytes for cubin in cubins)) if cubins else "-",
        "shared": _bytes(max(shared, default=0)),
        "occupancy": f"{min(occupancy_of(cubin).fraction for cubin in cubins):.0%}" if cubins else "-",
    }
    return f'<td class="cell">{"".join(f"""<span class="v {id_}">{_text(text)}</span>""" for id_, text in values.items())}</td>'


def _numbers(bundle: Bundle) -> str:
    """Every number of the heat maps in one table, for those who read it with a program or want it whole."""
    headings = (
        "Kernel",
        "Target",
        "Bytes",
        "Registers",
        "Local memory",
        "Static shared",
        "Dynamic shared",
        "Threads",
        "Occupancy",
        "Arguments",
    )
    columns = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    rows = "".join(
        f'<tr><th scope="row">{_text(entry.label)}</th>{"".join(f"<td>{_text(each)}</td>" for each in _numbers_of(entry, code))}</tr>'
        for entry, code in bundle.codes()
    )
    return (
        '<details><summary>All numbers</summary><div class="scroll" tabindex="0"><table class="values">'
        f"<caption>All numbers</caption><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _numbers_of(entry: Entry, code: Code) -> Iterator[str]:
    yield code.label
    yield str(code.size)
    if isinstance(code, Ptx):
        yield from ("-", "-", "-", str(code.dynamic_shared), str(code.threads), "-")
    else:
        occupancy = occupancy_of(code)
        yield from map(str, (code.registers, code.local_bytes, code.static_shared, code.dynamic_shared, code.threads))
        yield f"{occupancy.warps} of {occupancy.most_warps} warps"
    yield " ".join(
        f"{argument.name}:{argument.type}" + (f"/{argument.divisible_by}" if argument.divisible_by > 1 else "")
        for argument in entry.arguments
    )


def _choices(entry: Entry) -> str:
    """The constants and the number of warps: what tells configurations apart."""
    chosen = {constant.name: constant.value for constant in entry.constants}
    chosen |= {name: entry.options[name] for name in ("num_warps", "num_stages") if name in entry.options}
    return ", ".join(f"{name} {value}" for name, value in chosen.items())


def _bytes(size: int) -> str:
    if abs(size) < 1024:  # noqa: PLR2004 - a kibibyte
        return f"{size} B" if size else "0"
    return f"{size / 1024:.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _clamped(value: float) -> float:
    return min(1.0, max(0.0, value))


def _small(text: str) -> str:
    return f"<small>{_text(text)}</small>" if text else ""


def _text(text: str) -> str:
    return escape(plain(text))
