"""The tables of a comparison, in reading order: one registry for terminal, Markdown and page.

A table is a function of a comparison that yields sections, or the key of a feature's table or of a section that the
comparison has; all others of these come last. Those without rows are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby

from engine import features
from engine.report.tables import counters, performance
from engine.results.comparison import Comparison
from engine.results.ratio import DELETE_PLAN, RATE, TIME
from engine.results.section import Row, Section, row

MOST_ROWS = 8
MOST_SECTIONS = 20  # of a kind, such as plans
TableFunction = Callable[[Comparison], Iterable[Section]]

TABLES: tuple[TableFunction | str, ...] = (
    "percentiles",
    "sweep",
    performance.repeats,
    "groups",
    performance.THROUGHPUT,
    performance.TIMES,
    performance.PLANNING,
    performance.EVERY_CELL,
    performance.EVERY_TIME,
    performance.PER_OPERATION,
    performance.READ,
    "latency",
    "buckets",
    "stalls",
    "hangs",
    performance.KEPT_UP,
    performance.SIZES,
    "figures",
    counters.PLANNER,
    counters.STATEMENT_PHASES,
    counters.RUN_QUEUE,
    "published",
    "causes",
    "functions",
    "waits",
    "scheduling",
    "programs",
    "transaction times",
    "scripts",
    "outcomes",
    "statements",
    "settings",
    "executions",
    "planning",
    "plans",
)
ON_REQUEST = ("percentiles", "figures")  # of the page, and of --published
BRIEF = ("sweep", "groups", RATE, TIME, DELETE_PLAN, "figures", "published")  # verdicts, and figures asked for


def sections(comparison: Comparison, *requested: str) -> list[Section]:
    """The tables that have rows, those of `ON_REQUEST` only if they are requested."""
    of_features = features.tables()
    others = (*of_features, *(section.key for section in comparison.sections))
    keys = (*TABLES, *(key for key in dict.fromkeys(others) if key not in TABLES))
    return [
        section
        for table in keys
        if table not in ON_REQUEST or table in requested
        for section in _sections(comparison, of_features.get(table, table) if isinstance(table, str) else table)
        if section.rows
    ]


def _sections(comparison: Comparison, table: TableFunction | str) -> Iterable[Section]:
    return map(shortened, comparison.section(table)[:MOST_SECTIONS]) if isinstance(table, str) else table(comparison)


def shortened(section: Section) -> Section:
    """The section with `MOST_ROWS` rows at most below each heading, such as functions; JSON has all of them."""
    rows: list[Row] = []
    for (step, subject, below), lines in groupby(section.rows, lambda line: (line.step, line.subject, line.depth > 0)):
        every = list(lines)
        kept = every[:MOST_ROWS] if step and below and not section.flat else every
        rows += kept
        if further := len(every) - len(kept):
            rows.append(row(f"and {further} more (--json)", step=step, subject=subject, mark="dim", depth=1))
    return replace(section, rows=tuple(rows))
