"""Kernels and targets of a bundle as an HTML table whose cells are coloured by one of several numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template

from hatch_tensoracle._markup import element, tag, text
from hatch_tensoracle.bundle import Bundle, Code, Cubin, Entry, Ptx
from hatch_tensoracle.occupancy import occupancy_of
from hatch_tensoracle.targets import TARGETS

__all__ = ["all_numbers", "heat_map", "shown_bytes", "styles", "switch"]

_MOST_REGISTERS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """What cells can be coloured by."""

    id: str
    name: str
    low: str
    high: str
    """What the ends of its scale stand for."""
    total: str
    """What the last row has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What a cell shows of one metric."""

    text: str
    detail: str = ""
    heat: float = 0
    """From 0 to 1."""


_METRICS = (
    _Metric(id="size", name="Size", low="none", high="the largest", total="All"),
    _Metric(id="registers", name="Registers", low="0", high="255 a thread", total="Most"),
    _Metric(id="local", name="Spills and stack", low="none", high="the most", total="Most"),
    _Metric(id="shared", name="Shared memory", low="none", high="all of a block", total="Most"),
    _Metric(id="occupancy", name="Occupancy", low="0", high="100%", total="Least"),
)
_STYLE = Template("""
body:has(#show-$id:checked) .key.$id { display: flex; }
body:has(#show-$id:checked) .v:not(.$id) { display: none; }
body:has(#show-$id:checked) tbody td.cell {
  background: color-mix(in oklab, var(--hot-$id) calc(var(--$id, 0) * 100%), var(--card));
}
.key.$id i { background: linear-gradient(90deg in oklab, var(--card), var(--hot-$id)); }
""")
_NONE = _Value(text="-")
"""Of PTX: its driver decides."""


def styles() -> str:
    """The rules by which the chosen radio button shows one metric and hides the others."""
    return "".join(_STYLE.substitute(id=metric.id) for metric in _METRICS)


def switch() -> str:
    """The radio buttons, and the scale of each metric."""
    buttons, keys = [], []
    for i, metric in enumerate(_METRICS):
        checked = {"checked": ""} if i == 0 else {}
        button = tag("input", type="radio", name="metric", id=f"show-{metric.id}", **checked)
        buttons.append(element("label", button, metric.name))
        scale = (metric.low, element("i"), metric.high)
        keys.append(element("span", *scale, class_=f"key {metric.id}", aria_hidden="true"))
    fieldset = element("fieldset", element("legend", "Heat map of"), *buttons)
    return element("div", fieldset, *keys, class_="bar")


def heat_map(name: str, bundle: Bundle) -> str:
    """A row for each variant, a column for each target."""
    labels = [*bundle.targets, *([f"{bundle.ptx_target} PTX"] if bundle.ptx_target is not None else [])]
    headings = [element("th", text(label), scope="col") for label in ["Kernel", *labels]]
    largest = max((code.size for _, code in bundle.codes()), default=0)
    spilled = max((cubin.local_bytes for _, cubin in bundle.cubins()), default=0)
    rows = []
    for entry in bundle.entries:
        cells = [_cell(entry, code, _values(code, largest, spilled)) for code in entry.codes]
        rows.append(element("tr", _row_heading(entry), *cells))
    totals = [_totals([entry.codes[i] for entry in bundle.entries]) for i in range(len(labels))]
    names = element("th", _spans({metric.id: _Value(text=metric.total) for metric in _METRICS}), scope="row")
    return _scrolled(
        element("caption", f"Kernels and targets of {text(name)}"),
        element("thead", element("tr", *headings)),
        element("tbody", *rows),
        element("tfoot", element("tr", names, *totals)),
    )


def all_numbers(bundle: Bundle) -> str:
    """Every number in one table, for those who read it with a program or want it whole."""
    columns = ("Target", "Bytes", "Registers", "Local memory", "Static shared", "Dynamic shared", "Threads", "Warps")
    headings = [element("th", name, scope="col") for name in ("Kernel", *columns, "Arguments")]
    rows = []
    for entry, code in bundle.codes():
        cells = [element("td", text(number)) for number in _numbers(entry, code)]
        rows.append(element("tr", element("th", text(entry.label), scope="row"), *cells))
    table = _scrolled(
        element("caption", "All numbers"), element("thead", element("tr", *headings)), element("tbody", *rows)
    )
    return element("details", element("summary", "All numbers"), table)


def shown_bytes(size: int) -> str:
    """`0`, `512 B`, `9.1 KiB` or `2.0 MiB`."""
    if size < 1 << 10:
        return f"{size} B" if size else "0"
    return f"{size / (1 << 10):.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"


def _scrolled(*content: str) -> str:
    return element("div", element("table", *content), class_="scroll", tabindex="0")


def _row_heading(entry: Entry) -> str:
    chosen = {constant.name: constant.value for constant in entry.constants}
    chosen |= {name: entry.options[name] for name in ("num_warps", "num_stages") if name in entry.options}
    choices = ", ".join(f"{name} {value}" for name, value in chosen.items())
    return element("th", text(entry.label), element("small", text(choices), title=choices), scope="row")


def _cell(entry: Entry, code: Code, values: Mapping[str, _Value]) -> str:
    heat = ";".join(f"--{id_}:{min(1, value.heat):.3f}" for id_, value in values.items() if value.heat > 0)
    said = "; ".join(f"{metric.name} {values[metric.id].text}" for metric in _METRICS if metric.id in values)
    title = f"{entry.label} {code.label}: {said}"
    return element("td", _spans(values), class_="cell", style=heat, title=title)


def _spans(values: Mapping[str, _Value]) -> str:
    spans = []
    for metric in _METRICS:
        value = values.get(metric.id, _NONE)
        detail = element("small", text(value.detail)) if value.detail else ""
        spans.append(element("span", text(value.text), detail, class_=f"v {metric.id}"))
    return "".join(spans)


def _values(code: Code, largest: int, spilled: int) -> dict[str, _Value]:
    most, shared = TARGETS[code.target].max_shared, _shared(code)
    values = {
        "size": _Value(text=shown_bytes(code.size), heat=code.size / largest if largest else 0),
        "shared": _Value(
            text=shown_bytes(shared), detail=f"of {shown_bytes(most)}" if shared else "", heat=shared / most
        ),
    }
    if isinstance(code, Cubin):
        occupancy = occupancy_of(code)
        limited = f"limited by {occupancy.limit}" if occupancy.fraction < 1 else ""
        local = code.local_bytes / spilled if spilled else 0
        values["registers"] = _Value(text=str(code.registers), heat=code.registers / _MOST_REGISTERS)
        values["local"] = _Value(text=shown_bytes(code.local_bytes), heat=local)
        values["occupancy"] = _Value(text=f"{occupancy.fraction:.0%}", detail=limited, heat=occupancy.fraction)
    return values


def _totals(codes: Sequence[Code]) -> str:
    values = {
        "size": _Value(text=shown_bytes(sum(code.size for code in codes))),
        "shared": _Value(text=shown_bytes(max(map(_shared, codes), default=0))),
    }
    if cubins := [code for code in codes if isinstance(code, Cubin)]:
        values["registers"] = _Value(text=str(max(cubin.registers for cubin in cubins)))
        values["local"] = _Value(text=shown_bytes(max(cubin.local_bytes for cubin in cubins)))
        values["occupancy"] = _Value(text=f"{min(occupancy_of(cubin).fraction for cubin in cubins):.0%}")
    return element("td", _spans(values), class_="cell")


def _numbers(entry: Entry, code: Code) -> Iterator[str | int]:
    yield from (code.label, code.size)
    if isinstance(code, Ptx):
        yield from ("-", "-", "-", code.dynamic_shared, code.threads, "-")
    else:
        occupancy = occupancy_of(code)
        yield from (code.registers, code.local_bytes, code.static_shared, code.dynamic_shared, code.threads)
        yield f"{occupancy.warps} of {occupancy.most_warps}"
    yield entry.signature


def _shared(code: Code) -> int:
    return code.dynamic_shared + (code.static_shared if isinstance(code, Cubin) else 0)
