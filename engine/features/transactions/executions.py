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
        every = [run for cell in comparison.cells if cell.step == step for run in cell.executions]
        for statement in dict.fromkeys(run.statement for run in every if run.execution_ms is not None):
            for by in dict.fromkeys(run.by for run in every):
                for name in comparison.names:
                    rows += _execution(comparison, name, step, statement, by)
    title = "One execution, its planning apart (of one: EXPLAIN, of all: pg_stat_statements)"
    yield Section("executions", title, columns("statement and build", *COLUMNS), tuple(rows))


def _execution(comparison: Comparison, name: str, step: str, statement: str, by: str) -> Iterable[Row]:
    cells = comparison.of(name, step)
    executed = [run for cell in cells for run in cell.executions if (run.statement, run.by) == (statement, by)]
    if executed:
        values = (middle(getattr(run, figure) for run in executed) for figure in FIGURES)
        chosen = "/".join(sorted({run.chosen for run in executed if run.chosen}))
        yield row(name, *values, chosen, COUNTED[by], step=statement, subject=name)
