"""A section of a comparison: a table of values, and its findings in sentences. Every output draws any section.

Values come first and text last: a cell holds a number or words, its column the unit, and `drawn` is the one place where
they become the text that terminal, Markdown, page and screens show. `--json` has the values themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.core.format import duration, size
from engine.results.ratio import Ratio

ARROWS = {"better": "▲", "worse": "▼"}
WORDS = "words"  # the unit of a column of sentences, which may be folded
NAME = "name"  # the unit of a column of short words
MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, which may have line breaks, and the unit of the values below it, a key of `UNITS`.

    With `bounds`, a second column of text has this heading and the values' 95% intervals. `remarks` are about all of
    the column.
    """

    name: str
    unit: str = ""
    bounds: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with its 95% interval, a sign as `Ratio.sign`, remarks, and its unit if its column has another.

    With a `base`, the difference from it is shown. Or values `by` builds, configs or subjects, such as those of a
    setting; null where a server does not know it.
    """

    value: float | int | str | None
    low: float | None = None
    high: float | None = None
    sign: str = ""
    remarks: tuple[str, ...] = ()
    unit: str = ""
    base: float | None = None
    by: dict[str, str | None] | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


Value = Figure | float | int | str | None


@dataclass(frozen=True, slots=True)
class Row:
    """Values by column; in the first column is `name`, indented by `depth`.

    `step` is the step, or another part of the table, under whose name the row stands; `mark` is a sign as `Ratio.sign`,
    or `dim` or `strong`. Missing values are blank.
    """

    name: str
    values: tuple[Value, ...] = ()
    step: str = ""
    subject: str = ""
    mark: str = ""
    depth: int = 0
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A table, known by its `key`; `findings` are sentences, `remarks` conditions that are noted below the table.

    The rows of a `flat` section do not stand below the names of their steps.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    findings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    flat: bool = False

    def of(self, step: str, subject: str) -> list[Row]:
        return [row for row in self.rows if (row.step, row.subject) == (step, subject)]


def row(
    name: str, *values: Value, step: str = "", subject: str = "", mark: str = "", depth: int = 0,
    remarks: tuple[str, ...] = (),
) -> Row:  # fmt: skip
    return Row(name, values, step, subject, mark, depth, remarks)


def columns(*names: str | Column) -> tuple[Column, ...]:
    return tuple(Column(name) if isinstance(name, str) else name for name in names)


def of_ratio(ratio: Ratio | None, unit: str = "ratio", remarks: tuple[str, ...] = ()) -> Figure:
    """The cell of a ratio, or of its interval alone (unit `interval`); blank without one."""
    if ratio is None:
        return Figure(None, unit=unit)
    low, high = ratio.bounds or (None, None)
    return Figure(ratio.ratio, low, high, ratio.sign, remarks, unit)


# -- Values as text


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """`12.3%`; a dash for None."""
    return "-" if value is None else f"{value:.1%}"


def change(value: float, bounds: tuple[float, float] | None) -> str:
    """`+0.80`, with as many digits as the interval bears, and as bounds need that are not 0."""
    return f"{value:+,.{_digits(bounds)}f}" if bounds else f"{'+' * (value > 0)}{number(value)}"


def _digits(bounds: tuple[float, float]) -> int:
    low, high = bounds
    finest = min(high - low, 4 * abs(low), 4 * abs(high)) / 4
    return min(MOST_DIGITS, max(0, -math.floor(math.log10(finest)))) if finest > 0 else MOST_DIGITS


UNITS: Mapping[str, Callable[[float], str]] = {
    "": number,
    "short": lambda value: f"{value:.1f}" if 10 <= abs(value) < 100 else number(value),  # for lack of room
    "count": lambda value: f"{value:,.0f}",
    "s": duration,
    "us": lambda value: duration(value / 1e6),
    "bytes": size,
    "share": percent,
    "percent": lambda value: f"{value:.0%}",
    "some": lambda value: "-" if value <= 0 else "<1%" if value < 0.01 else f"{value:.0%}",  # a share, or nothing
    "beside": lambda value: f"{value:.{3 if value < 100 else 1}f}",  # with its interval, and then its sign
    "ratio": lambda value: f"{value:.{3 if value < 100 else 0}f}",
    "fixed": "{:.3f}".format,
    "change": lambda value: change(value, None),
}


def text(value: Value, unit: str = "") -> str:
    """A value as every output shows it; None is a dash, but blank where a ratio or words would stand."""
    cell = value if isinstance(value, Figure) else Figure(value)
    unit = cell.unit or unit
    if unit == "interval":
        return bounds_text(cell)
    if cell.by:
        return _by_owner(cell.by)
    if cell.value is None:
        return "" if unit in ("ratio", WORDS) else "-"
    if isinstance(cell.value, str):
        return cell.value
    if unit == "range" and cell.base is not None:
        return f"{number(cell.base)} to {number(cell.value)}"
    if unit == "change":
        return change(cell.value - (cell.base or 0.0), cell.bounds)
    if unit == "beside":
        bounds = f" [{cell.low:.3f}, {cell.high:.3f}]" if cell.bounds else ""
        return f"{UNITS[unit](cell.value)}{bounds}{' ' * bool(cell.sign)}{cell.sign}"
    return ARROWS.get(cell.sign, cell.sign) + UNITS[unit](cell.value)


def _by_owner(values: Mapping[str, str | None]) -> str:
    """`64MB (a), 1GB (b, c)`."""
    owners: dict[str | None, list[str]] = {}
    for name, value in values.items():
        owners.setdefault(value, []).append(name)
    return ", ".join(f"{setting_text(value)} ({', '.join(names)})" for value, names in owners.items())


def setting_text(value: str | None) -> str:
    return "unknown" if value is None else value or "''"


def bounds_text(value: Value, unit: str = "") -> str:
    """The interval: `0.895-0.993` of a ratio, `75% to 89%`, `[0.52, 1.08]` of a change; blank without one."""
    if not isinstance(value, Figure) or value.bounds is None:
        return ""
    low, high = value.bounds
    match value.unit or unit:
        case "percent":
            return f"{low:.0%} to {high:.0%}"
        case "change":
            digits = _digits(value.bounds)
            return f"[{low:,.{digits}f}, {high:,.{digits}f}]"
        case _:
            return f"{low:.3f}-{high:.3f}"


# -- Sections as text


@dataclass(slots=True)
class TextTable:
    """A section as text: rows of cells with their marks; a row of one cell is the name of a step.

    `words` are the columns that may be folded; they and those of short words stand at the `left`. `notes` stand below
    the table and explain its marks.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    words: tuple[bool, ...]
    left: tuple[bool, ...]
    rows: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Notes:
    """Numbered remarks, each printed once, below the first table that has its mark."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}

    def mark(self, remarks: tuple[str, ...]) -> str:
        """The mark of these remarks: ` (1)`; empty without any."""
        return f" ({self._numbers.setdefault(remarks, len(self._numbers) + 1)})" if remarks else ""

    def below(self, section: Section) -> dict[int, str]:
        """The meanings of a section's marks, by number."""
        marked = {section.remarks, *(column.remarks for column in section.columns)}
        for line in section.rows:
            marked |= {line.remarks, *(value.remarks for value in line.values if isinstance(value, Figure))}
        return {number: f"({number}) {'; '.join(texts)}" for texts, number in self._numbers.items() if texts in marked}


def drawn(sections: Iterable[Section], notes: Notes, *, again: bool = False) -> list[TextTable]:
    """The sections as text; a note stands below the first that has its mark, or below each of them if `again`."""
    tables, placed = [], set[int]()
    for section in sections:
        table = _drawn(section, notes)
        below = notes.below(section)
        table.notes = [line for number, line in sorted(below.items()) if again or number not in placed]
        placed |= below.keys()
        tables.append(table)
    return tables


def _drawn(section: Section, notes: Notes) -> TextTable:
    title = section.title + notes.mark(section.remarks)
    headings: list[str] = []
    units: list[str] = []
    for column in section.columns:
        headings += [column.name + notes.mark(column.remarks), *([column.bounds] if column.bounds else [])]
        units += [column.unit, *([""] if column.bounds else [])]
    table = TextTable(
        section.key, title, tuple(headings), tuple(unit == WORDS for unit in units),
        tuple(unit in (WORDS, NAME) for unit in units),
    )  # fmt: skip
    before = ""
    for line in section.rows:
        step = "" if section.flat else line.step
        if step and step != before:
            table.rows.append(((step,), "strong"))
        before = step
        name = "  " * (line.depth + bool(step)) + line.name + notes.mark(line.remarks) if line.name else ""
        cells = _cells(section.columns[1:], line.values, notes)
        table.rows.append(((name, *cells, *[""] * (len(headings) - 1 - len(cells))), line.mark))
    return table


def _cells(columns: Sequence[Column], values: Sequence[Value], notes: Notes) -> list[str]:
    cells = []
    for column, value in zip(columns, values, strict=False):
        remarks = value.remarks if isinstance(value, Figure) else ()
        cells.append(text(value, column.unit) + notes.mark(remarks))
        if column.bounds:
            cells.append(bounds_text(value, column.unit))
    return cells
