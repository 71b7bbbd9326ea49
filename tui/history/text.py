"""History as lines: a table of runs or of cells' steps, and a description of the row at the cursor."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.core.format import clock, duration, short, span
from engine.core.text import visible
from engine.view.run_summary import RunSummary, StepSummary
from tui.glyphs import Glyphs
from tui.marks import Line, Span, cut, fit, line
from tui.widgets.ribbon import ribbon as strip

Row = RunSummary | StepSummary
BETWEEN = 1  # cells
NARROW, WIDE = 72, 110  # screen widths
EDGE = 2  # cells left of the first column: cursor and pick

STATES = {
    "running": (">", "chosen"),
    "finished": (".", ""),
    "unfinished": ("~", "dim"),
    "failed": ("x", "worse"),
    "not started": ("~", "dim"),
    "unreadable": ("?", "warning"),
}


@dataclass(frozen=True, slots=True)
class HistoryColumn:
    """One column: `cells` wide, 0 for the remaining room; shown on screens of at least `least` columns."""

    title: str
    cells: int
    text: Callable[[Any, int], Span]  # takes a run or a cell's step, and the current year
    least: int = 0
    right: bool = False


def run_columns(columns: int, slices: Mapping[Path, str], *, tagged: bool = False) -> tuple[HistoryColumn, ...]:
    """Columns for runs: a wide screen adds `slices` if any run has them; tags replace the host on a narrow one."""
    every = list(_RUNS)
    if tagged and NARROW <= columns < WIDE:
        every = [replace(column, least=WIDE) if column.title == "host" else column for column in every]
        every.append(replace(_TAGS, cells=11, least=NARROW))
    over = max(0, columns - 150)  # the builds share the width beyond this
    wider = {"load": min(10, over // 3), "steps": min(30, over // 2)}
    every = [replace(column, cells=column.cells + wider.get(column.title, 0)) for column in every]
    if slices:
        after = next(place for place, column in enumerate(every) if column.title == "builds") + 1
        every.insert(
            after, HistoryColumn("slices", 7, lambda run, _: (slices.get(run.folder, ""), "strong"), least=WIDE)
        )
    return tuple(column for column in every if column.least <= columns)


def cell_columns(columns: int, *, one_run: bool) -> tuple[HistoryColumn, ...]:
    """Columns for cells' steps; for one run without those that are equal within it."""
    left_out = ("host", "kernel") if one_run and columns < 110 else ()
    return tuple(column for column in _CELLS if column.least <= columns and column.title not in left_out)


def when(t_ns: int, year: int) -> str:
    """Local time as `11-20 03:12`, or `2025-11-20` in another year."""
    at = time.localtime(t_ns / 1e9)
    return time.strftime("%m-%d %H:%M" if at.tm_year == year else "%Y-%m-%d", at)


def year_of(t_ns: int) -> int:
    return time.localtime(t_ns / 1e9).tm_year


def stalled(count: int, seconds: float) -> Span:
    """Total and number of stalls: `14s x2`."""
    if not count:
        return ("-", "dim")
    return (f"!{span(seconds) if seconds >= 9.5 else f'{seconds:.1f}s'}" + (f" x{count}" if count > 1 else ""), "worse")


def _state(run: RunSummary, _: int) -> Span:
    glyph, mark = STATES[run.state]
    return (f"{glyph} {run.state_words}", mark)


_TAGS = HistoryColumn("tags", 14, lambda run, _: (" ".join(run.tags), "chosen"), least=WIDE)
_RUNS: tuple[HistoryColumn, ...] = (
    HistoryColumn("when", 11, lambda run, year: (when(run.when_ns, year), "")),
    HistoryColumn("host", 8, lambda run, _: (run.host or "-", ""), least=NARROW),
    HistoryColumn("builds", 0, lambda run, _: (" ".join(run.builds) or run.trouble, "")),
    HistoryColumn("kernel", 14, lambda run, _: (run.kernel or "-", ""), least=110),
    HistoryColumn("load", 15, lambda run, _: (run.load or "-", ""), least=110),
    HistoryColumn("steps", 18, lambda run, _: (" ".join(run.steps), ""), least=150),
    HistoryColumn("cells", 5, lambda run, _: (f"{run.done}/{run.planned}", ""), right=True),
    HistoryColumn("stalls", 9, lambda run, _: stalled(run.stalls, run.stalled_s)),
    HistoryColumn("state", 12, _state),
    _TAGS,
)


def _flags(row: StepSummary, _: int) -> Span:
    return (" ".join(text.partition(":")[0] for text, _ in row.flags), row.flags[0][1] if row.flags else "")


def rate(row: StepSummary) -> str:
    """The step's rate, or the time of one operation where that is what it measures."""
    return short(row.rate_per_s) if row.time_s is None else duration(row.time_s)


_CELLS: tuple[HistoryColumn, ...] = (
    HistoryColumn("when", 11, lambda row, year: (when(row.when_ns, year), "")),
    HistoryColumn("host", 6, lambda row, _: (row.run.host or "-", ""), least=NARROW),
    HistoryColumn("build", 0, lambda row, _: (row.build, "")),
    HistoryColumn("kernel", 8, lambda row, _: (row.kernel or "-", ""), least=NARROW),
    HistoryColumn("step", 6, lambda row, _: (row.step or "-", "")),
    HistoryColumn("rep", 3, lambda row, _: (str(row.repeat), ""), right=True),
    HistoryColumn("rate/s", 6, lambda row, _: (rate(row), "rate"), right=True),
    HistoryColumn("took", 6, lambda row, _: (_took(row), ""), least=110, right=True),
    HistoryColumn("stalls", 9, lambda row, _: stalled(row.stalls, row.stalled_s)),
    HistoryColumn("flags", 15, _flags, least=NARROW),
    HistoryColumn("run", 32, lambda row, _: (row.run.name, "dim"), least=130),
)


def _took(row: StepSummary) -> str:
    return "-" if row.ended_ns is None else span((row.ended_ns - row.started_ns) / 1e9)


def _widths(shown: Sequence[HistoryColumn], columns: int) -> list[int]:
    fixed = sum(column.cells for column in shown) + BETWEEN * (len(shown) - 1) + EDGE
    return [column.cells or max(4, columns - fixed) for column in shown]


def heading(shown: Sequence[HistoryColumn], columns: int, glyphs: Glyphs) -> Line:
    titles = (
        _padded(column.title, width, column.right, glyphs)
        for column, width in zip(shown, _widths(shown, columns), strict=True)
    )
    return line((" " * EDGE + (" " * BETWEEN).join(titles), "dim"))


def row_line(
    row: Row, shown: Sequence[HistoryColumn], columns: int, year: int, glyphs: Glyphs, *, at: bool, picked: bool
) -> Line:
    spans: list[Span] = [(">" if at else " ", "chosen"), ("*" if picked else " ", "strong")]
    for column, width in zip(shown, _widths(shown, columns), strict=True):
        text, mark = column.text(row, year)
        spans += [(_padded(visible(text), width, column.right, glyphs), mark or ("strong" if picked else ""))]
        spans += [(" " * BETWEEN, "")]
    shown_spans = tuple(spans[:-1])
    return (("".join(text for text, _ in shown_spans).ljust(columns), "cursor"),) if at else shown_spans


def _padded(text: str, cells: int, right: bool, glyphs: Glyphs) -> str:
    shown = cut(text, cells, glyphs)
    return shown.rjust(cells) if right else shown.ljust(cells)


def about(row: Row, columns: int, glyphs: Glyphs) -> list[Line]:
    """Two lines about a row: its name, and the run's design or the stalls of a cell's step."""
    if isinstance(row, StepSummary):
        named = line((f" {row.cell} {row.step}", "strong"), *((f"  {text}", mark) for text, mark in row.flags))
        lines = ribbon(row, columns)
    else:
        named = line((f" {row.name}", "strong"), *((f"  #{tag}", "chosen") for tag in row.tags))
        lines = _told(row)
    return [fit(named, columns, glyphs.ellipsis), fit(lines, columns, glyphs.ellipsis)]


def _told(run: RunSummary) -> Line:
    if run.trouble:
        return line((f" {run.trouble}", "warning"))
    clients = counted(run.clients, "client")
    probes = f"; probes {' '.join(run.probes)}" if run.probes else ""
    return line(f" {run.load}, {clients}: {' '.join(run.steps)}{probes}; kernel {run.kernel or '-'}")


def ribbon(row: StepSummary, columns: int) -> Line:
    """The whole step as one row, with its stalls marked."""
    if row.ended_ns is None or row.ended_ns <= row.started_ns:
        return line((" not finished" if row.step else " has no step", "dim"))
    left, right = " 00:00:00 ", f" {clock((row.ended_ns - row.started_ns) / 1e9)} "
    cells = max(1, columns - len(left) - len(right))
    axis = (row.started_ns, row.ended_ns)
    stalls = [(*stall, "worse") for stall in row.stalled]
    return ((left, "dim"), *strip(cells, axis, row.ended_ns, stalls), (right, "dim"))


def counted(number: int, word: str) -> str:
    """A number with its noun: `1 run`, `2 runs`."""
    return f"{number} {word}{'s' if number != 1 else ''}"


def title(heading: str, filter_text: str, sort: str, note: str, columns: int) -> Line:
    left, right = f" HISTORY  {heading}", f"sort {sort} "
    asked = (f"  filter: {filter_text}" if filter_text else "") + (f"  {note}" if note else "")
    # The filter is cut last: rows that are missing without a reason would be taken for deleted.
    room = max(len(" HISTORY  ~"), columns - len(asked) - len(right) - 1)
    left = left if len(left) <= room else f"{left[: room - 1]}~"
    cells = max(1, columns - len(right))
    return (((left + asked)[: cells - 1].ljust(cells) + right, "title"),)
