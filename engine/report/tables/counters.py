"""Counts by probes, by perf events, and by PostgreSQL's statistics views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.report.journals import Recorded
from engine.report.tables.section import RoleTable
from engine.results.averages import middle
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison
from engine.results.section import Column, Figure, Section, Value, columns, row
from probes.table import PHASES

Counters = dict[str, float]
Figures = list[dict[str, Any]]  # of the cells, of one role


def _planning(cells: list[CellStep], role: str) -> tuple[Value, ...] | None:
    """The number and time of a role's plannings, and the share of reading index ends; remarks explain gaps."""
    figures = _figures(cells, role)
    if not any(cell.get("plan_n") for cell in figures):
        return None
    return (
        _middle(figures, "plan_n"),
        _middle(figures, "plan_mean_us"),
        _largest(figures, "plan_p99_us"),
        _largest(figures, "plan_max_us"),
        Figure(_middle(figures, "plan_us_per_statement"), remarks=_reasons(figures)),
        _middle(figures, "endpoint_share"),
        _middle(figures, "leaf_pages_per_plan"),
    )


def _phases(cells: list[CellStep], role: str) -> tuple[Value, ...] | None:
    """The time of statements, split into parts; the last column names the source."""
    with_phases = [cell for cell in _figures(cells, role) if cell.get("phases")]
    if not with_phases:
        return None
    shares = [[cell["phases"].get(phase, 0.0) for cell in with_phases] for phase in (*PHASES, "other")]
    return (*map(middle, shares), "/".join(sorted({str(cell["phases_by"]) for cell in with_phases})))


def _run_queue(cells: list[CellStep], role: str) -> tuple[Value, ...] | None:
    figures = _figures(cells, role)
    if not any(cell.get("runq_us") for cell in figures):
        return None
    longest = (_largest(figures, f"runq_{name}_us") for name in ("p50", "p99", "max"))
    return (_middle(figures, "runq_us") or 0) / 1000, *longest


def _seen(cell: CellStep) -> Iterable[str]:
    return (role for role in cell.probes if role in cell.roles)


def _figures(cells: list[CellStep], role: str) -> Figures:
    return [cell.probes[role] for cell in cells if role in _seen(cell)]


def _reasons(cells: Figures) -> tuple[str, ...]:
    withheld = [f"withheld: {cell['plan_withheld']}" for cell in cells if "plan_withheld" in cell]
    few = ["few frames in this step: partial seconds distort the figures" for cell in cells if "plan_frames" in cell]
    return tuple(dict.fromkeys(withheld + (few if not withheld else [])))


def _middle(cells: Figures, name: str) -> float | None:
    return middle(cell.get(name) for cell in cells)


def _largest(cells: Figures, name: str) -> float | None:
    return max((cell[name] for cell in cells if cell.get(name) is not None), default=None)


def statistics(comparison: Comparison, recorded: Recorded) -> Iterable[Section]:
    """A row for each counter that moved under any build, except clock times and non-numbers."""
    rows = []
    for step in comparison.steps:
        known = {name: list(_of_cells(comparison, recorded, name, step)) for name in comparison.names}
        for counter in dict.fromkeys(counter for cells in known.values() for cell in cells for counter in cell):
            medians = [middle(cell.get(counter) for cell in cells) for cells in known.values()]
            if any(medians):
                rows.append(row(counter, *medians, step=step))
    title = "Statistics views over the step (pg_stat_*, medians of cells)"
    yield Section("statistics", title, columns("step and counter", *comparison.names), tuple(rows))


def _of_cells(comparison: Comparison, recorded: Recorded, name: str, step: str) -> Iterable[Counters]:
    for cell in comparison.of(name, step):
        recording = recorded.step(cell)
        if recording is not None:
            yield dict(_counters(recorded.reader(cell).differences(recording.id)))


def _counters(views: Mapping[str, Mapping[str, Mapping[str, object]]]) -> Iterable[tuple[str, float]]:
    for view, objects in views.items():
        for thing, data in objects.items():
            for counter, value in data.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and view != "planstats":
                    yield f"{view} {thing} {counter}" if thing else f"{view} {counter}", float(value)


PLANNER = RoleTable(
    "planner", "Planner (medians of cells; p99 and max of the worst)",
    ("plan-\nnings", "us\neach", "p99\n<= us", "max\nus", "us per\nstatem.", Column("index\nends", "share"),
     "leaf\npages"), _seen, _planning,
)  # fmt: skip
STATEMENT_PHASES = RoleTable(
    "phases", "Phases of statements (medians of cells)",
    (*(Column(phase, "share") for phase in (*PHASES, "other")), "by"), _seen, _phases,
)  # fmt: skip
RUN_QUEUE = RoleTable(
    "runq", "Waits for a CPU (median of cells; p50, p99 and max of the worst)",
    ("ms\nin all", "p50\n<= us", "p99\n<= us", "max\nus"), _seen, _run_queue,
)  # fmt: skip
