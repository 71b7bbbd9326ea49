"""Transactions that are timed one by one: a table of their times, and each of them as a point over the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median, stdev

from engine.report.section import Notes, Row, Section, number
from engine.results.cell_step import TransactionTimes
from engine.results.comparison import Comparison, middle
from workloads.page import TIMES

COLUMNS, ROWS = 48, 7  # of a chart
FREE = "·"
LOST = f"of more than {TIMES} transactions of a client in a second the last ones are timed, others only counted"


def sections(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """The table, and a chart for each step and subject. Without rows where nothing was timed."""
    table = Section(
        "Time of each transaction (ms; MB/s and rows/s: median of cells)",
        ("step and build", "n", "total s", "mean", "median", "min", "max", "stddev", "MB/s", "rows/s"),
    )
    chart = Section(
        "Each transaction by its end in the step (all cells over each other)",
        ("step and build", "ms", "", "cells"),
    )
    for step in comparison.steps:
        found = {name: _timed(comparison, name, step) for name in comparison.names}
        done = {name: sum(cell.ops for cell in comparison.of(name, step)) for name in comparison.names}
        rows = {name: _row(cells, done[name], notes) for name, cells in found.items() if cells}
        table.add_step(step, [((f"  {name}", *row), "") for name, row in rows.items()])
        chart.add_step(step, list(_charts(found)))
    yield from (table, chart)


def _timed(comparison: Comparison, name: str, step: str) -> list[TransactionTimes]:
    return [cell.transactions for cell in comparison.of(name, step) if cell.transactions is not None]


def _row(cells: Sequence[TransactionTimes], done: int, notes: Notes) -> tuple[str, ...]:
    lengths_ms = [length_ms for cell in cells for *_, length_ms in cell.each]
    whole = (fmean(lengths_ms), median(lengths_ms), min(lengths_ms), max(lengths_ms))
    return (
        f"{len(lengths_ms):,}" + (notes.mark((LOST,)) if len(lengths_ms) < done else ""),
        _short(sum(lengths_ms) / 1e3),
        *map(_short, whole),
        _short(stdev(lengths_ms)) if len(lengths_ms) > 1 else "-",
        _short(middle([cell.mb_per_s for cell in cells])),
        _short(middle([cell.rows_per_s for cell in cells])),
    )


def _short(value: float | None) -> str:
    """As `number`, without a second digit after the point, for which there is no room."""
    return f"{value:.1f}" if value is not None and 10 <= abs(value) < 100 else number(value)


def _charts(found: dict[str, list[TransactionTimes]]) -> Iterable[Row]:
    """A chart for each subject, all on the same scales: from the shortest time to the longest, from 0 s to the last."""
    every = [each for cells in found.values() for cell in cells for each in cell.each]
    if not every:
        return
    low, high = (bound(length_ms for *_, length_ms in every) for bound in (min, max))
    last_s = max(ended_s for _, ended_s, _ in every)
    for name, cells in found.items():
        points = [(ended_s, length_ms) for cell in cells for _, ended_s, length_ms in cell.each]
        if points:
            lines = chart(points, last_s, low, high)
            labels = {0: _short(high), ROWS - 1: _short(low)}
            for y, line in enumerate(lines):
                named = (f"  {name}", str(len(cells))) if y == 0 else ("", "")
                yield (named[0], labels.get(y, ""), line, named[1]), ""
    yield ("", "", f"{'0 s':<{COLUMNS // 2}}{f'{last_s:.1f} s':>{COLUMNS - COLUMNS // 2}}", ""), "dim"


def chart(points: Iterable[tuple[float, float]], last_s: float, low: float, high: float) -> list[str]:
    """Lines of text, the highest first, with an `o` for each point; a digit where several coincide."""
    counts = [[0] * COLUMNS for _ in range(ROWS)]
    for x, y in points:
        row = _place(y - low, high - low, ROWS) if high > low else ROWS // 2
        counts[ROWS - 1 - row][_place(x, last_s, COLUMNS)] += 1
    return ["".join(FREE if n == 0 else "o" if n == 1 else str(min(n, 9)) for n in row) for row in counts]


def _place(value: float, most: float, places: int) -> int:
    return max(0, min(places - 1, round(value / most * (places - 1)))) if most > 0 else 0
