"""Estimated end of a run, from how long its finished cells and their steps took.

A start of the engine tries each cell once: one that failed is not to come, unless a later start tries it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean

from engine.core.model import Cell
from engine.journal.rows import Attempt, StepRow


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
    in_order, following = [], None
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
        in_order.append(Planned(cell, state, done))
    return in_order


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
    return [Piece(tuple(group)) for group in together.values()]


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step of a piece, of all its cells; `ended_ns` is None until the last of them has ended."""

    name: str
    started_ns: int
    ended_ns: int | None


StepsOf = Callable[[Attempt], Sequence[StepRow]]


def left_s(
    pieces: Iterable[Piece],
    now_ns: int,
    steps_of: StepsOf = lambda _: (),
    *,
    start: int = 0,
    usual_s: float | None = None,
    eta_s: float | None = None,
) -> float | None:
    """Seconds that the wanted pieces will take in this `start` of the engine; None before any has finished.

    A piece to come takes `usual_s`, by default the average so far. The one under way takes `eta_s` for its step, and
    what the finished ones took after that step.
    """
    finished: list[tuple[int, int, list[StepTime]]] = []  # begin, end, steps
    under_way: list[tuple[int, list[StepTime]]] = []
    todo = 0
    for piece in pieces:
        first_ns = min((attempt.started_ns for attempt in piece.begun), default=0)
        if piece.finished:
            last_ns = max(attempt.ended_ns or first_ns for attempt in piece.begun)
            finished.append((first_ns, last_ns, _together(piece, steps_of)))
        todo += not piece.over(start)
        if piece.running:
            under_way.append((first_ns, _together(piece, steps_of)))
    if not finished:
        return None
    average_ns = fmean(end_ns - begin_ns for begin_ns, end_ns, _ in finished)
    usual_ns = average_ns if usual_s is None else usual_s * 1e9
    scale = usual_ns / average_ns if average_ns else 1.0
    after = {name: (b * scale, e * scale, n * scale) for name, (b, e, n) in _until_the_end(finished).items()}
    eta_ns = None if eta_s is None else eta_s * 1e9
    rest_ns = sum(_rest_ns(now_ns, begun_ns, steps, usual_ns, after, eta_ns) for begun_ns, steps in under_way)
    return (rest_ns + usual_ns * (todo - len(under_way))) / 1e9


def _together(piece: Piece, steps_of: StepsOf) -> list[StepTime]:
    """The steps of a piece in order."""
    by_name: dict[str, list[StepRow]] = {}
    for attempt in piece.begun:
        for step in steps_of(attempt):
            by_name.setdefault(step.name, []).append(step)
    times = []
    for name, rows in by_name.items():
        ends = [row.ended_ns for row in rows if row.ended_ns is not None]
        times.append(StepTime(name, min(row.started_ns for row in rows), max(ends) if len(ends) == len(rows) else None))
    return sorted(times, key=lambda step: step.started_ns)


def _until_the_end(finished: Sequence[tuple[int, int, list[StepTime]]]) -> dict[str, tuple[float, float, float]]:
    """The usual ns to the end of each step's piece: from its start, from its end, and from the next one's start.

    Pieces of several workloads have steps of their own: what follows a step is what followed it in its pieces.
    """
    known: dict[str, list[tuple[int, int, int]]] = {}
    for _, last_ns, steps in finished:
        for step, following in zip_longest(steps, steps[1:]):
            from_next = last_ns - (following.started_ns if following is not None else last_ns)
            from_end = last_ns - (step.ended_ns or last_ns)
            known.setdefault(step.name, []).append((last_ns - step.started_ns, from_end, from_next))
    usual: dict[str, tuple[float, float, float]] = {}
    for name, spans in known.items():
        start, end, following_start = map(fmean, zip(*spans, strict=True))
        usual[name] = (start, end, following_start)
    return usual


def _rest_ns(
    now_ns: int,
    begun_ns: int,
    steps: Sequence[StepTime],
    usual_ns: float,
    after: Mapping[str, tuple[float, float, float]],
    eta_ns: float | None,
) -> float:
    """The time left of the piece under way: never less than its steps to come usually take."""
    step = steps[-1] if steps else None
    if step is None or step.name not in after:
        least = next((from_start for from_start, _, _ in after.values()), 0.0) if step is None else 0.0
        return max(least, usual_ns - (now_ns - begun_ns))
    from_start, from_end, from_next = after[step.name]
    if step.ended_ns is None:
        own_ns = max(0.0, from_start - from_end - (now_ns - step.started_ns)) if eta_ns is None else eta_ns
        return own_ns + from_end
    return max(from_next, from_end - (now_ns - step.ended_ns))
