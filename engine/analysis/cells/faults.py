"""Failures of a build that its ratios hide: cells without a result, steps that did nothing, missed SLAs."""

from __future__ import annotations

from engine.journal.totals import Sla
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison, LeftOutCell

Place = tuple[str, int]  # run and repeat: cells of one place are a pair

FAILED = ("failed", "damaged")
ALONE = "alone"  # the state of a cell that did finish


def cells_of(comparison: Comparison, name: str) -> int:
    finished = {(cell.run, cell.cell) for cell in comparison.cells if cell.subject == name}
    return len(finished) + len(_left_out(comparison, name))


def failed(comparison: Comparison, name: str) -> list[LeftOutCell]:
    return [cell for cell in _left_out(comparison, name) if cell.state in FAILED]


def lost(comparison: Comparison, name: str) -> list[LeftOutCell]:
    """The cells of a subject without a result, unless the baseline's of the same repeat lack one, too.

    A failed cell is excused only by a failed one; one that was not run, by any without a result.
    """
    base = {(cell.run, cell.repeat): cell.state for cell in _left_out(comparison, comparison.baseline_of(name))}

    def excused(cell: LeftOutCell) -> bool:
        state = base.get((cell.run, cell.repeat), ALONE)
        return state in FAILED or (state != ALONE and cell.state not in FAILED)

    return [cell for cell in _left_out(comparison, name) if cell.state != ALONE and not excused(cell)]


def without(comparison: Comparison, name: str, step: str) -> int:
    """Finished cells of a subject that lack a step which the baseline's of the same repeat have."""
    finished = {(cell.run, cell.repeat) for cell in comparison.cells if cell.subject == name}
    base = _by_place(comparison, comparison.baseline_of(name), step)
    return len(finished & (base.keys() - _by_place(comparison, name, step).keys()))


def idle(comparison: Comparison, name: str, step: str) -> int:
    """Cells of a subject in which a step did nothing, although the baseline did something."""
    metric, base = comparison.primary_metric(step), _by_place(comparison, comparison.baseline_of(name), step)
    places = _by_place(comparison, name, step)
    return sum(
        bool(base[place].figure(metric)) and not places[place].figure(metric) for place in places.keys() & base.keys()
    )


def slas(comparison: Comparison, name: str, step: str) -> dict[Place, Sla]:
    return {place: cell.sla for place, cell in _by_place(comparison, name, step).items() if cell.sla is not None}


def _by_place(comparison: Comparison, name: str, step: str) -> dict[Place, CellStep]:
    return {(cell.run, cell.repeat): cell for cell in comparison.of(name, step)}


def _left_out(comparison: Comparison, name: str) -> list[LeftOutCell]:
    return [cell for cell in comparison.remarks.left_out if cell.name == name]
