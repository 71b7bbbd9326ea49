"""Statements of an application: what an execution takes, planning apart."""

from __future__ import annotations

from collections.abc import Iterable

from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.section import Row, Section, columns, row

COUNTED = {"EXPLAIN": "one", "pg_stat_statements": "all"}
COLUMNS = ("planning\nms", "execution\nms", "rows", "buffers\nhit", "buffers\nread", "WAL\nbytes", "plan", "of")
FIGURES = ("planning_ms", "execution_ms", "rows", "hit", "read", "wal_bytes")


def executions(comparison: Comparison) -> Iterable[Section]:
    """One execution of each statement, as EXPLAIN or pg_stat_statements counted it: medians of cells."""
    rows: list[Row] = []
    for step in comparison.steps:
        every = [each for cell in comparison.cells if cell.step == step for each in cell.executions]
        for statement in dict.fromkeys(each.statement for each in every if each.execution_ms is not None):
            for by in dict.fromkeys(each.by for each in every):
                for name in comparison.names:
                    rows += _execution(comparison, name, step, statement, by)
    title = "One execution, its planning apart (of one: EXPLAIN, of all: pg_stat_statements)"
    yield Section("executions", title, columns("statement and build", *COLUMNS), tuple(rows))


def _execution(comparison: Comparison, name: str, step: str, statement: str, by: str) -> Iterable[Row]:
    cells = comparison.of(name, step)
    found = [each for cell in cells for each in cell.executions if (each.statement, each.by) == (statement, by)]
    if found:
        values = (middle([v for each in found if (v := getattr(each, figure)) is not None]) for figure in FIGURES)
        chosen = "/".join(sorted({each.chosen for each in found if each.chosen}))
        yield row(name, *values, chosen, COUNTED[by], step=statement, subject=name)
