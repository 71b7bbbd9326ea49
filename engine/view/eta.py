"""Estimated end of a run, from how long its finished cells took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from engine.core.model import Cell
from engine.journal.rows import Attempt


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned cell. `state`: finished, failed, running, next or planned; `rates`: those of its ended steps."""

    cell: Cell
    state: str
    rates: Mapping[str, float]


def planned(
    cells: Sequence[Cell],
    attempts: Iterable[Attempt],
    rates: Callable[[int], Mapping[str, float]],
    *,
    running: bool,
    interleaved: bool,
) -> list[Planned]:
    """The wanted cells in order. Interleaved cells of a repeat are next together."""
    newest: dict[str, Attempt] = {}
    for attempt in attempts:  # a finished attempt counts even if the cell was started again
        if attempt.cell not in newest or newest[attempt.cell].state != "finished":
            newest[attempt.cell] = attempt
    found, following = [], None
    for cell in sorted(cells, key=lambda cell: cell.ordinal):
        known = newest.get(cell.id)
        state = known.state if known is not None else "planned"
        if state == "running" and not running:
            state = "interrupted"
        place = cell.repeat if interleaved else cell.ordinal
        if running and state not in ("finished", "running") and following in (None, place):
            state, following = "next", place
        done = rates(known.id) if known is not None and known.state == "finished" else {}
        found.append(Planned(cell, state, done))
    return found


def left_s(
    cells: Sequence[Cell],
    attempts: Iterable[Attempt],
    now_ns: int,
    *,
    interleaved: bool,
    usual_s: float | None = None,
) -> float | None:
    """Seconds that the wanted, unfinished cells will take; None before any has finished.

    Interleaved cells of a repeat are one piece of work, otherwise each cell is one. A piece takes `usual_s`, by default
    as long as the average so far, less the time since the current one began.
    """
    newest = {attempt.cell: attempt for attempt in attempts}
    pieces: dict[object, list[Attempt | None]] = {}
    for cell in cells:
        pieces.setdefault(cell.repeat if interleaved else cell.id, []).append(newest.get(cell.id))
    took, begun_ns, todo = [], [], 0
    for piece in pieces.values():
        known = [attempt for attempt in piece if attempt is not None]
        first_ns = min((attempt.started_ns for attempt in known), default=0)
        if len(known) == len(piece) and all(attempt.state == "finished" for attempt in known):
            took.append(max(attempt.ended_ns or first_ns for attempt in known) - first_ns)
            continue
        todo += 1
        if any(attempt.state == "running" for attempt in known):
            begun_ns.append(first_ns)
    if not took:
        return None
    usual_ns = fmean(took) if usual_s is None else usual_s * 1e9
    under_way_ns = sum(max(0.0, usual_ns - (now_ns - since_ns)) for since_ns in begun_ns)
    return (under_way_ns + usual_ns * (todo - len(begun_ns))) / 1e9
