"""The time axes of a step's charts: the whole step, a part of it, and its stalls. All in ns."""

from math import log

from engine.core.format import clock, span
from engine.journal.rows import EventRow, StepRow
from engine.view.events import until_ns
from engine.view.interleaved_step import InterleavedStep
from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tui.widgets.column_cache import Axis

WINDOWS = (("step", 0), ("10 min", 600), ("60 s", 60))
# The axis of a step whose length is not planned grows in these steps, instead of creeping.
OVER = 1.02  # times the planned length: a step ends somewhat later
LENGTHS_S = (
    10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400, 21600,
    28800, 43200, 57600, 86400, 172800, 604800,
)  # fmt: skip
EARLY_S = 2.0  # the speed over a shorter time predicts nothing
GROWTH = 1.5  # factor between estimates of the length: estimates at every tick would make the axis jitter


def of_step(step: StepRow, at_ns: int, expected_s: float = 0.0) -> Axis:
    """Axis of the whole step: of its planned or estimated length until it has ended."""
    start = step.started_ns
    at = min(at_ns, step.ended_ns or at_ns)
    if step.ended_ns is not None:
        return Axis(start, max(step.ended_ns, start + SECOND_NS), at)
    begun_s, planned_s = (at - start) / SECOND_NS, OVER * step.planned_s
    length_s = planned_s if planned_s >= begun_s else _roomy_s(max(begun_s, expected_s))
    return Axis(start, start + int(length_s * SECOND_NS), at)


def active(servers: InterleavedStep, expected_s: float = 0.0) -> Axis:
    """Axis of the active time of interleaved servers, from 0; `at` is the active time of the server shown."""
    at = servers.lane.active_at(servers.at_ns)
    worked = max(lane.active_ns for lane in servers.slices.lanes)
    if all(side.step.ended_ns is not None for side in servers.sides):
        return Axis(0, max(worked, SECOND_NS), at)
    length_s = servers.planned_s or _roomy_s(max(worked / SECOND_NS, expected_s))
    return Axis(0, max(worked, int(length_s * SECOND_NS)), at)


def of(view: ViewState) -> Axis:
    """Axis of the step that is shown, which must exist."""
    assert view.step is not None
    if view.interleaved is not None:
        return active(view.interleaved, _expected_s(view))
    return of_step(view.step, view.at_ns, _expected_s(view))


def _expected_s(view: ViewState) -> float:
    """Length of the step as last estimated from its speed; 0 without an estimate."""
    series = view.series
    if series is None or not view.fraction or view.fraction >= 1:
        return 0.0
    worked_s = series.worked_s(view.at_ns)
    if worked_s < EARLY_S:
        return 0.0
    estimated_s = EARLY_S * GROWTH ** int(log(worked_s / EARLY_S) / log(GROWTH))
    now, then = (series.done_after(view.primary_role, at_s) for at_s in (worked_s, estimated_s))
    return estimated_s * now / then / view.fraction if now and then else 0.0


def _roomy_s(length_s: float) -> float:
    return next((length for length in LENGTHS_S if length >= length_s), length_s)


def window(axis: Axis, seconds: int) -> Axis:
    """The last `seconds` of an axis, or all of it for 0 and for a shorter step: zooming never shrinks it."""
    if not seconds or _length_s(axis) <= seconds:
        return axis
    end = max(axis.start + seconds * SECOND_NS, axis.at)
    return Axis(end - seconds * SECOND_NS, end, axis.at)


def words(axis: Axis, window: int) -> str:
    """Width of a window: `0-2m00s` for the whole axis, `60 s` for the end of it."""
    length_s = _length_s(axis)
    name, seconds = WINDOWS[window]
    return name if 0 < seconds < length_s else f"0-{span(length_s)}"


def moment(seconds: float) -> str:
    """A time of a step: `1:05`, `1:01:05`."""
    at = clock(seconds)
    return at.removeprefix("00:").removeprefix("0")


def narrower(axis: Axis, window: int) -> int:
    """Index of the next window that shows less than the whole axis; after the last one 0, the whole."""
    length_s = _length_s(axis)
    return next((place for place, (_, seconds) in enumerate(WINDOWS) if place > window and seconds < length_s), 0)


def _length_s(axis: Axis) -> float:
    return (axis.end - axis.start) / SECOND_NS


def interval(
    stall: EventRow, at_ns: int, servers: InterleavedStep | None = None, place: int | None = None
) -> tuple[float, float]:
    """Start and end of a stall (so far, if it lasts); for an interleaved server in its active time."""
    begin, end = stall.started_ns, until_ns(stall, at_ns)
    if servers is None:
        return begin, end
    lane = servers.lane if place is None else servers.slices.lanes[place]
    return lane.active_at(begin), lane.active_at(end)
