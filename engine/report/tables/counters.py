"""What was counted: by probes, by perf events, and by PostgreSQL's statistics views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.core.perf_events import EVENTS, IPC, OTHERS
from engine.journal.totals import role_place
from engine.report.journals import Recorded
from engine.report.tables.section import Notes, Row, Section, number, percent, ratio_text
from engine.results.averages import middle
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison
from engine.results.ratio import INSTRUCTIONS
from probes.table import PHASES

TITLES = (*((event.key, event.title) for event in EVENTS[:2]), (IPC, "instr\n/cycle"),
          *((event.key, event.title) for event in EVENTS[2:]))  # fmt: skip
STATISTICS = "Statistics views over the step (pg_stat_*, medians of cells)"
Counters = dict[str, float]
ProbedRow = Callable[[list[dict[str, Any]], Notes], tuple[str, ...] | None]  # from the cells' figures of one role


def probed(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """Probe results by step, role and subject: planning, phases of statements, waits for a CPU."""
    for title, columns, row in PROBED:
        section = Section(title, ("step, build and role", *columns))
        for step in comparison.steps:
            rows = [
                ((f"  {name} {role}", *cells), "")
                for role in _roles(comparison, step)
                for name in comparison.names
                if (cells := row(_figures(comparison, name, step, role), notes)) is not None
            ]
            section.add_step(step, rows)
        yield section


def _planning(cells: list[dict[str, Any]], notes: Notes) -> tuple[str, ...] | None:
    """How often and how long a role planned, and its share of reading index ends; a mark explains a missing figure."""
    if not any(cell.get("plan_n") for cell in cells):
        return None
    return (
        number(_middle(cells, "plan_n")),
        number(_middle(cells, "plan_mean_us")),
        number(_largest(cells, "plan_p99_us")),
        number(_largest(cells, "plan_max_us")),
        number(_middle(cells, "plan_us_per_statement")) + notes.mark(_reasons(cells)),
        percent(_middle(cells, "endpoint_share")),
        number(_middle(cells, "leaf_pages_per_plan")),
    )


def _phases(cells: list[dict[str, Any]], _: Notes) -> tuple[str, ...] | None:
    """How the time of statements splits; the last column says how that was found."""
    found = [cell for cell in cells if cell.get("phases")]
    if not found:
        return None
    shares = [[cell["phases"].get(phase, 0.0) for cell in found] for phase in (*PHASES, "other")]
    ways = sorted({str(cell["phases_by"]) for cell in found})
    return (*(percent(middle(values)) for values in shares), "/".join(ways))


def _run_queue(cells: list[dict[str, Any]], _: Notes) -> tuple[str, ...] | None:
    if not any(cell.get("runq_us") for cell in cells):
        return None
    quantiles = (number(_largest(cells, f"runq_{name}_us")) for name in ("p50", "p99", "max"))
    return number((_middle(cells, "runq_us") or 0) / 1000), *quantiles


def _roles(comparison: Comparison, step: str) -> tuple[str, ...]:
    there = {role for subject in comparison.names for cell in comparison.of(subject, step) for role in _seen(cell)}
    return tuple(sorted(there, key=role_place))


def _seen(cell: CellStep) -> Iterable[str]:
    return (role for role in cell.probes if role in cell.roles)


def _figures(comparison: Comparison, subject: str, step: str, role: str) -> list[dict[str, Any]]:
    return [cell.probes[role] for cell in comparison.of(subject, step) if role in _seen(cell)]


def _reasons(cells: list[dict[str, Any]]) -> tuple[str, ...]:
    withheld = [f"withheld: {cell['plan_withheld']}" for cell in cells if "plan_withheld" in cell]
    few = ["few frames in this step: partial seconds distort the figures" for cell in cells if "plan_frames" in cell]
    return tuple(dict.fromkeys(withheld + (few if not withheld else [])))


def _middle(cells: list[dict[str, Any]], name: str) -> float | None:
    return middle([cell[name] for cell in cells if cell.get(name) is not None])


def _largest(cells: list[dict[str, Any]], name: str) -> float | None:
    return max((cell[name] for cell in cells if cell.get(name) is not None), default=None)


def counters(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """Perf events per operation of the roles that were counted; marks say what was not."""
    there = {key for cell in comparison.cells for counts in cell.counters.values() for key in counts}
    columns = [(key, title) for key, title in TITLES if key in there]
    title = "Counted per operation by role (medians of cells; server: processes that are no connection's)"
    section = Section(title, ("step, build and role", *(title for _, title in columns)))
    for step in comparison.steps:
        section.add_step(step, _rows(comparison, notes, step, [key for key, _ in columns]))
    yield section


def _rows(comparison: Comparison, notes: Notes, step: str, keys: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for name in comparison.names:
        cells = comparison.of(name, step)
        mark = notes.mark(tuple(dict.fromkeys(note for cell in cells for note in cell.counters_notes)))
        found = {role for cell in cells for role, figures in cell.counters.items() if figures}
        for place, role in enumerate(sorted(found, key=_place)):
            shown = f"  {name} {role}{mark if place == 0 else ''}"
            rows.append(((shown, *(number(_role_middle(cells, role, key)) for key in keys)), ""))
        if mark and not any(cell.counters for cell in cells):
            rows.append(((f"  {name} nothing{mark}", *("-" for _ in keys)), ""))
        ratio = comparison.ratio(name, step, INSTRUCTIONS)
        if found and ratio is not None:
            texts = (ratio_text(ratio) if key == "instructions" else "" for key in keys)
            rows.append((("    all of them / base", *texts), "dim"))
    return rows


def _place(role: str) -> tuple[bool, tuple[int, str]]:
    return role == OTHERS, role_place(role)


def _role_middle(cells: Sequence[CellStep], role: str, key: str) -> float | None:
    return middle([cell.counters[role][key] for cell in cells if key in cell.counters.get(role, {})])


def statistics(comparison: Comparison, recorded: Recorded) -> Iterable[Section]:
    """A row for each counter that moved under any build, except clock times and what is not a number."""
    section = Section(STATISTICS, ("step and counter", *comparison.names))
    for step in comparison.steps:
        known = {name: list(_of_cells(comparison, recorded, name, step)) for name in comparison.names}
        counters = dict.fromkeys(counter for cells in known.values() for cell in cells for counter in cell)
        rows = []
        for counter in counters:
            medians = [middle([cell[counter] for cell in cells if counter in cell]) for cells in known.values()]
            if any(medians):
                rows.append(((f"  {counter}", *map(number, medians)), ""))
        section.add_step(step, rows)
    yield section


def _of_cells(comparison: Comparison, recorded: Recorded, name: str, step: str) -> Iterable[Counters]:
    for cell in comparison.of(name, step):
        row = recorded.step(cell)
        if row is not None:
            yield dict(_counters(recorded.reader(cell).differences(row.id)))


def _counters(views: Mapping[str, Mapping[str, Mapping[str, object]]]) -> Iterable[tuple[str, float]]:
    for view, objects in views.items():
        for thing, data in objects.items():
            for counter, value in data.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and view != "planstats":
                    yield f"{view} {thing} {counter}" if thing else f"{view} {counter}", float(value)


PROBED: tuple[tuple[str, tuple[str, ...], ProbedRow], ...] = (
    ("Planner (medians of cells; p99 and max of the worst)",
     ("plan-\nnings", "us\neach", "p99\n<= us", "max\nus", "us per\nstatem.", "index\nends", "leaf\npages"), _planning),
    ("Phases of statements (medians of cells)", (*PHASES, "other", "by"), _phases),
    ("Waits for a CPU (median of cells; p50, p99 and max of the worst)",
     ("ms\nin all", "p50\n<= us", "p99\n<= us", "max\nus"), _run_queue),
)  # fmt: skip
