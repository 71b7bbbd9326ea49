"""Published tables beside ours, as text: a line for each step, ratios only."""

from __future__ import annotations

from collections.abc import Iterable

from engine.report.section import Notes, Section
from engine.results.comparison import Comparison
from engine.results.published import PublishedColumn, PublishedLine, PublishedRatio, PublishedTable

ACROSS = 2  # subjects of a table with intervals in 80 columns
ACROSS_PLAIN = 6
OUTSIDE = "*"


def sections(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """The tables that the comparison has, each in as many parts as its columns need."""
    for table in comparison.published:
        bounded = any(ratio.low is not None for line in table.lines for ratio in line.ratios)
        across = ACROSS if bounded else ACROSS_PLAIN
        for start in range(0, len(table.columns), across):
            yield _section(table, start, start + across, notes)


def _section(table: PublishedTable, start: int, end: int, notes: Notes) -> Section:
    columns = table.columns[start:end]
    outside = any(ratio.within is False for line in table.lines for ratio in line.ratios[start:end])
    reasons = (f"published: {table.source}", *table.differs, *(f"also: {remark}" for remark in table.remarks))
    if outside:
        reasons += (f"{OUTSIDE} outside our 95 % interval",)
    several = len({line.figure for line in table.lines}) > 1
    first = _name(table.lines[0]) if several else table.lines[0].step
    against = f"ratio to {_base(table) if table.against == 'subject' else first}"
    heads = [head for column in columns for head in _heads(column)]
    section = Section(f"{table.title}, {against}, beside what was published{notes.mark(reasons)}", ("step", *heads))
    for line in table.lines:
        cells = [text for column, ratio in zip(columns, line.ratios[start:end], strict=True)
                 for text in _texts(column, ratio)]  # fmt: skip
        section.add(_name(line) if several else line.step, *cells)
    return section


def _base(table: PublishedTable) -> str:
    return (
        table.base
        if table.base == table.our_base.replace("-prebuilt", "")
        else f"{table.our_base} (published: {table.base})"
    )


def _name(line: PublishedLine) -> str:
    """`qr100 delete cpu_s`: the step, and the figure without what all of them begin with."""
    return f"{line.step} {line.figure.removeprefix('roles.').removeprefix('transactions.').replace('.', ' ')}"


def _heads(column: PublishedColumn) -> tuple[str, ...]:
    ours = (f"{column.ours}\nours",) if column.ours else ()
    return (*ours, *((f"{column.published}\npublished",) if column.published else ()))


def _texts(column: PublishedColumn, ratio: PublishedRatio) -> tuple[str, ...]:
    ours = _number(ratio.ours)
    if ratio.low is not None and ratio.high is not None:
        ours += f" [{ratio.low:.3f}, {ratio.high:.3f}]"
    published = _number(ratio.published) + (f" {OUTSIDE}" if ratio.within is False else "")
    return (*((ours,) if column.ours else ()), *((published,) if column.published else ()))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 100 else f"{value:.1f}"
