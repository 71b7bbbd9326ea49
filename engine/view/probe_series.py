"""Frames of one probe and role in a step, summed and laid over an axis incrementally.

Only new frames are processed, so that repainting a step of hours costs no more than a short one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.journal.rows import ProbeFrame, StepRow
from engine.journal.totals import ROLE_ORDER, role_place
from engine.view.envelope import columns_of
from engine.view.step_series import SECOND_NS, is_sliver

LATE_NS = 5 * SECOND_NS  # probes have their own pace: a frame may be recorded after a later one of another probe
LARGEST = ("max_us", "processes")  # maxima, not sums
Histogram = dict[int, int]  # power-of-two bucket: count


@dataclass(slots=True)
class Sums:
    """Summed frames: figures (some are maxima; `phases` appear as `phase NAME`) and histograms by field."""

    figures: dict[str, int] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, frames: Iterable[ProbeFrame]) -> Sums:
        """Add frames; return self."""
        figures = self.figures
        for frame in frames:
            self.seconds += frame.dt_ns / SECOND_NS
            for name, value in frame.data.items():
                if isinstance(value, list):
                    add_pairs(self.histograms.setdefault(name, {}), value)
                elif name == "phases" and isinstance(value, dict):
                    for part, count in value.items():
                        figures[f"phase {part}"] = figures.get(f"phase {part}", 0) + count
                elif isinstance(value, (int, float)):
                    known = figures.get(name, 0)
                    figures[name] = max(known, int(value)) if name in LARGEST else known + int(value)
        return self


@dataclass(slots=True)
class HeatColumn:
    peak: float = 0.0
    counts: Histogram = field(default_factory=dict)


class ProbeSeries:
    """Frames of one probe and role in one step. Append-only, in order."""

    def __init__(self, step: StepRow, probe: str, role: str) -> None:
        self.step, self.probe, self.role = step, probe, role
        self.whole = False  # once everything recorded has been read
        self._frames: list[ProbeFrame] = []
        self._ends: list[int] = []
        self._sums, self._summed = Sums(), 0
        self._columns: list[HeatColumn | None] = []
        self._laid, self._laid_key = 0, ("", (0, 0), 0)

    @property
    def after_ns(self) -> int:
        """The time after which frames may be missing here."""
        return max(self.step.started_ns, self._ends[-1] - LATE_NS) if self._ends else self.step.started_ns

    def take(self, frames: Iterable[ProbeFrame]) -> None:
        for frame in frames:
            if not self._ends or frame.t_ns > self._ends[-1]:
                self._frames.append(frame)
                self._ends.append(frame.t_ns)
        self.whole = True

    def within(self, after_ns: int, until_ns: int) -> Sequence[ProbeFrame]:
        return self._frames[bisect_right(self._ends, after_ns) : bisect_right(self._ends, until_ns)]

    def sums(self, until_ns: int) -> Sums:
        count = bisect_right(self._ends, until_ns)
        if count < self._summed:
            self._sums, self._summed = Sums(), 0
        self._sums.add(self._frames[self._summed : count])
        self._summed = count
        return self._sums

    def columns(self, name: str, axis: tuple[int, int], cells: int, until_ns: int) -> Sequence[HeatColumn | None]:
        """A field laid over an axis: None in columns without frames."""
        count = bisect_right(self._ends, until_ns)
        if self._laid_key != (name, axis, cells) or count < self._laid:
            self._columns, self._laid, self._laid_key = [None] * cells, 0, (name, axis, cells)
        for place in range(self._laid, count):
            frame = self._frames[place]
            value = _over_time(self._frames[max(0, place - 1)], frame, name)
            if value is None:
                continue
            counted = frame.data[name] if isinstance(frame.data[name], list) else ()
            for x in columns_of(*axis, frame.t_ns - frame.dt_ns, frame.t_ns, cells):
                column = self._columns[x] = self._columns[x] or HeatColumn()
                column.peak = max(column.peak, value)
                add_pairs(column.counts, counted)
        self._laid = count
        return self._columns


def add_pairs(into: Histogram, pairs: Iterable[Sequence[int]]) -> None:
    for bucket, count in pairs:
        into[bucket] = into.get(bucket, 0) + count


def value_of(frame: ProbeFrame, name: str) -> float | None:
    """Value of a frame in a chart over time: the p99 of a histogram, else the field per second."""
    value = frame.data.get(name)
    if isinstance(value, list):
        return quantile_us(dict(value), 0.99)
    if isinstance(value, (int, float)) and frame.dt_ns > 0:
        return value * SECOND_NS / frame.dt_ns
    return None


def _over_time(before: ProbeFrame, frame: ProbeFrame, name: str) -> float | None:
    """Value of a frame; a sliver's rate at the step's end is merged with the frame before."""
    value, known = value_of(frame, name), value_of(before, name)
    if value is None or known is None or isinstance(frame.data[name], list) or not is_sliver(frame.dt_ns, before.dt_ns):
        return value
    return (known * before.dt_ns + value * frame.dt_ns) / (before.dt_ns + frame.dt_ns)


def quantile_us(histogram: Histogram, q: float) -> int | None:
    """Upper bound of a quantile: bucket b holds values of b bits, at most 2**b - 1. None if empty."""
    total = sum(histogram.values())
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if total and seen >= q * total:
            return (1 << bucket) - 1
    return None


def in_order(roles: Iterable[str]) -> tuple[str, ...]:
    """Roles sorted: connections, then their clients, then others."""
    return tuple(sorted(set(roles), key=_order))


def _order(role: str) -> tuple[int, int, str]:
    of = role.removeprefix("client:")
    place, _ = role_place(of)
    return (0 if of == role and place < len(ROLE_ORDER) else 1 if of != role else 2, place, role)
