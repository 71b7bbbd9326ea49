"""Functions whose own CPU time per operation differs for certain."""

from __future__ import annotations

from collections.abc import Iterable

from engine.report.tables.section import Notes, Row, Section, number
from engine.results.comparison import Comparison
from engine.results.function_cost import FunctionCosts

TITLE = "Functions whose own CPU time per operation differs (us; the intervals hold together)"
COLUMNS = ("step, build and function", "base", "us", "more", "95%")
SHOWN = 8  # of a step and build


def _changes(comparison: Comparison, _: Notes) -> Iterable[Section]:
    """By step and build; the first line of each is all that was sampled."""
    section = Section(TITLE, COLUMNS)
    for step in comparison.steps:
        found = (comparison.function_costs(name, step) for name in comparison.names)
        section.add_step(step, [row for costs in found if costs is not None and costs.changes for row in _rows(costs)])
    yield section


def tested(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """As `changes`; where functions were sampled and none differs, or cannot be compared, says so."""
    compared = [costs for costs in comparison.functions if costs.pairs]
    unlike: dict[str, list[str]] = {}
    for costs in comparison.functions:
        if not costs.pairs:
            unlike.setdefault(costs.reason, []).append(f"{costs.step} {costs.subject}")
    for section in _changes(comparison, notes):
        lines = [f"{', '.join(of)}: {reason}" for reason, of in unlike.items()]
        for text in lines if section.rows or not compared else (_nothing(compared), *lines):
            section.add(text, *[""] * (len(COLUMNS) - 1))
        yield section


def _rows(costs: FunctionCosts) -> list[Row]:
    more = costs.us - costs.base_us
    rows: list[Row] = [((f"  {costs.subject}", number(costs.base_us), number(costs.us), f"{more:+,.2f}", ""), "dim")]
    for change in costs.changes[:SHOWN]:
        cells = (number(change.base_us), number(change.us), change.change_text.removesuffix(" us"), change.bounds_text)
        rows.append(((f"    {change.name}", *cells), ""))
    further = len(costs.changes) - SHOWN
    return [*rows, ((f"    and {further} more (--json)", "", "", "", ""), "dim")] if further > 0 else rows


def _nothing(every: Iterable[FunctionCosts]) -> str:
    found = list(every)
    count = sum(costs.tested for costs in found)
    reason = next((costs.reason for costs in found if costs.reason), "")
    return f"none significant: {reason}" if reason and not count else f"none significant of {count:,} tested"
