"""How long statements took, by role: the percentiles of a comparison's cells, as a table."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.format import duration
from engine.journal.totals import role_place
from engine.report.section import Section
from engine.report.tables import LUMPED_ROLES
from engine.results.comparison import Comparison, middle
from workloads.base import role_kind

SHOWN = ("service_p50_us", "service_p95_us", "service_p99_us", "service_p999_us")


def sections(comparison: Comparison) -> Iterable[Section]:
    """A row for each build and role of a step: medians of cells, and of the greatest the greatest."""
    section = Section(
        "Response time (medians of cells; max of the worst)",
        ("step, build and role", "statements", "mean", "p50", "p95", "p99", "p99.9", "max"),
    )
    for step in comparison.steps:
        roles = {name for subject in comparison.names for cell in comparison.of(subject, step) for name in cell.roles}
        rows = []
        for role in sorted(roles, key=role_place):
            for subject in comparison.names if role_kind(role) not in LUMPED_ROLES else ():
                own = [cell.roles[role] for cell in comparison.of(subject, step) if role in cell.roles]

                def figures(name: str, own: list[dict[str, float | None]] = own) -> list[float]:
                    return [value for figures in own if (value := figures.get(name)) is not None]

                if figures("statements"):
                    times = (middle(figures(name)) for name in ("mean_us", *SHOWN))
                    texts = (duration(None if time is None else time / 1e6) for time in times)
                    count = f"{middle(figures('statements')):,.0f}"
                    greatest = duration(max(figures("max_s"), default=None))
                    rows.append(((f"  {subject} {role}", count, *texts, greatest), ""))
        section.add_step(step, rows)
    yield section
