"""The charts of the Live screen, over one axis of time: rates, stalls, and service times; of cells abreast all their
lines in active time, and the ratio as it closes in.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.journal.reader import EventRow
from engine.view.abreast import Abreast
from engine.view.envelope import columns_of
from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tui.glyphs import Glyphs
from tui.live import text as live_text
from tui.marks import Line
from tui.widgets import abreast as drawing
from tui.widgets import axes
from tui.widgets.axes import WINDOWS
from tui.widgets.chart import Axis, Points
from tui.widgets.lines import Lines
from tui.widgets.ribbon import ribbon
from tui.widgets.scaled import SCALE_CELLS, ScaledChart


class Charts:
    """The widgets, and what they show. Where cells are abreast `sides` and `closing` stand for `rates` and `times`."""

    CSS = """
    LiveScreen #rates, LiveScreen #sides { height: 1fr; min-height: 4; }
    LiveScreen #times { height: 2; }
    LiveScreen #closing { height: 4; }
    LiveScreen #ribbon { height: 1; }
    LiveScreen.-tall #times { height: 4; }
    LiveScreen.-tall #closing { height: 8; }
    LiveScreen #sides, LiveScreen #closing { display: none; }
    LiveScreen.-abreast #sides, LiveScreen.-abreast #closing { display: block; }
    LiveScreen.-abreast #rates, LiveScreen.-abreast #times { display: none; }
    """

    def __init__(self, glyphs: Glyphs, resized: Callable[[], None]) -> None:
        self._glyphs = glyphs
        self.rates = ScaledChart(glyphs, "0", id="rates", chart_id="chart", resized=resized)
        self.times = ScaledChart(glyphs, "max ms", id="times", chart_id="slowest")
        self.sides, self.closing = Lines(id="sides", resized=resized), Lines(id="closing", resized=resized)
        self.ribbon = Lines(id="ribbon")

    def clear(self) -> None:
        """Nothing is known."""
        self.rates.clear()
        self.times.clear()
        for part in (self.sides, self.closing, self.ribbon):
            part.show([])

    def show(self, view: ViewState, kind: str, window: int, chosen: EventRow | None) -> None:
        """Shows a kind of role in a window of the step; the ribbon always shows all of it, and the stall chosen."""
        series = view.series
        if series is None or view.step is None:
            self.clear()
            return
        whole = axes.of(view)
        shown = axes.window(whole, WINDOWS[window][1])
        stalls = [axes.interval(stall, view.at_ns, view.abreast) for stall in view.stalls]
        cursor = whole.at if view.speed is not None else None
        if view.abreast is not None:
            lines = view.abreast.slices.rates if kind == view.headline else _active(view.abreast, kind)
            own = [_own(shown, view.abreast, place) for place in range(len(lines))]
            self.sides.show(_sides(lines, own, shown, stalls, cursor, self.sides, self._glyphs))
            self.closing.show(_closing(view, view.abreast, shown, self.closing, self._glyphs))
        elif kind in series.rates:
            base = view.base_per_s if kind == view.headline else None
            timed = kind == view.headline and bool(series.times.value)
            points = series.times if timed else series.rates[kind]
            self.rates.show(points, shown, stalls, None if timed else base, f"base {view.base}", cursor)
            self.times.show(series.slowest[kind], shown, stalls)
        else:
            self.rates.clear()
            self.times.clear()
        at = axes.interval(chosen, view.at_ns, view.abreast) if chosen is not None else None
        if at is None and cursor is not None:
            at = (cursor, cursor)
        cells = self.ribbon.size.width - SCALE_CELLS
        self.ribbon.show([(("stalls ", "dim"), *ribbon(cells, (whole.start, whole.end), whole.at, stalls, at))])


def _active(abreast: Abreast, kind: str) -> Sequence[Points | None]:
    return [side.series.active.get(kind) for side in abreast.sides]


def _own(axis: Axis, abreast: Abreast, place: int) -> Axis:
    """The axis up to where that side is: after a stall of its own it is ahead of the others."""
    worked_ns = abreast.sides[place].active_s * SECOND_NS
    return replace(axis, at=max(abreast.slices.lanes[place].active_at(abreast.at_ns), worked_ns))


def _sides(
    lines: Sequence[Points | None],
    own: Sequence[Axis],
    axis: Axis,
    stalls: Sequence[tuple[float, float]],
    cursor: float | None,
    part: Lines,
    glyphs: Glyphs,
) -> list[Line]:
    """Every side's line. Stalls and the cursor are those of the side that is looked at."""
    cells, rows = part.size.width - SCALE_CELLS, part.size.height
    if cells <= 0 or rows <= 1:
        return []
    drawn = [drawing.columns(each, to, cells) if each is not None else [] for each, to in zip(lines, own, strict=True)]
    at = columns_of(axis.start, axis.end, cursor, cursor, cells) if cursor is not None else range(0)
    special = dict.fromkeys(at, "cursor")
    for begin, end in stalls:
        special |= dict.fromkeys(columns_of(axis.start, axis.end, begin, end, cells), "stall")
    edges = drawing.limits(drawn)
    return _scaled(drawing.lines(drawn, edges, rows, special, glyphs), drawing.labels(*edges, rows))


def _closing(view: ViewState, abreast: Abreast, axis: Axis, part: Lines, glyphs: Glyphs) -> list[Line]:
    """The ratio in a sentence for each side, as many as there is room for, and the course of the one looked at."""
    said = live_text.sentences(view, part.size.width)
    room = max(1, part.size.height - 3)
    said = said[:room] if len(said) <= room else [each for each in said if each[0][1] == "strong"][:1]
    cells, rows = part.size.width - SCALE_CELLS, (part.size.height - len(said) - 1) // 2 * 2 + 1
    place = abreast.sides.index(abreast.compared)
    if cells <= 0 or rows < 3:
        return said
    course = abreast.slices.courses[place]
    drawn, edge = drawing.closing(course, _own(axis, abreast, place), cells, rows, glyphs)
    return [*said, *_scaled(drawn, drawing.ratio_labels(edge, rows))]


def _scaled(rows: Sequence[Line], labels: dict[int, str]) -> list[Line]:
    return [((f"{labels.get(y, ''):>{SCALE_CELLS - 1}} ", "dim"), *row) for y, row in enumerate(rows)]
