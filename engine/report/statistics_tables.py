"""How PostgreSQL's statistics views moved over each step, side by side: medians of cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.report.journals import Recorded
from engine.report.section import Section, number
from engine.results.comparison import Comparison, middle

TITLE = "Statistics views over the step (pg_stat_*, medians of cells)"
Counters = dict[str, float]


def section(comparison: Comparison, recorded: Recorded) -> Section:
    """A row for each counter that moved under any build, but times of a clock and what is no number."""
    found = Section(TITLE, ("step and counter", *comparison.names))
    for step in comparison.steps:
        known = {name: list(_of_cells(comparison, recorded, name, step)) for name in comparison.names}
        counters = dict.fromkeys(counter for cells in known.values() for cell in cells for counter in cell)
        rows = []
        for counter in counters:
            medians = [middle([cell[counter] for cell in cells if counter in cell]) for cells in known.values()]
            if any(medians):
                rows.append(((f"  {counter}", *map(number, medians)), ""))
        found.add_step(step, rows)
    return found


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
