"""The axes of time of a step's charts: the whole of it, a part of it, and where stalls lie on them. All in ns."""

from __future__ import annotations

from dataclasses import dataclass

from engine.journal import EventRow, StepRow
from tui.film import SECOND_NS
from tui.picture import lasts

WINDOWS = (("step", 0), ("10 min", 600), ("60 s", 60))
# The axis of a step whose length is not known yet: it doubles or so, instead of creeping.
LENGTHS_S = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 172800, 604800)


@dataclass(frozen=True, slots=True)
class Axis:
    """What a chart shows: the axis from `start` to `end`, of which data is shown up to `at`."""

    start: float
    end: float
    at: float


def whole(step: StepRow, at_ns: int) -> Axis:
    """The whole step; while its end is not known, a length that it has not reached yet."""
    start = step.started_ns
    at = min(at_ns, step.ended_ns or at_ns)
    if step.ended_ns is not None:
        return Axis(start, max(step.ended_ns, start + SECOND_NS), at)
    wanted_s = max((at - start) / SECOND_NS, float(step.plan.get("seconds") or 0))
    length_s = next((length for length in LENGTHS_S if length >= wanted_s), wanted_s)
    return Axis(start, start + int(length_s * SECOND_NS), at)


def window(axis: Axis, seconds: int) -> Axis:
    """The last so many seconds of what is shown, from the start on while there are not so many; 0 for all."""
    if not seconds:
        return axis
    end = max(axis.start + seconds * SECOND_NS, axis.at)
    return Axis(end - seconds * SECOND_NS, end, axis.at)


def interval(stall: EventRow, at_ns: int) -> tuple[float, float]:
    """From where to where a stall lies; up to now while it lasts."""
    until = at_ns if lasts(stall, at_ns) or stall.ended_ns is None else stall.ended_ns
    return (stall.started_ns, until)
