"""Estimated end of a run, from how long its finished cells took.

A start of the engine tries each cell once: one that failed is not to come, unless a later start tries it again.
"""

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
    start: int = 0,
) -> list[Planned]:
    """The wanted cells in order, in this `start` of the engine. Interleaved cells of a repeat are next together."""
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
        tried = known is not None and (state == "finished" or known.session_id >= start)
        if running and not tried and following in (None, place):
            state, following = "next", place
        done = rates(known.id) if known is not None and known.state == "finished" else {}
        found.append(Planned(cell, state, done))
    return found


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work: a cell, or the interleaved cells of a repeat; each with its newest attempt."""

    attempts: tuple[Attempt | None, ...]

    @property
    def begun(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt is not None]

    @property
    def finished(self) -> bool:
        return all(attempt is not None and attempt.state == "finished" for attempt in self.attempts)

    @property
    def running(self) -> bool:
        return any(attempt.state == "running" for attempt in self.begun)

    def over(self, start: int) -> bool:
        """Whether it is finished, or this start of the engine has tried it."""
        tried = any(attempt.session_id >= start for attempt in self.begun)
        return self.finished or (tried and not self.running)


def pieces(cells: Sequence[Cell], attempts: Iterable[Attempt], *, interleaved: bool) -> list[Piece]:
    newest = {attempt.cell: attempt for attempt in attempts}
    together: dict[object, list[Attempt | None]] = {}
    for cell in cells:
        together.setdefault(cell.repeat if interleaved else cell.id, []).append(newest.get(cell.id))
    return [Piece(tuple(found)) for found in together.values()]


def left_s(pieces: Iterable[Piece], now_ns: int, *, start: int = 0, usual_s: float | None = None) -> float | None:
    """Seconds that the wanted pieces will take in this `start` of the engine; None before any has finished.

    A piece takes `usual_s`, by default as long as the average so far, less the time since the current one began.
    """
    took, begun_ns, todo = [], [], 0
    for piece in pieces:
        first_ns = min((attempt.started_ns for attempt in piece.begun), default=0)
        if piece.finished:
            took.append(max(attempt.ended_ns or first_ns for attempt in piece.begun) - first_ns)
        todo += not piece.over(start)
        if piece.running:
            begun_ns.append(first_ns)
    if not took:
        return None
    usual_ns = fmean(took) if usual_s is None else usual_s * 1e9
    under_way_ns = sum(max(0.0, usual_ns - (now_ns - since_ns)) for since_ns in begun_ns)
    return (under_way_ns + usual_ns * (todo - len(begun_ns))) / 1e9
