"""The tables of a comparison, in reading order: one registry for terminal, Markdown and page.

A table is a function of a comparison; it yields sections, of which those without rows are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.report.tables import (
    counters,
    functions,
    groups,
    performance,
    published,
    response_times,
    settings,
    statements,
    time_parts,
    transactions,
)
from engine.results.comparison import Comparison
from engine.results.section import Section

TableFunction = Callable[[Comparison], Iterable[Section]]

TABLES: tuple[TableFunction, ...] = (
    performance.sweeps,
    groups.step_groups,
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
    time_parts.hangs,
    performance.KEPT_UP,
    performance.SIZES,
    published.figures,
    counters.probed,
    published.ratios,
    time_parts.attribution,
    functions.tested,
    time_parts.waits,
    time_parts.SCHEDULING,
    counters.counters,
    time_parts.PROGRAMS,
    response_times.transaction_times,
    transactions.SCRIPT_TIMES,
    transactions.outcomes,
    transactions.statements,
    settings.differences,
    statements.executions,
    statements.planning,
    statements.plan_changes,
)
BRIEF: tuple[TableFunction, ...] = (  # the verdicts, and figures that were asked for
    performance.sweep_figures,
    groups.step_groups,
    performance.THROUGHPUT,
    performance.TIMES,
    performance.PLANNING,
    published.figures,
    published.ratios,
)


def sections(comparison: Comparison, *, with_published: bool = False, brief: bool = False) -> list[Section]:
    """The tables that have rows; `with_published` adds the reference client's own figures, `brief` leaves most out."""
    return [
        section
        for table in (BRIEF if brief else TABLES)
        if with_published or table is not published.figures
        for section in table(comparison)
        if section.rows
    ]
