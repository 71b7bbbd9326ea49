"""The figures of one column of the charts."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from engine.core.format import duration, short
from engine.view.envelope import Sort
from engine.view.step_series import SECOND_NS
from engine.view.view_state import UNITS, ViewState
from tui.live.pointer import Pointer, column_of
from tui.marks import Line, Span, line
from tui.widgets import axes
from tui.widgets.chart import Ghost
from tui.widgets.column_cache import Points
from tui.widgets.wait_strip import most_of


def readout(
    view: ViewState, kind: str, pointer: Pointer, cells: int, ghost: Ghost | None, waits: Mapping[str, Points]
) -> Line:
    """Time of the column, mean, least and greatest rate, the base's rate, the longest operation, the waits."""
    assert pointer.cross is not None and view.series is not None
    axis, full = pointer.axis(view), axes.of(view)
    start, end = column_of(axis, pointer.cross, cells)
    known = min(end, axis.at)  # ahead of a replay only the base is drawn
    width_s = (end - start) / SECOND_NS
    of = f" ({width_s:.0f} s)" if width_s >= 1.5 else ""
    spans: list[Span] = [(f" {axes.moment((start - full.start) / SECOND_NS)}", "cursor"), (of, "dim")]
    unit = view.unit if kind == view.primary_role else UNITS.get(kind, "ops/s")
    if view.interleaved is not None:
        for place, side in enumerate(view.interleaved.sides):
            rates = view.interleaved.rates[place] if kind == view.primary_role else side.series.active.get(kind)
            spans.append((f"  {side.name} {_range(rates, start, known)}", ""))
        return line(*spans, (f" {unit}", "dim"))
    spans += [(f"  {unit} ", "dim"), (_range(view.series.rates.get(kind), start, known), "strong")]
    if ghost is not None:
        base = _within(ghost.past, start, end) or _within(ghost.ahead, start, end)
        if base:
            spans.append((f"  base {short(_mean(base))}", "base"))
    if longest := _within(view.series.slowest.get(kind), start, known):
        spans.append((f"  longest {duration(max(value for _, value in longest) / 1000)}", ""))
    for role, points in waits.items():
        weights: dict[Sort, float] = {}
        for length, seconds in _within(points, start, known):
            total = sum(seconds.values()) or 1.0
            for event, weight in seconds.items():
                weights[event] = weights.get(event, 0.0) + length * weight / total
        if weights and (event := most_of(weights)):
            spans.append((f"  {role} {event}", "dim"))
    return line(*spans)


def _range(points: Points | None, start: float, end: float) -> str:
    """`28.4k (21.0k to 31.2k)`: mean, least and greatest; or `no figures`."""
    pieces = _within(points, start, end)
    if not pieces:
        return "no figures"
    values = [value for _, value in pieces]
    mean = short(_mean(pieces))
    return mean if len(values) == 1 else f"{mean} ({short(min(values))} to {short(max(values))})"


def _mean(pieces: list[tuple[float, float]]) -> float:
    return sum(length * value for length, value in pieces) / sum(length for length, _ in pieces)


def _within(points: Points | None, start: float, end: float) -> list[tuple[float, Any]]:
    """The values that overlap a column, each with the length of the overlap."""
    if points is None:
        return []
    pieces = []
    for i in range(bisect_right(points.until, start), len(points.until)):
        begin = max(start, points.until[i] - points.length[i])
        if begin >= end:
            break
        pieces.append((max(1.0, min(end, points.until[i]) - begin), points.value[i]))
    return pieces
