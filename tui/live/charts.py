"""The charts of the Live screen, over one time axis: rates, stalls and service times.

For interleaved builds: the lines of all of them in active time, and the ratio as its bounds narrow. A large terminal
adds a figure of the machine, and waits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from textual.geometry import Offset
from textual.widget import Widget

from engine.core.format import short
from engine.journal.rows import EventRow
from engine.view.envelope import ShareColumns, columns_of
from engine.view.interleaved_step import InterleavedStep
from engine.view.player import Player
from engine.view.step_details import FIGURES, StepDetails
from engine.view.step_series import SECOND_NS, Series
from engine.view.view_state import ViewState
from tui.glyphs import Glyphs
from tui.live import text as live_text
from tui.live.pointer import Pointer
from tui.marks import SIDES, Line, line
from tui.widgets import axes
from tui.widgets import interleaved_chart as drawing
from tui.widgets.axis_row import axis_row, placed
from tui.widgets.chart import Ghost
from tui.widgets.column_cache import Axis, ColumnCache, Points
from tui.widgets.heat_map import heat
from tui.widgets.ribbon import ribbon
from tui.widgets.scaled_chart import SCALE_CELLS, ScaledChart
from tui.widgets.text_lines import Lines
from tui.widgets.wait_strip import legend, strip_of

ROOMY = (110, 38)  # columns, rows from which there is a second chart and the waits
TIMES_ROWS, CLOSING_ROWS = (2, 4), (4, 8)  # in a short or crowded terminal; in a tall one
SECOND_ROWS = (3, 5)


class Charts:
    """The widgets. For interleaved builds `sides` and `closing` replace `rates` and `times`."""

    CSS = (
        f"""
    LiveScreen #times {{ height: {TIMES_ROWS[0]}; }}
    LiveScreen #closing {{ height: {CLOSING_ROWS[0]}; }}
    LiveScreen.-tall #times {{ height: {TIMES_ROWS[1]}; }}
    LiveScreen.-tall #closing {{ height: {CLOSING_ROWS[1]}; }}
    LiveScreen #main.-crowded #times {{ height: {TIMES_ROWS[0]}; }}
    LiveScreen #main.-crowded #closing {{ height: {CLOSING_ROWS[0]}; }}
    LiveScreen #second {{ height: {SECOND_ROWS[0]}; display: none; }}
    LiveScreen.-ample #second {{ height: {SECOND_ROWS[1]}; }}
    """
        """
    LiveScreen #rates, LiveScreen #sides, LiveScreen #heat { height: 1fr; min-height: 4; }
    LiveScreen #axis { height: 1; }
    LiveScreen #ribbon { height: 1; }
    LiveScreen #second_head { height: 1; display: none; }
    LiveScreen #waits { display: none; }
    LiveScreen.-roomy #second, LiveScreen.-roomy #second_head, LiveScreen.-roomy #waits { display: block; }
    LiveScreen #sides, LiveScreen #closing, LiveScreen #heat { display: none; }
    LiveScreen.-interleaved #sides, LiveScreen.-interleaved #closing { display: block; }
    LiveScreen.-interleaved #rates, LiveScreen.-interleaved #times { display: none; }
    LiveScreen.-heat #heat { display: block; }
    LiveScreen.-heat #rates, LiveScreen.-heat #sides { display: none; }
    """
    )

    def __init__(self, glyphs: Glyphs, resized: Callable[[], None]) -> None:
        self._glyphs = glyphs
        self.rates = ScaledChart(glyphs, id="rates", chart_id="chart", resized=resized)
        self.times = ScaledChart(glyphs, id="times", chart_id="slowest", word="max ms", log=True)
        self.second = ScaledChart(glyphs, id="second", chart_id="figure", resized=resized)
        self.sides, self.closing = Lines(id="sides", resized=resized), Lines(id="closing", resized=resized)
        self.heat, self.second_head = Lines(id="heat", resized=resized), Lines(id="second_head")
        self.ribbon, self.axis, self.waits = Lines(id="ribbon"), Lines(id="axis"), Lines(id="waits")
        self.upper = (self.rates, self.sides, self.heat, self.axis, self.ribbon)
        self.lower = (self.times, self.closing, self.second_head, self.second, self.waits)
        self._heat, self._waits = ColumnCache(ShareColumns), _ByRole()
        self._ghost: tuple[tuple[object, ...], Ghost] | None = None
        self.ghost: Ghost | None = None  # the one that is drawn
        self.figure = 0  # index of the machine's figure in the second chart

    def clear(self) -> None:
        for chart in (self.rates, self.times, self.second):
            chart.clear()
        for part in (self.sides, self.closing, self.ribbon, self.axis, self.heat, self.second_head):
            part.show([])
        self.waits.show([])
        self._ghost = self.ghost = None
        self._heat.forget()

    def column_at(self, offset: Offset) -> tuple[Widget, int] | None:
        """The chart at a place of the screen, and its column."""
        for part in (*self.upper, *self.lower):
            if part is not self.second_head and part.display and part.region.contains(*offset):
                x = offset.x - part.region.x - SCALE_CELLS
                return (part, x) if x >= 0 else None
        return None

    @property
    def cells(self) -> int:
        return self.ribbon.size.width - SCALE_CELLS

    def show(
        self, player: Player, view: ViewState, kind: str, pointer: Pointer, chosen: EventRow | None, *, hot: bool
    ) -> None:
        """Show a kind of role in the part that `pointer` selects; on the ribbon the whole step and the chosen stall."""
        series = view.series
        if series is None or view.step is None:
            self.clear()
            return
        full, shown = axes.of(view), pointer.axis(view)
        servers = view.interleaved
        stalls = [axes.interval(stall, view.at_ns, servers) for stall in view.stalls]
        marked = [(*stall, "worse") for stall in stalls] if servers is None else _of_sides(servers, full=False)
        cursor, cross = full.at if view.speed is not None else None, pointer.cross
        self.ghost = None
        if hot:
            self._show_heat(player.details(view), view, kind, shown, _special(shown, self.cells, stalls, cursor, cross))
        elif view.interleaved is not None:
            lines = view.interleaved.rates if kind == view.primary_role else _active(view.interleaved, kind)
            axis_of = [_side_axis(shown, view.interleaved, place) for place in range(len(lines))]
            self.sides.show(_sides(lines, axis_of, shown, marked, (cursor, cross), self.sides, self._glyphs))
        elif kind in series.rates:
            base = view.base_per_s if kind == view.primary_role else None
            self.ghost = ghost = self._ghost_of(player, view, kind, shown)
            self.rates.show(series.rates[kind], shown, stalls, base, f"base {view.base}", cursor, ghost, cross)
        else:
            self.rates.clear()
        if view.interleaved is not None:
            self.closing.show(_closing(view, view.interleaved, shown, self.closing, self._glyphs))
        elif kind in series.slowest:
            self.times.show(series.slowest[kind], shown, stalls, cross=cross)
        else:
            self.times.clear()
        self._show_axis(view, shown, full)
        at = axes.interval(chosen, view.at_ns, view.interleaved) if chosen is not None else None
        if at is None and cursor is not None:
            at = (cursor, cursor)
        recorded = full.at
        if view.speed is not None:  # a recording is known beyond the position of the replay
            recorded = series.newest_ns if view.interleaved is None else view.interleaved.lane.active_ns
            later = (event for event in series.events if event.kind == "stall" and event.started_ns > view.at_ns)
            marked += [(*axes.interval(stall, series.newest_ns), "worse") for stall in later if servers is None]
            marked = _of_sides(servers, full=True) if servers is not None else marked
        row = ribbon(self.cells, (full.start, full.end), recorded, marked, at, signs=self._glyphs.sides)
        self.ribbon.show([(("stalls ", "dim"), *row)])

    def reserve(self, roles: int) -> None:
        """Reserve the rows of the waits of `roles` until those are read."""
        self.waits.show([()] * (roles + 1))

    def show_details(self, details: StepDetails, view: ViewState, pointer: Pointer) -> None:
        if view.series is None or view.step is None:
            return
        shown = pointer.axis(view)
        figures = details.read_figures(place_of(view))
        choices = [figure for figure in FIGURES if figures[figure.name].until] or FIGURES
        figure = choices[self.figure % len(choices)]
        points = figures[figure.name]
        now = points.at(int(shown.at)) if points.until else None
        others = ", ".join(other.name for other in choices if other is not figure)
        words = (f" {figure.name}, {figure.unit} ", ""), (short(now), "strong"), (f"  c: {others}", "dim")
        self.second_head.show([line(*words)])
        self.second.show(points, shown, cross=pointer.cross)
        details.read_waits(view.series.roles, place_of(view))
        rows = self._waits.of(details.waits, shown, self.cells)
        names = [role.name for role in view.roles if role.name in rows] or list(rows)
        special = _special(shown, self.cells, (), None, pointer.cross)
        strips = [
            ((f"{name:<{SCALE_CELLS - 1}} "[:SCALE_CELLS], "dim"), *strip_of(rows[name], special)) for name in names
        ]
        self.waits.show([*strips, line((f"{'waits':<{SCALE_CELLS}}{legend(list(rows.values()))}", "dim"))])

    def _show_heat(
        self, details: StepDetails, view: ViewState, kind: str, axis: Axis, special: Mapping[int, str]
    ) -> None:
        assert view.series is not None
        details.read_services(view.series.roles, place_of(view))
        points, rows = details.services.get(kind), self.heat.size.height
        if points is None or rows < 2 or self.cells <= 0:
            self.heat.show([])
            return
        self.heat.show(_scaled(*heat(self._heat.of(points, axis, self.cells).columns, rows, special, self._glyphs)))

    def _show_axis(self, view: ViewState, shown: Axis, full: Axis) -> None:
        lasting = [placed(event, view.at_ns) for event in view.events if event.kind != "stall"]
        if view.interleaved is not None:
            lane = view.interleaved.lane
            lasting = [(event, lane.active_at(int(begin)), lane.active_at(int(end))) for event, begin, end in lasting]
        row = axis_row(shown, full.start, self.cells, lasting, self._glyphs)
        self.axis.show([((" " * SCALE_CELLS, ""), *row)])

    def _ghost_of(self, player: Player, view: ViewState, kind: str, axis: Axis) -> Ghost | None:
        """The base's curve; the part ahead is computed again only when the present reaches another column."""
        curve = player.ghost(view, kind)
        if curve is None:
            return None
        column = int((axis.at - axis.start) / (axis.end - axis.start) * 2 * max(1, self.cells))
        key = (id(curve), axis.start, axis.end, column)
        if self._ghost is None or self._ghost[0] != key:
            over = view.fraction == 1 and view.speed is None
            self._ghost = (key, Ghost(curve.past, Series() if over else curve.ahead(int(axis.at))))
        return self._ghost[1]


def fixed_rows(roles: int, *, interleaved: bool, tall: bool, roomy: bool, ample: bool) -> int:
    """Rows of the axis, the ribbon and all charts but the rates', which has the rest."""
    lower = (CLOSING_ROWS if interleaved else TIMES_ROWS)[tall]
    return 2 + lower + (1 + SECOND_ROWS[ample] + roles + 1 if roomy else 0)


class _ByRole:
    """Columns of several series by role."""

    def __init__(self) -> None:
        self._caches: dict[str, ColumnCache[ShareColumns]] = {}

    def of(
        self, rows: Mapping[str, Points], axis: Axis, cells: int
    ) -> dict[str, Sequence[Mapping[int | str, float] | None]]:
        return {
            name: self._caches.setdefault(name, ColumnCache(ShareColumns)).of(points, axis, max(0, cells)).columns
            for name, points in rows.items()
        }


def place_of(view: ViewState) -> Callable[[int], tuple[int, float]]:
    """Map the end of a tick to its place on the axis and the share of the tick in which the server worked."""
    series = view.series
    if view.interleaved is None or series is None:
        return lambda t_ns: (t_ns, 1.0)
    return lambda t_ns: (round(series.worked_s(t_ns) * SECOND_NS), series.active_share(t_ns))


def _special(
    axis: Axis, cells: int, stalls: Sequence[tuple[float, float]], cursor: float | None, cross: float | None
) -> dict[int, str]:
    """Marks of columns: stalls, the position of a replay, the column that is read out."""
    special: dict[int, str] = {}
    if cursor is not None:
        special |= dict.fromkeys(columns_of(axis.start, axis.end, cursor, cursor, cells), "cursor")
    for begin, end in stalls:
        special |= dict.fromkeys(columns_of(axis.start, axis.end, begin, end, cells), "stall")
    if cross is not None:
        special |= dict.fromkeys(columns_of(axis.start, axis.end, cross, cross, cells), "cursor")
    return special


def _of_sides(servers: InterleavedStep, *, full: bool) -> list[tuple[float, float, str]]:
    """Stalls of all servers, each in its own active time and with its mark, those of the chosen one last."""
    order = sorted(range(len(servers.sides)), key=lambda place: place == servers.chosen)
    return [
        (*axes.interval(event, side.series.newest_ns if full else servers.at_ns, servers, place), SIDES[place])
        for place, side in ((place, servers.sides[place]) for place in order)
        for event in (side.series.events if full else side.stalls)
        if event.kind == "stall"
    ]


def _active(servers: InterleavedStep, kind: str) -> Sequence[Points | None]:
    return [side.series.active.get(kind) for side in servers.sides]


def _side_axis(axis: Axis, servers: InterleavedStep, place: int) -> Axis:
    """The axis up to that server's own time: after a stall of its own it is ahead of the others."""
    worked_ns = servers.sides[place].active_s * SECOND_NS
    return replace(axis, at=max(servers.slices.lanes[place].active_at(servers.at_ns), worked_ns))


def _sides(
    lines: Sequence[Points | None],
    axis_of: Sequence[Axis],
    axis: Axis,
    stalls: Sequence[tuple[float, float, str]],
    pointed: tuple[float | None, float | None],
    part: Lines,
    glyphs: Glyphs,
) -> list[Line]:
    """Every server's line, each up to its own axis; stalls have the mark of their server."""
    cells, rows = part.size.width - SCALE_CELLS, part.size.height
    if cells <= 0 or rows <= 1:
        return []
    drawn = [
        drawing.columns(points, up_to, cells) if points is not None else []
        for points, up_to in zip(lines, axis_of, strict=True)
    ]
    special = _special(axis, cells, (), *pointed)
    for begin, end, mark in stalls:
        special |= dict.fromkeys(columns_of(axis.start, axis.end, begin, end, cells), mark)
    special |= _special(axis, cells, (), None, pointed[1])
    edges = drawing.limits(drawn)
    return _scaled(drawing.lines(drawn, edges, rows, special, glyphs), drawing.labels(*edges, rows))


def _closing(view: ViewState, servers: InterleavedStep, axis: Axis, part: Lines, glyphs: Glyphs) -> list[Line]:
    """A sentence per build if they fit, else for the one shown; and the course of its ratio."""
    sentences = live_text.sentences(view, part.size.width, glyphs)
    room = max(1, part.size.height - 3)
    if len(sentences) > room:
        sentences = [sentence for sentence in sentences if sentence[0][1] == "strong"][:1]
    cells, rows = part.size.width - SCALE_CELLS, (part.size.height - len(sentences) - 1) // 2 * 2 + 1
    place = servers.sides.index(servers.compared)
    if cells <= 0 or rows < 3:
        return sentences
    course = servers.slices.courses[place]
    drawn, edge = drawing.closing(course, _side_axis(axis, servers, place), cells, rows, glyphs)
    return [*sentences, *_scaled(drawn, drawing.ratio_labels(edge, rows))]


def _scaled(rows: Sequence[Line], labels: dict[int, str]) -> list[Line]:
    return [((f"{labels.get(y, ''):>{SCALE_CELLS - 1}} ", "dim"), *row) for y, row in enumerate(rows)]
