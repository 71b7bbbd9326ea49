"""What was counted of server processes per operation, by role, where that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.perf_events import EVENTS, IPC, OTHERS
from engine.journal.totals import role_place
from engine.report.section import Notes, Row, Section, number, ratio_text
from engine.results.cell_step import CellStep
from engine.results.comparison import INSTRUCTIONS, Comparison, middle

TITLES = (*((event.key, event.title) for event in EVENTS[:2]), (IPC, "instr\n/cycle"),
          *((event.key, event.title) for event in EVENTS[2:]))  # fmt: skip


def sections(comparison: Comparison, notes: Notes) -> list[Section]:
    """The table, of the events that there are; its marks say what there is not. Nothing where nobody asked."""
    there = {key for cell in comparison.cells for counts in cell.counters.values() for key in counts}
    columns = [(key, title) for key, title in TITLES if key in there]
    title = "Counted per operation by role (medians of cells; server: processes that are no connection's)"
    section = Section(title, ("step, build and role", *(title for _, title in columns)))
    for step in comparison.steps:
        section.add_step(step, _rows(comparison, notes, step, [key for key, _ in columns]))
    return [section] if section.rows else []


def _rows(comparison: Comparison, notes: Notes, step: str, keys: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for name in comparison.names:
        cells = comparison.of(name, step)
        mark = notes.mark(tuple(dict.fromkeys(note for cell in cells for note in cell.counters_notes)))
        found = {role for cell in cells for role, figures in cell.counters.items() if figures}
        for place, role in enumerate(sorted(found, key=_place)):
            shown = f"  {name} {role}{mark if place == 0 else ''}"
            rows.append(((shown, *(number(_middle(cells, role, key)) for key in keys)), ""))
        if mark and not any(cell.counters for cell in cells):
            rows.append(((f"  {name} nothing{mark}", *("-" for _ in keys)), ""))
        ratio = comparison.ratio(name, step, INSTRUCTIONS)
        if found and ratio is not None:
            texts = (ratio_text(ratio) if key == "instructions" else "" for key in keys)
            rows.append((("    all of them / base", *texts), "dim"))
    return rows


def _place(role: str) -> tuple[bool, tuple[int, str]]:
    return role == OTHERS, role_place(role)


def _middle(cells: Sequence[CellStep], role: str, key: str) -> float | None:
    return middle([cell.counters[role][key] for cell in cells if key in cell.counters.get(role, {})])
