"""Published figures: ours as the reference client prints them, and ratios next to published ratios."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine.analysis.cells import published_line
from engine.analysis.cells.run_results import load, published_by_cell
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.published import PublishedColumn, PublishedLine, PublishedRatio, PublishedTable
from engine.results.section import NAME, Column, Section, columns, row

ACROSS = 2  # subjects of a table with intervals in 80 columns
ACROSS_PLAIN = 6
OUTSIDE = "*"


def ratios(comparison: Comparison) -> Iterable[Section]:
    """Our ratios next to published ones, each table in as many parts as its columns need."""
    for table in comparison.published:
        bounded = any(ratio.low is not None for line in table.lines for ratio in line.ratios)
        across = ACROSS if bounded else ACROSS_PLAIN
        for start in range(0, len(table.columns), across):
            yield _section(table, start, start + across)


def _section(table: PublishedTable, start: int, end: int) -> Section:
    shown = table.columns[start:end]
    outside = any(ratio.within is False for line in table.lines for ratio in line.ratios[start:end])
    reasons = (f"published: {table.source}", *table.differs, *(f"also: {remark}" for remark in table.remarks))
    if outside:
        reasons += (f"{OUTSIDE} outside our 95% interval",)
    several = len({line.figure for line in table.lines}) > 1
    first = _name(table.lines[0]) if several else table.lines[0].step
    against = f"ratio to {_base(table) if table.against == 'subject' else first}"
    rows = []
    for line in table.lines:
        cells = [text for column, ratio in zip(shown, line.ratios[start:end], strict=True)
                 for text in _texts(column, ratio)]  # fmt: skip
        rows.append(row(_name(line) if several else line.step, *cells))
    title = f"{table.title}, {against}, next to published ratios"
    headings = columns("step", *(head for column in shown for head in _heads(column)))
    return Section("published", title, headings, tuple(rows), remarks=reasons)


def _base(table: PublishedTable) -> str:
    return (
        table.base
        if table.base == table.our_base.replace("-prebuilt", "")
        else f"{table.our_base} (published: {table.base})"
    )


def _name(line: PublishedLine) -> str:
    """`qr100 delete cpu_s`: the step, and the figure without the prefix that all share."""
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


def figures(comparison: Comparison) -> Iterable[Section]:
    runs = [load(Path(folder)) for folder in comparison.folders.values()]
    names = {(cell.run, cell.cell): cell.subject for cell in comparison.cells}
    lines = [(names.get((cell.run, cell.cell.id)), step, line) for cell, step, line in published_by_cell(runs)]
    measured = {step for _, step, line in lines if line["ips"] or line["qps"]}  # a pause has no figures
    text = published_line.published_text
    for step in (step for step in comparison.steps if step in measured):
        for start in range(0, len(comparison.names), 4):
            shown, rows = comparison.names[start : start + 4], []
            for figure, (unit, digits) in (published_line.PUBLISHED | published_line.UNPUBLISHED).items():
                values = [
                    middle(
                        [v for of, at, line in lines if (of, at) == (name, step) and (v := line[figure]) is not None]
                    )
                    for name in shown
                ]
                if any(value is not None for value in values):
                    rows.append(
                        row(figure, unit, *("NA" if value is None else text(value, digits) for value in values))
                    )
            title = f"{step}: the published figures (median of cells)"
            yield Section("figures", title, columns("", Column("unit", NAME), *shown), tuple(rows))
