"""What a column of the charts says, in exact figures."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from engine.core.format import duration, short
from engine.view.step_series import SECOND_NS
from engine.view.tally import Sort
from engine.view.view_state import UNITS, ViewState
from tui.live.pointer import Pointer, column_of
from tui.marks import Line, Span, line
from tui.widgets import axes
from tui.widgets.chart import Ghost
from tui.widgets.taken import Points
from tui.widgets.wait_strip import most_of


def readout(
    view: ViewState, kind: str, pointer: Pointer, cells: int, ghost: Ghost | None, waits: Mapping[str, Points]
) -> Line:
    """From when the column is, its rate with the least and the greatest, that of the base, the longest, the waits."""
    assert pointer.cross is not None and view.series is not None
    axis, whole = pointer.axis(view), axes.of(view)
    from_, until = column_of(axis, pointer.cross, cells)
    seen = min(until, axis.at)  # of a replay only the base's is drawn beyond
    wide = (until - from_) / SECOND_NS
    of = f" ({wide:.0f} s)" if wide >= 1.5 else ""
    spans: list[Span] = [(f" {axes.moment((from_ - whole.start) / SECOND_NS)}", "cursor"), (of, "dim")]
    if kind == view.primary_role and view.abreast is None and view.series.times.value:  # what the chart shows of it
        return line(*spans, ("  ms ", "dim"), (_range(view.series.times, from_, seen), "strong"))
    unit = view.unit if kind == view.primary_role else UNITS.get(kind, "ops/s")
    if view.abreast is not None:
        for place, side in enumerate(view.abreast.sides):
            own = view.abreast.slices.rates[place] if kind == view.primary_role else side.series.active.get(kind)
            spans.append((f"  {side.name} {_range(own, from_, seen)}", ""))
        return line(*spans, (f" {unit}", "dim"))
    spans += [(f"  {unit} ", "dim"), (_range(view.series.rates.get(kind), from_, seen), "strong")]
    if ghost is not None:
        base = _within(ghost.past, from_, until) or _within(ghost.ahead, from_, until)
        if base:
            spans.append((f"  base {short(_mean(base))}", "base"))
    if longest := _within(view.series.slowest.get(kind), from_, seen):
        spans.append((f"  longest {duration(max(value for _, value in longest) / 1000)}", ""))
    for role, points in waits.items():
        weights: dict[Sort, float] = {}
        for length, found in _within(points, from_, seen):
            every = sum(found.values()) or 1.0
            for event, weight in found.items():
                weights[event] = weights.get(event, 0.0) + length * weight / every
        if weights and (event := most_of(weights)):
            spans.append((f"  {role} {event}", "dim"))
    return line(*spans)


def _range(points: Points | None, from_: float, until: float) -> str:
    """`28.4k (21.0k to 31.2k)`: mean, least and greatest; `no figures`."""
    found = _within(points, from_, until)
    if not found:
        return "no figures"
    values = [value for _, value in found]
    mean = short(_mean(found))
    return mean if len(values) == 1 else f"{mean} ({short(min(values))} to {short(max(values))})"


def _mean(found: list[tuple[float, float]]) -> float:
    return sum(length * value for length, value in found) / sum(length for length, _ in found)


def _within(points: Points | None, from_: float, until: float) -> list[tuple[float, Any]]:
    """The points that held at some time within a column, each with how long within it."""
    if points is None:
        return []
    found = []
    for place in range(bisect_right(points.until, from_), len(points.until)):
        begin = max(from_, points.until[place] - points.length[place])
        if begin >= until:
            break
        found.append((max(1.0, min(until, points.until[place]) - begin), points.value[place]))
    return found
