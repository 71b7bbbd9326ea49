"""Tables of transactions: what became of those that did not end in time at the first try, and times by statement."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.comparison import CellStep, Comparison, middle
from engine.report import tables
from workloads.page import OUTCOMES

ACROSS = 3  # subjects in one table of 80 columns
STATEMENT_CHARS = 40


def sections(comparison: Comparison) -> Iterable[tables.Section]:
    """The tables that have rows."""
    yield from (section for section in (_outcomes(comparison), *_statements(comparison)) if section.rows)


def _outcomes(comparison: Comparison) -> tables.Section:
    """Shares of the transactions that were due, all cells of a subject together."""
    section = tables.Section("What became of transactions (of all that were due)", ("step and build", *OUTCOMES))
    for step in comparison.steps:
        rows = []
        for name in comparison.names:
            cells = comparison.of(name, step)
            counts = {outcome: sum(_count(cell, outcome) for cell in cells) for outcome in OUTCOMES}
            if any(counts.values()):
                due = sum(cell.ops for cell in cells) + sum(
                    counts[outcome] for outcome in ("serialization", "deadlock", "failed", "skipped")
                )
                shares = (tables.percent(counts[outcome] / due if due else None) for outcome in OUTCOMES)
                rows.append(((f"  {name}", *shares), ""))
        section.add_step(step, rows)
    return section


def _count(cell: CellStep, outcome: str) -> float:
    return sum(figures.get(outcome) or 0 for figures in cell.roles.values())


def _statements(comparison: Comparison) -> Iterable[tables.Section]:
    """The mean time of each statement of a transaction, as the client that ran it reports them."""
    for start in range(0, len(comparison.names), ACROSS):
        names = comparison.names[start : start + ACROSS]
        section = tables.Section("Time of each statement (mean ms, median of cells)", ("step and statement", *names))
        for step in comparison.steps:
            cells = [cell for name in names for cell in comparison.of(name, step)]
            order = dict.fromkeys((each.script, each.statement) for cell in cells for each in cell.statements)
            section.add_step(
                step,
                [((f"  {_cut(key[1])}", *(_mean(comparison, name, step, key) for name in names)), "") for key in order],
            )
        yield section


def _mean(comparison: Comparison, name: str, step: str, key: tuple[int, str]) -> str:
    found = [
        each.mean_ms
        for cell in comparison.of(name, step)
        for each in cell.statements
        if (each.script, each.statement) == key
    ]
    value = middle(found)
    return "-" if value is None else f"{value:,.3f}"


def _cut(text: str) -> str:
    return text if len(text) <= STATEMENT_CHARS else text[: STATEMENT_CHARS - 1] + "…"
