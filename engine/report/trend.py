"""Series of runs as text: a chart of each, and its changes with the builds before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.analysis.series.trend import LevelChange, TrendSeries
from engine.analysis.series.trend_changes import FEWEST
from engine.core.format import three
from engine.report.tables.text_plots import COLUMNS, ROWS, scatter


def lines(series: Sequence[TrendSeries], by: str, *, charts: bool) -> Iterator[str]:
    """A paragraph for each step, under a heading for each kind of measurement."""
    heading = ""
    for trend in series:
        if trend.series != heading:
            if heading:
                yield ""
            heading = trend.series
            yield heading
        yield ""
        values = [point.value for point in trend.points]
        span = f"{three(min(values))} to {three(max(values))}" if len(values) > 1 else three(values[0])
        count = f"{len(values)} point{'s' if len(values) != 1 else ''}"
        yield f"{trend.step}: {trend.unit}, {count} by {by}, {span}"
        if charts and len(values) > 1:
            yield from _chart(trend, values)
        yield from _changes(trend.changes)


def _chart(series: TrendSeries, values: Sequence[float]) -> Iterable[str]:
    """A plot of the points; below, `^` where a new level begins."""
    low, high, last = min(values), max(values), len(values) - 1
    labels = {0: three(high), ROWS - 1: three(low)}
    for y, line in enumerate(scatter(list(enumerate(values)), last, low, high)):
        yield f"{labels.get(y, ''):>8} {line}"
    places = {series.points.index(change.after) for change in series.changes or ()}
    marks = [" "] * COLUMNS
    for place in places:
        marks[round(place / last * (COLUMNS - 1))] = "^"
    if places:
        yield f"{'':8} {''.join(marks).rstrip()}"
    first, latest = series.points[0], series.points[-1]
    yield f"{'':8} {first.build} {first.created[:10]} to {latest.build} {latest.created[:10]}"


def _changes(changes: tuple[LevelChange, ...] | None) -> Iterable[str]:
    if changes is None:
        yield f"  fewer than {FEWEST} points: too few to tell a change from chance"
    elif not changes:
        yield "  no change"
    for change in changes or ():
        before, after = change.before, change.after
        yield f"  {change.ratio - 1:+.1%} (p {change.p:.1g}) between {before.build} and {after.build}"
        yield f"    runs {before.run} and {after.run}"
        if change.bisect:
            yield f"    which commit? {change.bisect}"
