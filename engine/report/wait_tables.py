"""The table of what connections' server processes were seen waiting for."""

from __future__ import annotations

from engine.core.wait_kinds import KINDS, by_kind
from engine.journal.totals import role_place
from engine.report.section import WHERE, Notes, Row, Section
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison

NAMED = 2  # of the events that are waited for most
LEAST = 0.02  # of the time, to be named


def sections(comparison: Comparison, _: Notes) -> list[Section]:
    """The table, where anybody looked."""
    title = "What server processes waited for (share of the looks at them, several a second; mean of cells)"
    section = Section(title, ("step, build and role", *KINDS.values(), WHERE))
    for step in comparison.steps:
        there = {role for cell in comparison.cells if cell.step == step for role in cell.waits}
        rows: list[Row] = [
            ((f"  {name} {role}", *cells), "")
            for role in sorted(there, key=role_place)
            for name in comparison.names
            if (cells := _cells(comparison.of(name, step), role)) is not None
        ]
        section.add_step(step, rows)
    return [section] if section.rows else []


def _cells(cells: list[CellStep], role: str) -> tuple[str, ...] | None:
    events = mean_shares(cells, role)
    if not events:
        return None
    kinds = by_kind(events)
    most = sorted((event for event in events if event and events[event] >= LEAST), key=lambda event: -events[event])
    where = ", ".join(f"{event.partition(':')[2]} {_percent(events[event])}" for event in most[:NAMED])
    return (*(_percent(kinds.get(kind, 0.0)) for kind in KINDS), where)


def _percent(share: float) -> str:
    return "-" if share <= 0 else "<1%" if share < 0.01 else f"{share:.0%}"


def mean_shares(cells: list[CellStep], role: str) -> dict[str, float]:
    """The means of the cells' shares, by event; nothing where nobody looked."""
    found = [cell.waits[role] for cell in cells if cell.waits.get(role)]
    events = dict.fromkeys(event for each in found for event in each)
    return {event: sum(each.get(event, 0.0) for each in found) / len(found) for event in events}
