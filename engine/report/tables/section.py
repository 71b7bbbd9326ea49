"""What all tables are made of: sections of rows of text, numbered notes, and how numbers and ratios are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from engine.core.format import duration
from engine.results.comparison import Comparison
from engine.results.ratio import RATE, TIME, Ratio

BETTER, WORSE, WITHHELD = "#0072B2", "#D55E00", "#CC79A7"
ARROWS = {"better": "▲", "worse": "▼"}
STYLES = {"better": BETTER, "worse": WORSE, "?": WITHHELD, "=": "dim", "~": "dim"}  # by sign
WHERE = "where"  # a column of words
MARK = re.compile(r" \((\d+)\)")  # of a note, in a cell
UNITS = "{units}"  # in titles and headings: what the rates of the steps count
Row = tuple[tuple[str, ...], str]  # cells, style


@dataclass(slots=True)
class Section:
    """A table: a heading, its columns, rows of text with their styles. A row of one cell is a step's name.

    `notes` stand below it and explain its marks, unless a table before it did.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prose: bool = False  # all columns hold words, not figures

    def add(self, *cells: str) -> None:
        self.rows.append((cells, ""))

    def add_step(self, step: str, rows: Sequence[Row]) -> None:
        self.rows += [((step,), "bold"), *rows] if rows else []


class Notes:
    """Numbered reasons, each printed once, below the first table that has its mark."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, ...], int] = {}

    def mark(self, reasons: tuple[str, ...]) -> str:
        """The mark of these reasons: `(1)`; empty without any."""
        if not reasons:
            return ""
        return f" ({self.numbers.setdefault(reasons, len(self.numbers) + 1)})"

    def lines(self) -> list[str]:
        return [f"({number}) {'; '.join(reasons)}" for reasons, number in self.numbers.items()]

    def place(self, sections: Iterable[Section]) -> None:
        """Put each mark's meaning below the first of these tables that has it."""
        left = dict(enumerate(self.lines(), 1))
        for section in sections:
            texts = [*section.columns, *(cell for cells, _ in section.rows for cell in cells)]
            marks = {int(mark) for text in texts for mark in MARK.findall(text)}
            section.notes += [left.pop(mark) for mark in sorted(marks & left.keys())]


Rows = Iterable[Row]  # of one subject in one step


@dataclass(frozen=True, slots=True)
class Table:
    """A section by steps: the rows of a step and subject from a function, all but the first called `below`."""

    title: str
    columns: tuple[str, ...]
    rows: Callable[[Comparison, Notes, str, str], Rows]
    below: str = "    / base"

    def __call__(self, comparison: Comparison, notes: Notes) -> Iterable[Section]:
        """Yield the section; the subject's name stands before the first of its rows."""
        columns = (with_units(column, comparison, " or\n") for column in self.columns)
        section = Section(with_units(self.title, comparison), ("step and build", *columns))
        for step in comparison.steps:
            rows = [
                ((f"  {name}" if place == 0 else self.below, *cells), style)
                for name in comparison.names
                for place, (cells, style) in enumerate(self.rows(comparison, notes, step, name))
            ]
            section.add_step(step, rows)
        yield section


def with_units(text: str, comparison: Comparison, between: str = " or ") -> str:
    """The text with its UNITS spelled out."""
    of_rates = (unit for step, unit in comparison.units.items() if comparison.primary_metric(step) == RATE)
    return text.replace(UNITS, between.join(tuple(dict.fromkeys(of_rates)) or ("ops/s",)))


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def value_text(metric: str, value: float | None) -> str:
    return duration(value) if metric == TIME else number(value)


def percent(value: float | None) -> str:
    """`12.3%`; a dash for None."""
    return "-" if value is None else f"{value:.1%}"


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None or ratio.ratio is None:
        return ""
    sign = ratio.sign
    return f"{ARROWS.get(sign, sign)}{ratio.ratio:.{3 if ratio.ratio < 100 else 0}f}"


def bounds(ratio: Ratio) -> str:
    return "-".join(f"{bound:.3f}" for bound in ratio.bounds or ())
