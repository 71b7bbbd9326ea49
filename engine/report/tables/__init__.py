"""The tables of a comparison, in reading order: one registry for terminal, Markdown and page.

A table is a function of a comparison that yields sections, or the key of a section that the comparison has; its other
sections come last. Those without rows are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby

from engine.report.tables import counters, performance, published, response_times, statements, time_parts, transactions
from engine.results.comparison import Comparison
from engine.results.section import Row, Section, row

MOST_ROWS = 8
MOST_SECTIONS = 20  # of a kind, such as plans
TableFunction = Callable[[Comparison], Iterable[Section]]

TABLES: tuple[TableFunction | str, ...] = (
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
    response_times.LATENCY,
    response_times.buckets,
    time_parts.stalls,
    time_parts.HANGS,
    performance.KEPT_UP,
    performance.SIZES,
    published.figures,
    counters.PLANNER,
    counters.STATEMENT_PHASES,
    counters.RUN_QUEUE,
    "published",
    "causes",
    "functions",
    time_parts.waits,
    time_parts.SCHEDULING,
    time_parts.PROGRAMS,
    response_times.TRANSACTION_TIMES,
    transactions.SCRIPT_TIMES,
    transactions.outcomes,
    transactions.statements,
    "settings",
    statements.executions,
    "planning",
    "plans",
)
BRIEF: tuple[TableFunction | str, ...] = (  # the verdicts, and figures that were asked for
    "sweep",
    "groups",
    performance.THROUGHPUT,
    performance.TIMES,
    performance.PLANNING,
    published.figures,
    "published",
)


def sections(comparison: Comparison, *, with_published: bool = False, brief: bool = False) -> list[Section]:
    """The tables that have rows; `with_published` adds the reference client's own figures, `brief` leaves most out."""
    tables = (
        BRIEF
        if brief
        else (*TABLES, *dict.fromkeys(section.key for section in comparison.sections if section.key not in TABLES))
    )
    return [
        section
        for table in tables
        if with_published or table is not published.figures
        for section in (
            map(shortened, comparison.section(table)[:MOST_SECTIONS]) if isinstance(table, str) else table(comparison)
        )
        if section.rows
    ]


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
