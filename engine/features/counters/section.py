"""The table of perf events per operation, by role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.core.perf_events import EVENTS, IPC, OTHERS
from engine.journal.totals import role_place
from engine.report.tables.section import STEP_BUILD_AND_ROLE
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.ratio import INSTRUCTIONS
from engine.results.section import Row, Section, columns, of_ratio, row

TITLES = (*((event.key, event.title) for event in EVENTS[:2]), (IPC, "instr\n/cycle"),
          *((event.key, event.title) for event in EVENTS[2:]))  # fmt: skip


def section(comparison: Comparison) -> Section:
    """Perf events per operation of the roles that were counted; remarks name the others."""
    there = {key for cell in comparison.cells for counts in cell.counters.values() for key in counts}
    shown = [(key, title) for key, title in TITLES if key in there]
    title = "Counted per operation by role (medians of cells; server: processes that are no connection's)"
    rows = (line for step in comparison.steps for line in _rows(comparison, step, [key for key, _ in shown]))
    headings = columns(STEP_BUILD_AND_ROLE, *(heading for _, heading in shown))
    return Section("counters", title, headings, tuple(rows))


def _rows(comparison: Comparison, step: str, keys: Sequence[str]) -> Iterable[Row]:
    for name in comparison.names:
        cells = comparison.of(name, step)
        remarks = tuple(dict.fromkeys(note for cell in cells for note in cell.counters_notes))
        counted = {role for cell in cells for role, figures in cell.counters.items() if figures}
        for place, role in enumerate(sorted(counted, key=_place)):
            values = (middle(cell.counters.get(role, {}).get(key) for cell in cells) for key in keys)
            yield row(f"{name} {role}", *values, step=step, subject=name, remarks=remarks if place == 0 else ())
        if remarks and not any(cell.counters for cell in cells):
            yield row(f"{name} nothing", *[None] * len(keys), step=step, subject=name, remarks=remarks)
        ratio = comparison.ratio(name, step, INSTRUCTIONS)
        if counted and ratio is not None:
            of_all = (of_ratio(ratio) if key == "instructions" else "" for key in keys)
            yield row("all of them / base", *of_all, step=step, subject=name, mark="dim", depth=1)


def _place(role: str) -> tuple[bool, tuple[int, str]]:
    return role == OTHERS, role_place(role)
