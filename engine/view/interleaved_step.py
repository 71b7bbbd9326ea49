"""A step of interleaved cells at a moment: each server's work, and their ratios so far."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.core.model import Cell, Manifest
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, EventRow, StepRow
from engine.view.events import incidents_of, lasts
from engine.view.slice_series import Lane, SliceSeries, SoFar
from engine.view.step_series import SECOND_NS, Series, StepSeries, by_statements

EARLIER = 0.75  # fraction of the time so far after which a ratio's trend is shown

AttemptSteps = Sequence[tuple[Attempt, StepRow]]  # the same step of all interleaved cells, the base's first


@dataclass(frozen=True, slots=True)
class ServerProgress:
    """One server of a step; `so_far` is None for the base, and before both have done something."""

    cell: Cell
    name: str  # of its subject
    series: StepSeries
    rate_per_s: float | None
    active_s: float
    so_far: SoFar | None
    stalls: tuple[EventRow, ...]

    @property
    def step(self) -> StepRow:
        return self.series.step


@dataclass(frozen=True, slots=True)
class InterleavedStep:
    """The servers, base first, and the `chosen` one. `planned_s` of each is 0 if the length is given as work."""

    sides: tuple[ServerProgress, ...]
    chosen: int
    planned_s: float
    blocks: int
    slices: SliceSeries
    at_ns: int

    @property
    def shown(self) -> ServerProgress:
        return self.sides[self.chosen]

    @property
    def compared(self) -> ServerProgress:
        """The side whose ratio is shown: the chosen one, or the first other if that is the base."""
        return self.sides[self.chosen or 1]

    @property
    def lane(self) -> Lane:
        return self.slices.lanes[self.chosen]

    @property
    def rates(self) -> Sequence[Series]:
        """The course of each server's rate, over active time; if statements last longer than slices, of whole ones."""
        primary = self.shown.step.primary_metric
        if self.slices.counted or primary is None:
            return self.slices.rates
        return [by_statements(side.series.active.get(primary.role, Series())) for side in self.sides]

    @property
    def numbers(self) -> str:
        """Numbers of the cells in the run, from 1: `3+4`."""
        return "+".join(str(number) for number in sorted(side.cell.ordinal + 1 for side in self.sides))

    def earlier(self, side: ServerProgress) -> float | None:
        """A side's ratio to the base when three quarters of its time so far had passed; None before any."""
        course = self.slices.courses[self.sides.index(side)]
        place = bisect_right(course.until, int(side.active_s * SECOND_NS * EARLIER))
        return course.known[place - 1].ratio if place else None

    def incidents_now(self) -> list[tuple[ServerProgress, tuple[EventRow, ...]]]:
        """The incidents of which a stall lasts, by side."""
        return [
            (side, incident)
            for side in self.sides
            for incident in incidents_of(side.stalls)
            if any(lasts(stall, self.at_ns) for stall in incident)
        ]


class InterleavedSteps:
    """The interleaved cells of a run, and the evidence of their slices. A replay keeps everything it read."""

    def __init__(self, reader: JournalReader, *, replay: bool) -> None:
        self._reader = reader
        self._manifest: Manifest = reader.manifest
        self._cells = {cell.id: cell for cell in self._manifest.cells}
        self._names = self._manifest.names
        self._places = {subject: place for place, subject in enumerate(self._names)}
        self._replay = replay
        self._slices: dict[tuple[int, ...], SliceSeries] = {}  # by steps

    def attempts(self, known: Iterable[Attempt], one: Attempt) -> list[Attempt]:
        """Attempts of the same repeat and engine start as `one`, including it; in the order of their subjects."""
        if not self._manifest.design.sliced or one.cell not in self._cells:
            return [one]
        by_cell = {
            attempt.cell: attempt
            for attempt in known
            if attempt.session_id == one.session_id and self._is_pair(attempt, one)
        }
        return sorted(by_cell.values(), key=self._place)

    def sliced(self, steps: AttemptSteps) -> AttemptSteps:
        """The same steps, with their recorded slices read, if they are sliced; else empty."""
        if len(steps) < 2:
            return ()
        key = _key(steps)
        slices = self._slices.get(key)
        if slices is None or not self._replay:
            slices = slices or SliceSeries(self._reader, [step for _, step in steps], self._manifest.design.slice_ms)
            slices.catch_up()
            if all(step.ended_ns is not None for _, step in steps):
                slices.end()
            self._slices = {**self._slices, key: slices} if self._replay else {key: slices}
        return steps if slices.blocks else ()

    def at(
        self,
        steps: AttemptSteps,
        stalls_of: Sequence[tuple[StepSeries, Sequence[EventRow]]],
        chosen: Attempt,
        at_ns: int,
    ) -> InterleavedStep | None:
        if not steps:
            return None
        slices = self._slices[_key(steps)]
        blocks = slices.blocks_at(at_ns)
        of_each = [series.mean_rate(at_ns) for series, _ in stalls_of]
        sides = [
            ServerProgress(
                self._cells[attempt.cell],
                self._names[self._cells[attempt.cell].subject],
                series,
                of_each[place],
                series.worked_s(at_ns),
                _so_far(slices, place, blocks, of_each) if place and blocks else None,
                tuple(stalls),
            )
            for place, ((attempt, _), (series, stalls)) in enumerate(zip(steps, stalls_of, strict=True))
        ]
        place = [attempt.id for attempt, _ in steps].index(chosen.id)
        return InterleavedStep(tuple(sides), place, slices.planned_s, blocks, slices, at_ns)

    def _is_pair(self, one: Attempt, other: Attempt) -> bool:
        cells = [self._cells.get(attempt.cell) for attempt in (one, other)]
        return all(cells) and len({cell.repeat for cell in cells if cell is not None}) == 1

    def _place(self, attempt: Attempt) -> int:
        return self._places[self._cells[attempt.cell].subject]


def _so_far(slices: SliceSeries, place: int, blocks: int, rates: Sequence[float | None]) -> SoFar | None:
    """The ratio by slices or, if statements last longer than these, the one of the rates."""
    known, base, other = slices.so_far(place, blocks), rates[0], rates[place]
    if known is None and not slices.counted and base and other:
        return SoFar(other / base, None, None, blocks)
    return known


def _key(steps: AttemptSteps) -> tuple[int, ...]:
    return tuple(step.id for _, step in steps)


def so_far_words(view: InterleavedStep, side: ServerProgress, *, ended: bool = False) -> str:
    """`17.0 / 16.3: -3.5% [-4.7, -2.3] so far`, as in `bench compare`; empty before anything is known."""
    known = side.so_far
    if known is None:
        return ""
    ratio = f"{side.name} / {view.sides[0].name}: {_percent(known.ratio)}%"
    if known.low is None or known.high is None:
        return f"{ratio}, no interval{'' if ended else ' yet'}"
    return f"{ratio} [{_percent(known.low)}, {_percent(known.high)}]{'' if ended else ' so far'}"


def reach_words(view: InterleavedStep) -> tuple[str, ...]:
    """Scope of the ratio and time so far: `this pair of clusters, 9 of 12 s`, then shorter forms."""
    of = f" of {view.planned_s:.0f}" if view.planned_s else ""
    reach = f"{min(view.shown.active_s, view.planned_s or 1e9):.0f}{of} s"
    return f"this pair of clusters, {reach}", f"this pair, {reach}", reach


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}"
