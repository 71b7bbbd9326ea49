"""Statements of an application: what an execution takes, planning times, plans that changed side by side."""

from __future__ import annotations

from collections.abc import Iterable

from engine.report.tables.section import Notes, Row, Section, number
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.plan_change import PlanChange, PlanningRatio

COUNTED = {"EXPLAIN": "one", "pg_stat_statements": "all"}
MOST_PLANS = 20  # side by side
COLUMNS = ("planning\nms", "execution\nms", "rows", "buffers\nhit", "buffers\nread", "WAL\nbytes", "plan", "of")
FIGURES = ("planning_ms", "execution_ms", "rows", "hit", "read", "wal_bytes")


def executions(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """One execution of each statement, as EXPLAIN or pg_stat_statements counted it: medians of cells."""
    title = "One execution, its planning apart (of one: EXPLAIN, of all: pg_stat_statements)"
    section = Section(title, ("statement and build", *COLUMNS))
    for step in comparison.steps:
        every = [each for cell in comparison.cells if cell.step == step for each in cell.executions]
        for statement in dict.fromkeys(each.statement for each in every if each.execution_ms is not None):
            rows = [
                row
                for by in dict.fromkeys(each.by for each in every)
                for name in comparison.names
                for row in _execution(comparison, name, step, statement, by)
            ]
            section.add_step(statement, rows)
    yield section


def _execution(comparison: Comparison, name: str, step: str, statement: str, by: str) -> Iterable[Row]:
    cells = comparison.of(name, step)
    found = [each for cell in cells for each in cell.executions if (each.statement, each.by) == (statement, by)]
    if not found:
        return
    values = (middle([value for each in found if (value := getattr(each, figure)) is not None]) for figure in FIGURES)
    chosen = "/".join(sorted({each.chosen for each in found if each.chosen}))
    yield (f"  {name}", *map(number, values), chosen, COUNTED[by]), ""


def planning(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    for subject in comparison.others:
        found = [each for each in comparison.planning if each.subject == subject.name]
        base = comparison.baseline_of(subject.name)
        section = Section(
            "Planning time by statement (medians of cells; each interval on its own)",
            ("statement", f"{base}\nms", f"{subject.name}\nms", "ratio", "95%"),
        )
        for each in found:
            section.add(each.statement, number(each.base_ms), number(each.ms), *_ratio(each))
        yield section


def plan_changes(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    for change in comparison.plan_changes[:MOST_PLANS]:
        yield side_by_side(change, comparison.baseline_of(change.subject))


def side_by_side(change: PlanChange, base: str) -> Section:
    """Two plans: nodes with estimated and actual rows; those that differ are marked."""
    title = f"Plans of {change.statement} (rows estimated→actual; ≠ differs, + only there)"
    section = Section(title, ("", base, change.subject), prose=True)
    for line in change.lines:
        section.add(line.mark, line.base, line.other, style="bold" if line.mark else "")
    return section


def _ratio(each: PlanningRatio) -> tuple[str, str]:
    if each.ratio is None or each.low is None or each.high is None:
        return "" if each.ratio is None else f"{each.ratio:.3f}", ""
    sign = "▼" if each.low > 1 else "▲" if each.high < 1 else ""
    return f"{sign}{each.ratio:.3f}", f"{each.low:.3f}-{each.high:.3f}"
