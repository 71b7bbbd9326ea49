"""Functions whose own CPU time per operation differs for certain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from engine.results.comparison import Comparison
from engine.results.function_cost import FunctionCosts
from engine.results.section import Column, Figure, Row, Section, columns, row

TITLE = "Functions whose own CPU time per operation differs (us; the intervals hold together)"
SHOWN = 8  # of a step and build


def tested(comparison: Comparison) -> Iterable[Section]:
    """By step and build, the first line of each all that was sampled; if none differs, or can be compared, says so."""
    compared = [costs for costs in comparison.functions if costs.pairs]
    unlike: dict[str, list[str]] = {}
    for costs in comparison.functions:
        if not costs.pairs:
            unlike.setdefault(costs.reason, []).append(f"{costs.step} {costs.subject}")
    rows = [
        each
        for step in comparison.steps
        for name in comparison.names
        if (differing := comparison.function_costs(name, step)) is not None and differing.changes
        for each in _rows(differing)
    ]
    if compared and not rows:
        rows.append(row(_nothing(compared)))
    rows += [row(f"{', '.join(of)}: {reason}") for reason, of in unlike.items()]
    headings = columns("step, build and function", "base", "us", Column("more", "change", bounds="95%"))
    yield Section("functions", TITLE, headings, tuple(rows))


def _rows(costs: FunctionCosts) -> Iterable[Row]:
    line = partial(row, step=costs.step, subject=costs.subject)
    more = Figure(costs.us - costs.base_us, unit="change")
    yield line(costs.subject, costs.base_us, costs.us, more, mark="dim")
    for each in costs.changes[:SHOWN]:
        changed = Figure(each.change_us, each.low_us, each.high_us)
        yield line(each.name, each.base_us, each.us, changed, depth=1)
    if (further := len(costs.changes) - SHOWN) > 0:
        yield line(f"and {further} more (--json)", mark="dim", depth=1)


def _nothing(compared: Sequence[FunctionCosts]) -> str:
    count = sum(costs.tested for costs in compared)
    reason = next((costs.reason for costs in compared if costs.reason), "")
    return f"none significant: {reason}" if reason and not count else f"none significant of {count:,} tested"
