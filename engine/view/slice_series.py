"""The slices of a step of interleaved cells in memory: each server's work in its active time, and the ratios so far.

Active time passes only during a server's own slices.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from engine.journal.reader import JournalReader
from engine.journal.rows import SliceRow, StepRow
from engine.results.slice_ratio import TURNS, half_width_at_every_moment, log_ratio, ratio_of
from engine.view.step_series import SECOND_NS, Series
from workloads.api.base import COUNTED_IN_ROWS

MOST_POINTS = 1000  # of a chart's line (up to twice as many): long steps are drawn from sums over several blocks
MOST_SUMS = 500  # groups of blocks for a ratio: more would cost a lot and hardly change its error
USUAL_S = 12.0  # assumed per server if a step's length is unknown
LEAST_AT_END, MOST_AT_END_NS = 0.5, SECOND_NS // 2  # of the mean rate; a point below is left out so near the end
GROWTH = 1.02  # factor in blocks between points of a ratio's course


@dataclass(frozen=True, slots=True)
class SoFar:
    """A build's rate relative to the base's on one pair of clusters.

    `low` and `high` are a confidence sequence: with 95% probability they hold at all moments at once. None while there
    are too few blocks.
    """

    ratio: float
    low: float | None
    high: float | None
    blocks: int


@dataclass(slots=True)
class Course:
    """A ratio over active time in ns; bounds as in `SoFar`."""

    until: list[int] = field(default_factory=list)
    known: list[SoFar] = field(default_factory=list)


@dataclass(slots=True)
class Lane:
    """One server: its slices, and per block the operations done and the counted ns."""

    opened: list[int] = field(default_factory=list)  # of slices
    length: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)  # active ns before each slice
    done: list[int] = field(default_factory=list)  # of blocks
    counted_ns: list[int] = field(default_factory=list)
    until: list[int] = field(default_factory=list)  # active ns up to the end of each block
    active_ns: int = 0

    def take(self, rows: Sequence[SliceRow], *, in_rows: bool) -> None:
        for row in rows:
            length = max(0, row.counted_from_ns - row.opened_ns) + row.counted_ns
            self.opened.append(row.opened_ns)
            self.length.append(length)
            self.before.append(self.active_ns)
            self.active_ns += length
        self.done.append(sum(row.rows if in_rows else row.ops for row in rows))
        self.counted_ns.append(sum(row.counted_ns for row in rows))
        self.until.append(self.active_ns)

    def active_at(self, t_ns: int) -> int:
        place = bisect_right(self.opened, t_ns) - 1
        return self.before[place] + min(t_ns - self.opened[place], self.length[place]) if place >= 0 else 0


class SliceSeries:
    """The complete blocks of a step so far, the base first. `rates` and `courses` are over active time in ns."""

    def __init__(self, reader: JournalReader, steps: Sequence[StepRow], slice_ms: float) -> None:
        self._reader = reader
        self._steps = tuple(step.id for step in steps)
        primary = steps[0].primary_metric
        self._in_rows = primary is not None and primary.role in COUNTED_IN_ROWS
        self.planned_s = steps[0].planned_s
        # Fixed before any data of the step is seen, or the bounds would not hold at all moments.
        self._planned_blocks = (self.planned_s or USUAL_S) * 1000 / (TURNS * slice_ms)
        self._step_ns = [int(self.planned_s * SECOND_NS / MOST_POINTS) for _ in steps]  # between points of `rates`
        self.lanes = [Lane() for _ in steps]
        self.rates = [Series() for _ in steps]
        self.courses = [Course() for _ in steps]
        self._drawn = [0 for _ in steps]  # blocks already in `rates`
        self._next = 1  # blocks at the next point of the courses
        self._ended: list[int] = []  # blocks
        self._block = -1
        self._last_ns = [0 for _ in steps]  # of `rates`, before anything was left out

    def catch_up(self) -> None:
        """Read new blocks, and those that were incomplete."""
        rows_of = [
            {block: list(rows) for block, rows in groupby(self._reader.slices(step, self._block), attrgetter("block"))}
            for step in self._steps
        ]
        complete = (block for block in rows_of[0] if all(len(rows.get(block, ())) == TURNS for rows in rows_of))
        for block in sorted(complete):
            for lane, rows in zip(self.lanes, rows_of, strict=True):
                lane.take(rows[block], in_rows=self._in_rows)
            self._ended.append(max(lane.opened[-1] + lane.length[-1] for lane in self.lanes))
            self._block = block
        for side in range(len(self.lanes)):
            self._draw(side)
        while self._next <= len(self._ended):
            for side in range(1, len(self.lanes)):
                if (so_far := self.so_far(side, self._next)) is not None:
                    self.courses[side].until.append(self.lanes[side].until[self._next - 1])
                    self.courses[side].known.append(so_far)
            self._next = max(self._next + 1, math.ceil(self._next * GROWTH))

    def end(self) -> None:
        """Leave out of the lines what slices counted when the statements of a step that has ended were done."""
        for side, points in enumerate(self.rates):
            usual = points.mean(0, points.until[-1]) if points.until else None
            last_ns = self._last_ns[side] = max([self._last_ns[side], *points.until[-1:]])
            while usual and points.value and points.value[-1] < LEAST_AT_END * usual:
                if last_ns - points.until[-1] + points.length[-1] > MOST_AT_END_NS:
                    break
                points.drop()

    @property
    def counted(self) -> bool:
        """Whether statements ended in slices; those that last longer are counted by the second only."""
        return any(any(lane.done) for lane in self.lanes)

    @property
    def blocks(self) -> int:
        return len(self._ended)

    def blocks_at(self, t_ns: int) -> int:
        return bisect_right(self._ended, t_ns)

    def so_far(self, side: int, blocks: int) -> SoFar | None:
        """Ratio of a side's rate to the base's after a number of blocks; None until both have counted something."""
        size = max(1, blocks // MOST_SUMS)
        base, other = (
            [_sums(part[:blocks], size) for part in (lane.done, lane.counted_ns)]
            for lane in (self.lanes[0], self.lanes[side])
        )
        try:
            ratio = log_ratio((base[0], base[1]), (other[0], other[1]))
        except ValueError:
            return None
        half = half_width_at_every_moment(ratio, self._planned_blocks / size)
        low, high = (None, None) if half is None else (ratio_of(ratio.theta - half), ratio_of(ratio.theta + half))
        return SoFar(ratio_of(ratio.theta), low, high, blocks)

    def _draw(self, side: int) -> None:
        """Add points to a line once they are long enough."""
        lane, points = self.lanes[side], self.rates[side]
        if not any(lane.done):  # statements last longer than slices
            return
        done = counted_ns = 0
        from_ns = points.until[-1] if points.until else 0
        for block in range(self._drawn[side], len(lane.done)):
            done += lane.done[block]
            counted_ns += lane.counted_ns[block]
            length = lane.until[block] - from_ns
            if length >= max(1, self._step_ns[side]) and counted_ns:
                points.add(lane.until[block], length, done * SECOND_NS / counted_ns)
                done, counted_ns, from_ns = 0, 0, lane.until[block]
                self._drawn[side] = block + 1
                if len(points.until) >= 2 * MOST_POINTS:  # the length of a step given as work is unknown beforehand
                    points.halve()
                    self._step_ns[side] = max(2 * self._step_ns[side], from_ns // len(points.until))


def _sums(values: Sequence[int], size: int) -> Sequence[int]:
    return values if size == 1 else [sum(values[at : at + size]) for at in range(0, len(values), size)]
