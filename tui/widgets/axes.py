"""The axes of time of a step's charts: the whole of it, a part of it, and where stalls lie on them. All in ns."""

from math import log

from engine.core.format import clock, span
from engine.journal.rows import EventRow, StepRow
from engine.view.events import until_ns
from engine.view.interleaved_step import Abreast
from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tui.widgets.taken import Axis

WINDOWS = (("step", 0), ("10 min", 600), ("60 s", 60))
# The axis of a step whose length is not planned grows in these steps, instead of creeping.
OVER = 1.02  # of what is planned: a step ends somewhat later
LENGTHS_S = (
    10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400, 21600,
    28800, 43200, 57600, 86400, 172800, 604800,
)  # fmt: skip
EARLY_S = 2.0  # before that nothing is expected of the speed so far
GROWTH = 1.5  # from one time at which the speed is looked at to the next: what is expected never goes to and fro


def whole(step: StepRow, at_ns: int, expected_s: float = 0.0) -> Axis:
    """The whole step; while its end is not known, its planned length, or that which follows from what is done of it."""
    start = step.started_ns
    at = min(at_ns, step.ended_ns or at_ns)
    if step.ended_ns is not None:
        return Axis(start, max(step.ended_ns, start + SECOND_NS), at)
    begun_s, planned_s = (at - start) / SECOND_NS, OVER * float(step.plan.get("seconds") or 0)
    length_s = planned_s if planned_s >= begun_s else _roomy_s(max(begun_s, expected_s))
    return Axis(start, start + int(length_s * SECOND_NS), at)


def active(abreast: Abreast, expected_s: float = 0.0) -> Axis:
    """The active time of servers side by side, from 0: as long as any of them worked, or is to work. At the shown's."""
    at = abreast.lane.active_at(abreast.at_ns)
    worked = max(lane.active_ns for lane in abreast.slices.lanes)
    if all(side.step.ended_ns is not None for side in abreast.sides):
        return Axis(0, max(worked, SECOND_NS), at)
    length_s = abreast.planned_s or _roomy_s(max(worked / SECOND_NS, expected_s))
    return Axis(0, max(worked, int(length_s * SECOND_NS)), at)


def of(view: ViewState) -> Axis:
    """The axis of what is shown; there is a step."""
    assert view.step is not None
    if view.abreast is not None:
        return active(view.abreast, _expected_s(view))
    return whole(view.step, view.at_ns, _expected_s(view))


def _expected_s(view: ViewState) -> float:
    """How long the step will be, by its speed when that was looked at last; 0 where nothing is expected."""
    series = view.series
    if series is None or not view.fraction or view.fraction >= 1:
        return 0.0
    worked_s = series.worked_s(view.at_ns)
    if worked_s < EARLY_S:
        return 0.0
    looked_s = EARLY_S * GROWTH ** int(log(worked_s / EARLY_S) / log(GROWTH))
    now, then = (series.done_after(view.primary_role, at_s) for at_s in (worked_s, looked_s))
    return looked_s * now / then / view.fraction if now and then else 0.0


def _roomy_s(length_s: float) -> float:
    return next((length for length in LENGTHS_S if length >= length_s), length_s)


def window(axis: Axis, seconds: int) -> Axis:
    """The last so many seconds of what is shown, from the start on while there are not so many; 0 for all.

    A step that is not as long is shown whole: zooming never shrinks it.
    """
    if not seconds or _length_s(axis) <= seconds:
        return axis
    end = max(axis.start + seconds * SECOND_NS, axis.at)
    return Axis(end - seconds * SECOND_NS, end, axis.at)


def words(axis: Axis, window: int) -> str:
    """How wide a window is: `0-2m00s` for the whole axis, `60 s` for as much of its end."""
    length_s = _length_s(axis)
    name, seconds = WINDOWS[window]
    return name if 0 < seconds < length_s else f"0-{span(length_s)}"


def moment(seconds: float) -> str:
    """A time of a step: `1:05`, `1:01:05`."""
    at = clock(seconds)
    return at.removeprefix("00:").removeprefix("0")


def narrower(axis: Axis, window: int) -> int:
    """The next window that shows less than the whole axis; after the last the whole."""
    length_s = _length_s(axis)
    return next((place for place, (_, seconds) in enumerate(WINDOWS) if place > window and seconds < length_s), 0)


def _length_s(axis: Axis) -> float:
    return (axis.end - axis.start) / SECOND_NS


def interval(stall: EventRow, at_ns: int, abreast: Abreast | None = None) -> tuple[float, float]:
    """From where to where a stall lies, up to now while it lasts; of a server beside others in its active time."""
    begin, end = stall.started_ns, until_ns(stall, at_ns)
    return (begin, end) if abreast is None else (abreast.lane.active_at(begin), abreast.lane.active_at(end))
