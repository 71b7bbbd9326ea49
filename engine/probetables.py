"""The tables of what probes saw: planning, phases of statements, waits for a CPU. By step, build and role."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from engine import probed
from engine.comparison import Comparison, middle
from engine.model import Subject
from engine.results import StepResult
from engine.tables import Notes, Section, number

ROLES = ("insert", "delete", "query", "index", "transaction")  # in this order; others after them

Row = Callable[[list[dict[str, Any]]], tuple[str, ...] | None]  # of the cells' figures of one role


def sections(comparison: Comparison, notes: Notes) -> list[Section]:
    """The tables; those for which nothing was counted have no rows."""
    return [planning(comparison, notes), phases(comparison), run_queue(comparison)]


def planning(comparison: Comparison, notes: Notes) -> Section:
    """How often and how long each role planned, and what of it was reading index ends.

    A mark leads to why there is no figure per statement.
    """

    def row(cells: list[dict[str, Any]]) -> tuple[str, ...] | None:
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

    columns = (
        "step, build and role", "plan-\nnings", "us\neach", "p99\n<= us", "max\nus", "us per\nstatem.", "index\nends",
        "leaf\npages",
    )  # fmt: skip
    return _by_role(comparison, Section("Planner (medians of cells; p99 and max of the worst)", columns), row)


def phases(comparison: Comparison) -> Section:
    """How the time of statements splits; the last column says how it was found."""

    def row(cells: list[dict[str, Any]]) -> tuple[str, ...] | None:
        found = [cell for cell in cells if cell.get("phases")]
        if not found:
            return None
        shares = [[cell["phases"].get(phase, 0.0) for cell in found] for phase in (*probed.PHASES, "other")]
        ways = sorted({str(cell["phases_by"]) for cell in found})
        return (*(percent(middle(values)) for values in shares), "/".join(ways))

    columns = ("step, build and role", *probed.PHASES, "other", "by")
    return _by_role(comparison, Section("Phases of statements (medians of cells)", columns), row)


def run_queue(comparison: Comparison) -> Section:
    """How long the server processes of each role waited for a CPU."""

    def row(cells: list[dict[str, Any]]) -> tuple[str, ...] | None:
        if not any(cell.get("runq_us") for cell in cells):
            return None
        return (
            number((_middle(cells, "runq_us") or 0) / 1000),
            number(_largest(cells, "runq_p50_us")),
            number(_largest(cells, "runq_p99_us")),
            number(_largest(cells, "runq_max_us")),
        )

    columns = ("step, build and role", "ms\nin all", "p50\n<= us", "p99\n<= us", "max\nus")
    title = "Waits for a CPU (median of cells; p50, p99 and max of the worst)"
    return _by_role(comparison, Section(title, columns), row)


def _by_role(comparison: Comparison, section: Section, row: Row) -> Section:
    for step in comparison.steps:
        rows = [
            (f"  {name} {role}", cells)
            for role in _roles(comparison, step)
            for subject, name in comparison.names.items()
            if (cells := row(_figures(comparison, subject, step, role))) is not None
        ]
        if rows:
            section.add(step, style="bold")
            for title, cells in rows:
                section.add(title, *cells)
    return section


def _roles(comparison: Comparison, step: str) -> tuple[str, ...]:
    """The roles of a step's connections that any probe saw."""
    there = {role for subject in comparison.names for result in comparison.of(subject, step) for role in _seen(result)}
    return (*(role for role in ROLES if role in there), *sorted(there.difference(ROLES)))


def _seen(result: StepResult) -> Iterable[str]:
    return (role for role in result.totals.probes if role in result.totals.roles)


def _figures(comparison: Comparison, subject: Subject, step: str, role: str) -> list[dict[str, Any]]:
    return [
        probed.role_figures(result.totals.probes[role], result.totals.roles[role].statements, result.totals.seconds)
        for result in comparison.of(subject, step)
        if role in _seen(result)
    ]


def _reasons(cells: list[dict[str, Any]]) -> tuple[str, ...]:
    """Why there is no figure per statement, or one of few frames."""
    withheld = [f"withheld: {cell['plan_withheld']}" for cell in cells if "plan_withheld" in cell]
    few = ["a step of few frames: its edges weigh" for cell in cells if "plan_frames" in cell]
    return tuple(dict.fromkeys(withheld + (few if not withheld else [])))


def _middle(cells: list[dict[str, Any]], name: str) -> float | None:
    return middle([cell[name] for cell in cells if cell.get(name) is not None])


def _largest(cells: list[dict[str, Any]], name: str) -> float | None:
    return max((cell[name] for cell in cells if cell.get(name) is not None), default=None)


def percent(value: float | None) -> str:
    """`12.3%`; a dash where there is no value."""
    return "-" if value is None else f"{value:.1%}"
