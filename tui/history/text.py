"""History as lines: a table of runs or of cells' steps, and what there is to say of the row at the cursor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tui.glyphs import Glyphs
from tui.history.past import CellStep, Past
from tui.marks import Line, Span, fit, line
from tui.numbers import clock, short, span
from tui.widgets.envelope import columns_of

Row = TypeVar("Row", Past, CellStep)
BETWEEN = 1  # columns
EDGE = 2  # cells left of the first column: the cursor, the pick

STATES = {
    "running": (">", "chosen"),
    "finished": (".", ""),
    "unfinished": ("~", "dim"),
    "failed": ("x", "worse"),
    "not started": ("~", "dim"),
    "unreadable": ("?", "warning"),
}


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: `cells` wide, 0 for all that is left; shown where the screen has at least `least` columns."""

    title: str
    cells: int
    text: Callable[[Row, int], Span]  # of a row and the current year
    least: int = 0
    right: bool = False


def run_columns(columns: int) -> tuple[Column[Past], ...]:
    """The columns of the table of runs on so wide a screen."""
    return tuple(column for column in _RUNS if column.least <= columns)


def cell_columns(columns: int, *, one_run: bool) -> tuple[Column[CellStep], ...]:
    """The columns of the table of cells' steps; those that are the same within a run are left out for one."""
    left_out = ("host", "kernel") if one_run and columns < 110 else ()
    return tuple(column for column in _CELLS if column.least <= columns and column.title not in left_out)


def when(t_ns: int, year: int) -> str:
    """`11-20 03:12`, or `2025-11-20` in another year; local time."""
    at = time.localtime(t_ns / 1e9)
    return time.strftime("%m-%d %H:%M" if at.tm_year == year else "%Y-%m-%d", at)


def year_of(t_ns: int) -> int:
    """The year of a time, here."""
    return time.localtime(t_ns / 1e9).tm_year


def stalled(count: int, seconds: float) -> Span:
    """`14s x2`: how long, in how many pieces."""
    if not count:
        return ("-", "dim")
    return (f"!{span(seconds) if seconds >= 9.5 else f'{seconds:.1f}s'}" + (f" x{count}" if count > 1 else ""), "worse")


def _state(run: Past, _: int) -> Span:
    glyph, mark = STATES[run.state]
    return (f"{glyph} {f'{run.failed} failed' if run.state == 'failed' else run.state}", mark)


_RUNS: tuple[Column[Past], ...] = (
    Column("when", 11, lambda run, year: (when(run.when_ns, year), "")),
    Column("host", 8, lambda run, _: (run.host, "")),
    Column("builds", 0, lambda run, _: (" ".join(run.builds) or run.trouble, "")),
    Column("kernel", 14, lambda run, _: (run.kernel, ""), least=110),
    Column("load", 15, lambda run, _: (run.load, ""), least=110),
    Column("steps", 18, lambda run, _: (" ".join(run.steps), ""), least=150),
    Column("cells", 5, lambda run, _: (f"{run.done}/{run.planned}", ""), right=True),
    Column("stalls", 9, lambda run, _: stalled(run.stalls, run.stalled_s)),
    Column("state", 12, _state),
    Column("tags", 14, lambda run, _: (" ".join(run.tags), "chosen"), least=110),
)


def _flags(row: CellStep, _: int) -> Span:
    """The flags without their reasons, which the row's own line tells."""
    return (" ".join(text.partition(":")[0] for text, _ in row.flags), row.flags[0][1] if row.flags else "")


_CELLS: tuple[Column[CellStep], ...] = (
    Column("when", 11, lambda row, year: (when(row.when_ns, year), "")),
    Column("host", 6, lambda row, _: (row.run.host, "")),
    Column("build", 0, lambda row, _: (row.build, "")),
    Column("kernel", 8, lambda row, _: (row.kernel, "")),
    Column("step", 6, lambda row, _: (row.step or "-", "")),
    Column("rep", 3, lambda row, _: (str(row.repeat), ""), right=True),
    Column("rate/s", 6, lambda row, _: (short(row.rate_per_s), "rate"), right=True),
    Column("took", 6, lambda row, _: (_took(row), ""), least=110, right=True),
    Column("stalls", 9, lambda row, _: stalled(len(row.stalls), row.stalled_s)),
    Column("flags", 15, _flags),
    Column("run", 32, lambda row, _: (row.run.name, "dim"), least=130),
)


def _took(row: CellStep) -> str:
    return "-" if row.ended_ns is None else span((row.ended_ns - row.started_ns) / 1e9)


@dataclass(frozen=True, slots=True)
class Seen:
    """The rows that are seen: `cursor` and `top` are places in all rows, `rows` how many fit."""

    cursor: int
    top: int
    rows: int


def scrolled(cursor: int, top: int, rows: int, count: int) -> Seen:
    """Keeps the cursor within the rows, and the rows in sight around it."""
    cursor = max(0, min(cursor, count - 1))
    top = max(0, min(top, cursor, count - rows))
    return Seen(cursor, max(top, cursor - rows + 1), rows)


def table(
    rows: Sequence[Row],
    shown: Sequence[Column[Row]],
    seen: Seen,
    columns: int,
    year: int,
    picked: Callable[[Row], bool],
    glyphs: Glyphs,
) -> list[Line]:
    """The heading and the rows that are seen."""
    fixed = sum(column.cells for column in shown) + BETWEEN * (len(shown) - 1) + EDGE
    widths = [column.cells or max(4, columns - fixed) for column in shown]
    heading = " " * EDGE + (" " * BETWEEN).join(
        _padded(column.title, width, column.right, glyphs) for column, width in zip(shown, widths, strict=True)
    )
    lines = [line((heading, "dim"))]
    for place, row in enumerate(rows[seen.top : seen.top + seen.rows], seen.top):
        at, mark = place == seen.cursor, "strong" if picked(row) else ""
        spans: list[Span] = [(">" if at else " ", "chosen"), ("*" if picked(row) else " ", "strong")]
        for column, width in zip(shown, widths, strict=True):
            text, own = column.text(row, year)
            spans += [(_padded(text, width, column.right, glyphs), own or mark), (" " * BETWEEN, "")]
        lines.append(_at_cursor(spans[:-1], columns) if at else tuple(spans[:-1]))
    return lines


def _at_cursor(spans: Sequence[Span], columns: int) -> Line:
    return (("".join(text for text, _ in spans).ljust(columns), "cursor"),)


def _padded(text: str, cells: int, right: bool, glyphs: Glyphs) -> str:
    cut = text if len(text) <= cells else text[: cells - 1] + glyphs.ellipsis
    return cut.rjust(cells) if right else cut.ljust(cells)


def of_run(run: Past, columns: int, glyphs: Glyphs) -> list[Line]:
    """Two lines about a run: what it is called, and what it was."""
    named = [(f" {run.name}", "strong")] + [(f"  #{tag}", "chosen") for tag in run.tags]
    if run.trouble:
        about: Line = line((f" {run.trouble}", "warning"))
    else:
        clients = counted(run.clients, "client")
        probes = f"; probes {' '.join(run.probes)}" if run.probes else ""
        about = line(f" {run.load}, {clients}: {' '.join(run.steps)}{probes}; kernel {run.kernel}")
    return [fit(tuple(named), columns, glyphs.ellipsis), fit(about, columns, glyphs.ellipsis)]


def of_cell(row: CellStep, columns: int, glyphs: Glyphs) -> list[Line]:
    """Two lines about a cell's step: what it is called, and where in it were stalls."""
    named = line((f" {row.cell} {row.step}", "strong"), *((f"  {text}", mark) for text, mark in row.flags))
    return [fit(named, columns, glyphs.ellipsis), fit(ribbon(row, columns), columns, glyphs.ellipsis)]


def ribbon(row: CellStep, columns: int) -> Line:
    """The whole step as one row, stalls marked."""
    if row.ended_ns is None or row.ended_ns <= row.started_ns:
        return line((" not finished" if row.step else " came to no step", "dim"))
    left, right = " 00:00:00 ", f" {clock((row.ended_ns - row.started_ns) / 1e9)} "
    cells = max(1, columns - len(left) - len(right))
    marked = {x for at in row.stalls for x in columns_of(row.started_ns, row.ended_ns, at[0], at[1], cells)}
    spans: list[Span] = [(left, "dim")]
    for x in range(cells):
        text, mark = ("!", "stall") if x in marked else (".", "dim")
        if spans[-1][1] == mark and x:
            spans[-1] = (spans[-1][0] + text, mark)
        else:
            spans.append((text, mark))
    return (*spans, (right, "dim"))


def counted(number: int, word: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {word}{'s' if number != 1 else ''}"


def title(heading: str, filter_text: str, sort: str, note: str, columns: int) -> Line:
    """The first row: what is listed, the filter, the order."""
    left, right = f" HISTORY  {heading}", f"sort {sort} "
    asked = (f"  filter: {filter_text}" if filter_text else "") + (f"  {note}" if note else "")
    # What is listed gives way to the filter: rows that are missing without a word are taken for gone.
    room = max(len(" HISTORY  ~"), columns - len(asked) - len(right) - 1)
    left = left if len(left) <= room else f"{left[: room - 1]}~"
    cells = max(1, columns - len(right))
    return (((left + asked)[: cells - 1].ljust(cells) + right, "title"),)
