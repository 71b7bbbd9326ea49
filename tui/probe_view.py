"""All of the Probes screen at one moment, from what was read: pure, so that it can be looked at without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.journal import EventRow, ProbeFrame
from tui import probe_text
from tui.glyphs import Glyphs
from tui.marks import Line, fit, line
from tui.numbers import clock, short
from tui.probe_reel import SECOND_NS, Place, Reel, added, quantile_us
from tui.probe_states import ProbeRow

WINDOWS = (("whole step", 0), ("last 60 s", 60), ("last 10 s", 10))
BAR_ROWS = 7  # at the reference size; what a taller screen has more goes to bars first, then to the strip
BARS_MOST = 14
REMARK_ROWS = 2


@dataclass(frozen=True, slots=True)
class Moment:
    """What is shown: a step up to `at_ns`, of which `end_ns` is recorded. `replay` says that it is played."""

    place: Place
    reel: Reel | None
    stalls: Sequence[EventRow]
    at_ns: int
    end_ns: int
    window_s: int
    log: bool
    replay: bool
    running: bool

    @property
    def frames(self) -> Sequence[ProbeFrame]:
        """The chosen probe's frames of the chosen role up to the moment."""
        return self.reel.within(0, self.at_ns) if self.reel is not None else ()

    @property
    def windowed(self) -> Sequence[ProbeFrame]:
        """Those of them that histograms are made of."""
        if self.reel is None or not self.window_s:
            return self.frames
        return self.reel.within(self.at_ns - self.window_s * SECOND_NS, self.at_ns)

    @property
    def wall_ns(self) -> int:
        """What to add to a monotonic time of this step to have the wall clock's."""
        return self.place.session.wall(0)


@dataclass(frozen=True, slots=True)
class Room:
    """How many rows the parts have."""

    bars: int
    strip: int


def room(height: int, probes: int) -> Room:
    """The rows of a screen so high: title, table, heading and bars, heading, strip and axis, remarks, keys."""
    over = max(0, height - (1 + 1 + probes + 1 + BAR_ROWS + 3 + REMARK_ROWS + 1))
    bars = min(BARS_MOST, BAR_ROWS + over // 2)
    return Room(bars, 1 + over - (bars - BAR_ROWS))


def title(moment: Moment, role: str, columns: int) -> Line:
    """Whose step it is, and where in it."""
    step, cell = moment.place.step, moment.place.cell
    at = clock((min(moment.at_ns, moment.end_ns) - step.started_ns) / 1e9)
    how = "REPLAY" if moment.replay else "REC" if moment.running and step.ended_ns is None else "recorded"
    window = next(words for words, seconds in WINDOWS if seconds == moment.window_s)
    left = f" PROBES  {step.name} {cell.subject.name} r{cell.repeat}  {how} {at}"
    right = f"role {role or '-'}   {window} "
    return ((left[: columns - len(right) - 1].ljust(columns - len(right)) + right, "title"),)


def panels(moment: Moment, columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """Histograms of the chosen probe, beside each other, or one beside its figures."""
    cells = (columns - 1) // 2
    frames = moment.windowed
    if not frames or moment.reel is None:
        return [line((f" {_nothing(moment)}", "dim")), *[()] * rows]
    figures, merged = added(frames)
    made: list[list[Line]] = []
    for name, histogram in list(merged.items())[:2]:
        # The longest that is told is that of the first field: of waits, of plannings.
        longest_us = figures.get("max_us") if not made else None
        stalled = probe_text.stalled_buckets(frames, name, moment.stalls, moment.wall_ns)
        bars = probe_text.bars(histogram, stalled, cells, rows, log=moment.log, glyphs=glyphs)
        made.append([probe_text.summary(name, histogram, longest_us), *bars])
    if len(made) < 2:
        seconds = sum(frame.dt_ns for frame in frames) / 1e9
        heading = line((f" {moment.reel.probe}, {moment.reel.role}", "strong"), (f"  {short(seconds)} s", "dim"))
        lines = probe_text.figure_lines(moment.reel.probe, figures, seconds, cells, glyphs)
        made.append([heading, *lines])
    left, right = made if len(made) == 2 else (made[0], [])
    return probe_text.side_by_side(left, right, cells, rows + 1, glyphs)


def _nothing(moment: Moment) -> str:
    if moment.reel is None:
        return "this probe told nothing of this step; up and down choose another, left and right another step"
    if not moment.reel.whole:
        return "reading"
    return f"{moment.reel.probe} told nothing of {moment.reel.role} in this time; d is another role, w another time"


def over_time(moment: Moment, columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The chosen probe over the whole step, with a heading and the axis."""
    frames, step = moment.frames, moment.place.step
    if not frames or moment.reel is None:
        return []
    field = _field(frames)
    axis = (step.started_ns, max(moment.end_ns, step.started_ns + SECOND_NS))
    if any(isinstance(frame.data.get(field), list) for frame in frames):
        each = [quantile_us(dict(frame.data.get(field) or ()), 0.99) or 0 for frame in frames]
        peak = f"highest <{probe_text.size_us(max(each) + 1)}"
        what = f"{probe_text.named(field)} us over time, p99"
    else:
        peak = f"highest {short(max(probe_text.strip_value(frame, field) or 0.0 for frame in frames))}"
        what = f"{field.removesuffix('_us')} over time, {'us' if field.endswith('_us') else 'times'} per s"
    heading = line(
        (f" {what}", "strong"), (f"  {peak}", ""), ("  ! where it stalled" if moment.stalls else "", "worse")
    )
    drawn = probe_text.strip(frames, field, axis, moment.at_ns, moment.stalls, columns, rows, glyphs)
    return [
        fit(heading, columns, glyphs.ellipsis),
        *drawn,
        probe_text.axis_line(axis, moment.at_ns, moment.stalls, columns, glyphs),
    ]


def _field(frames: Sequence[ProbeFrame]) -> str:
    """What of a probe is drawn over time: its first histogram, else what says most."""
    names = [name for frame in frames[-20:] for name, value in frame.data.items() if isinstance(value, list)]
    if names:
        return names[0]
    there = {name for frame in frames[-20:] for name in frame.data}
    return next((name for name in ("runq_us", "plan_us", "samples", "n") if name in there), "processes")


def small(moment: Moment | None, rows: Sequence[ProbeRow]) -> list[Line]:
    """The page of a small terminal."""
    lines = [line(("PROBES", "strong"))]
    if moment is not None:
        step, cell = moment.place.step, moment.place.cell
        lines = [line(("PROBES", "strong"), f"  {step.name} {cell.subject.name} r{cell.repeat}")]
    return [*lines, *(line((f"{row.probe:<11} ", ""), (row.state, row.mark)) for row in rows)]


def events_until(events: Sequence[EventRow], attempt: int, at_ns: int) -> list[EventRow]:
    """What was said in a cell by a time."""
    return [event for event in events if event.attempt_id == attempt and event.started_ns <= at_ns]
