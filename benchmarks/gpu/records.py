"""What was measured: figures against a baseline, as a markdown table and as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

__all__ = ["Figure", "Report", "Row", "Section", "quartiles"]

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number: a ratio, a difference or an absolute value."""

    name: str
    value: float
    unit: str = ""
    """Empty for a ratio."""
    spread: tuple[float, float] | None = None
    """First and third quartile, where the value is a median."""
    at_most: float | None = None
    """The goal, if there is one."""
    at_least: float | None = None

    @classmethod
    def median(cls, name: str, values: Sequence[float], unit: str = "", *, at_most: float | None = None) -> Self:
        """Of repeated measurements."""
        low, middle, high = quartiles(values)
        return cls(name=name, value=middle, unit=unit, spread=(low, high), at_most=at_most)

    @property
    def is_met(self) -> bool:
        """Whether the goal is; true without one."""
        below = self.at_most is None or self.value <= self.at_most
        return below and (self.at_least is None or self.value >= self.at_least)

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        spread = f" ({_digits(self.spread[0])} to {_digits(self.spread[1])})" if self.spread else ""
        return f"{self.name} {_digits(self.value)}{unit}{spread}{self._verdict()}"

    def _verdict(self) -> str:
        for word, goal in (("at most", self.at_most), ("at least", self.at_least)):
            if goal is not None:
                return f" [goal: {word} {_digits(goal)}, {'met' if self.is_met else 'missed'}]"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case."""

    case: str = ""
    """Set by what runs the cases."""
    ratios: tuple[Figure, ...] = ()
    """Against the baselines that their names tell."""
    absolutes: tuple[Figure, ...] = ()
    note: str = ""
    failure: str = ""
    """Why there are no figures."""

    @classmethod
    def parse(cls, text: str) -> Row:
        """Read what `to_json` wrote."""
        content = json.loads(text)
        figures = {name: tuple(_figure(each) for each in content[name]) for name in ("ratios", "absolutes")}
        return cls(**content | figures)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)

    def to_markdown(self) -> str:
        """One line of a table."""
        cells = (self.case, _joined(self.ratios) or f"failed: {self.failure}", _joined(self.absolutes), self.note)
        return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The rows of one question."""

    title: str
    rows: tuple[Row, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run."""

    machine: Mapping[str, str]
    """Date, GPU, driver, versions and command."""
    sections: tuple[Section, ...]

    def to_json(self) -> str:
        """The whole of it."""
        return json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Tables for people."""
        lines = [f"{name}: {value}  " for name, value in self.machine.items()]
        for section in self.sections:
            lines += ["", f"## {section.title}", "", f"{section.seconds:.0f} s", ""]
            lines += ["| case | against the baseline | absolute | note |", "| --- | --- | --- | --- |"]
            lines += [row.to_markdown() for row in section.rows]
        return "\n".join(lines) + "\n"


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _figure(content: dict[str, Any]) -> Figure:
    spread = content["spread"]
    return Figure(**content | {"spread": tuple(spread) if spread else None})


def _joined(figures: Iterable[Figure]) -> str:
    return "; ".join(map(str, figures))


def _digits(value: float) -> str:
    """Three significant digits, and whole numbers from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004
