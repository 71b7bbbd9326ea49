"""Sections of rows of text, of which all tables are made; numbered notes; and how numbers and ratios are written."""

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
    """A table: a heading, its columns, rows of text with their styles, by the step or statement that they are part of.

    `notes` stand below it and explain its marks, unless a table before it did.
    """

    title: str
    columns: tuple[str, ...]
    parts: dict[str, list[Row]] = field(default_factory=dict)  # "": rows of no step
    notes: Sequence[str] = ()
    prose: bool = False  # all columns hold words, not figures

    def add(self, *cells: str, style: str = "") -> None:
        self.add_step("", [(cells, style)])

    def add_step(self, step: str, rows: Sequence[Row]) -> None:
        if rows:
            self.parts.setdefault(step, []).extend(rows)

    @property
    def rows(self) -> list[Row]:
        """All rows; a row of one cell is the name of the part that begins."""
        return [row for name, rows in self.parts.items() for row in ([((name,), "bold")] if name else []) + rows]


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

    def below(self, section: Section) -> dict[int, str]:
        """The meanings of a table's marks, by number."""
        texts = [section.title, *section.columns, *(cell for cells, _ in section.rows for cell in cells)]
        marks = {int(mark) for text in texts for mark in MARK.findall(text)}
        return {number: line for number, line in enumerate(self.lines(), 1) if number in marks}

    def place(self, sections: Iterable[Section]) -> None:
        """Put each mark's meaning below the first of these tables that has it."""
        placed: set[int] = set()
        for section in sections:
            below = self.below(section)
            section.notes = [line for number, line in below.items() if number not in placed]
            placed |= below.keys()


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
