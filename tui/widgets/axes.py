"""The axes of time of a step's charts: the whole of it, a part of it, and where stalls lie on them. All in ns."""

from engine.core.format import span
from engine.journal.reader import EventRow, StepRow
from engine.view.events import until_ns
from engine.view.step_series import SECOND_NS
from tui.widgets.chart import Axis

WINDOWS = (("step", 0), ("10 min", 600), ("60 s", 60))
# The axis of a step whose length is not known yet: it doubles or so, instead of creeping.
LENGTHS_S = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 172800, 604800)


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
    """The last so many seconds of what is shown, from the start on while there are not so many; 0 for all.

    A step that is not as long is shown whole: zooming never shrinks it.
    """
    if not seconds or _length_s(axis) <= seconds:
        return axis
    end = max(axis.start + seconds * SECOND_NS, axis.at)
    return Axis(end - seconds * SECOND_NS, end, axis.at)


def words(step: StepRow | None, at_ns: int, window: int) -> str:
    """How wide a window is: `0-2m00s` for a whole step, `60 s` for as much of its end."""
    if step is None:
        return ""
    length_s = _length_s(whole(step, at_ns))
    name, seconds = WINDOWS[window]
    return name if 0 < seconds < length_s else f"0-{span(length_s)}"


def narrower(step: StepRow, at_ns: int, window: int) -> int:
    """The next window that shows less than the whole step; after the last the whole."""
    length_s = _length_s(whole(step, at_ns))
    return next((place for place, (_, seconds) in enumerate(WINDOWS) if place > window and seconds < length_s), 0)


def _length_s(axis: Axis) -> float:
    return (axis.end - axis.start) / SECOND_NS


def interval(stall: EventRow, at_ns: int) -> tuple[float, float]:
    """From where to where a stall lies; up to now while it lasts."""
    return (stall.started_ns, until_ns(stall, at_ns))
