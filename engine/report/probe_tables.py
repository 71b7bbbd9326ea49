"""What probes saw, as tables: planning, phases of statements, waits for a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from engine.journal.totals import role_place
from engine.report.section import Notes, Section, number, percent
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison, middle
from probes.table import PHASES

ProbedRow = Callable[[list[dict[str, Any]], Notes], tuple[str, ...] | None]  # of the cells' figures of one role


def probed(comparison: Comparison, notes: Notes) -> Iterable[Section]:
    """What probes saw, by step, role and subject: planning, phases of statements, waits for a CPU."""
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
    """How often and how long a role planned, and what of it was reading index ends.

    A mark leads to why there is no figure per statement.
    """
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
    """How the time of statements splits; the last column says how it was found."""
    found = [cell for cell in cells if cell.get("phases")]
    if not found:
        return None
    shares = [[cell["phases"].get(phase, 0.0) for cell in found] for phase in (*PHASES, "other")]
    ways = sorted({str(cell["phases_by"]) for cell in found})
    return (*(percent(middle(values)) for values in shares), "/".join(ways))


def _run_queue(cells: list[dict[str, Any]], _: Notes) -> tuple[str, ...] | None:
    """How long the server processes of a role waited for a CPU."""
    if not any(cell.get("runq_us") for cell in cells):
        return None
    quantiles = (number(_largest(cells, f"runq_{name}_us")) for name in ("p50", "p99", "max"))
    return number((_middle(cells, "runq_us") or 0) / 1000), *quantiles


def _roles(comparison: Comparison, step: str) -> tuple[str, ...]:
    """The roles of a step's connections that any probe saw."""
    there = {role for subject in comparison.names for cell in comparison.of(subject, step) for role in _seen(cell)}
    return tuple(sorted(there, key=role_place))


def _seen(cell: CellStep) -> Iterable[str]:
    return (role for role in cell.probes if role in cell.roles)


def _figures(comparison: Comparison, subject: str, step: str, role: str) -> list[dict[str, Any]]:
    return [cell.probes[role] for cell in comparison.of(subject, step) if role in _seen(cell)]


def _reasons(cells: list[dict[str, Any]]) -> tuple[str, ...]:
    """Why there is no figure per statement, or one of few frames."""
    withheld = [f"withheld: {cell['plan_withheld']}" for cell in cells if "plan_withheld" in cell]
    few = ["few frames in this step: partial seconds distort the figures" for cell in cells if "plan_frames" in cell]
    return tuple(dict.fromkeys(withheld + (few if not withheld else [])))


def _middle(cells: list[dict[str, Any]], name: str) -> float | None:
    return middle([cell[name] for cell in cells if cell.get(name) is not None])


def _largest(cells: list[dict[str, Any]], name: str) -> float | None:
    return max((cell[name] for cell in cells if cell.get(name) is not None), default=None)


PROBED: tuple[tuple[str, tuple[str, ...], ProbedRow], ...] = (
    ("Planner (medians of cells; p99 and max of the worst)",
     ("plan-\nnings", "us\neach", "p99\n<= us", "max\nus", "us per\nstatem.", "index\nends", "leaf\npages"), _planning),
    ("Phases of statements (medians of cells)", (*PHASES, "other", "by"), _phases),
    ("Waits for a CPU (median of cells; p50, p99 and max of the worst)",
     ("ms\nin all", "p50\n<= us", "p99\n<= us", "max\nus"), _run_queue),
)  # fmt: skip
