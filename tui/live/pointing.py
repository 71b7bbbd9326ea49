"""What is pointed at on the Live screen: a column of the charts that is read out, a part that is zoomed to, the log."""

from collections.abc import Sequence

from textual import events
from textual.widget import Widget

from engine.journal.rows import EventRow
from engine.view.events import main_stall
from engine.view.step_series import SECOND_NS
from tui.live.replaying import Replaying
from tui.live.sight import Sight, moment_of
from tui.screens.base import Jump
from tui.widgets import axes
from tui.widgets.axes import WINDOWS
from tui.widgets.rows import Rows
from tui.widgets.scaled import SCALE_CELLS

AROUND_NS = 30 * SECOND_NS  # what is shown about a moment that was clicked on the ribbon
WHEEL = 0.5  # of what is shown, when the wheel turns once


class Pointing(Replaying):
    """By keys and by the mouse."""

    def __init__(self) -> None:
        super().__init__()
        self._pressed: tuple[Widget, int] | None = None  # where the mouse's button went down
        self._hovers = False  # what is read out is where the mouse is

    # Keys

    def action_zoom(self) -> None:
        """The whole step, the last ten minutes, the last minute; from a part of it back to the whole."""
        if self.view is None or self.view.step is None:
            self.notify_line("no step has started yet")
            return
        if not self.sight.narrower(self.view):
            self.notify_line(f"the whole step is no longer than {WINDOWS[-1][0]}")
        self._redraw()

    def action_cross(self, by: int) -> None:
        """Reads out a column: the newest, then those beside it."""
        if self.view is None or self.view.step is None:
            self.notify_line("no step has started yet")
            return
        self._hovers = False
        if not self.sight.move(self.view, self._charts.cells, by):
            self.notify_line(f"nothing {'earlier' if by < 0 else 'later'} is shown; esc reads out nothing")
        self._redraw()

    def action_let_go(self) -> None:
        if self.has_class("-log"):
            self.action_log()
        elif self.sight == Sight():
            self.notify_line("the whole step is shown, and nothing read out")
        self.sight.forget()
        self._redraw()

    def action_log(self) -> None:
        """The log in place of charts and tables, and back."""
        self.toggle_class("-log")
        self.call_after_refresh(self._redraw)

    def action_scroll_log(self, how: str) -> None:
        getattr(self._events, f"scroll_{how}")(animate=False)

    def jumps(self) -> list[Jump]:
        """To a part and what is done there: a column is read out, the last stall is chosen, the log is opened."""
        charts = self._charts
        chart = next(part for part in (charts.heat, charts.sides, charts.rates) if part.display or part is charts.rates)
        places = (
            ("c", chart, lambda: self.action_cross(0)),
            ("r", charts.ribbon, lambda: self.action_stall(-1)),
            ("e", self._events, self.action_log),
        )
        return [Jump(letter, part.region.x, part.region.y, go) for letter, part, go in places if part.region.height]

    # The mouse

    def _chart_at(self, event: events.MouseEvent) -> tuple[Widget, int] | None:
        """The chart under the mouse, and its column."""
        charts = self._charts
        scaled = (charts.rates, charts.times, charts.second, charts.sides, charts.closing, charts.heat, charts.waits)
        for part in (*scaled, charts.axis, charts.ribbon):
            if part.display and part.region.contains(*event.screen_offset):
                x = int(event.screen_x) - part.region.x - SCALE_CELLS
                return (part, x) if x >= 0 else None
        return None

    def _moment(self, x: int) -> float | None:
        if self.view is None or self.view.step is None:
            return None
        return moment_of(self.sight.axis(self.view), self._charts.cells, x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Reads out what the mouse is over."""
        found = self._chart_at(event)
        if found is None or found[0] is self._charts.ribbon:
            if self._hovers:
                self.sight.cross, self._hovers = None, False
                self._redraw()
            return
        moment = self._moment(found[1])
        if moment is not None and moment != self.sight.cross:
            self.sight.cross, self._hovers = moment, True
            self._redraw()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed = self._chart_at(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """After a drag over a chart shows the part between."""
        pressed, self._pressed = self._pressed, None
        found = self._chart_at(event)
        if pressed is None or found is None or pressed[0] is not found[0] or self.view is None:
            return
        if pressed[1] == found[1]:
            if found[0] is self._charts.ribbon:
                self._ribbon_clicked(found[1])
            return
        if found[0] is self._charts.ribbon:
            whole = axes.of(self.view)
            ends = [moment_of(whole, self._charts.cells, x) for x in (pressed[1], found[1])]
        else:
            axis = self.sight.axis(self.view)
            ends = [moment_of(axis, self._charts.cells, x) for x in (pressed[1], found[1])]
        if not self.sight.zoom(self.view, *ends):
            self.notify_line("that is too short to zoom to")
        self.sight.cross = None
        self._redraw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1 / WHEEL)

    def _wheel(self, event: events.MouseEvent, factor: float) -> None:
        """Shows less about the column under the mouse, or more."""
        found = self._chart_at(event)
        if found is None or self.view is None or (moment := self._moment(found[1])) is None:
            return
        axis, whole = self.sight.axis(self.view), axes.of(self.view)
        start, end = (moment + (edge - moment) * factor for edge in (axis.start, axis.end))
        if start <= whole.start and end >= whole.end:
            self.sight.forget()
        else:
            self.sight.zoom(self.view, start, end)
        self._redraw()

    def _ribbon_clicked(self, x: int) -> None:
        """Chooses the stall there; else goes there in a replay, and live shows the part about it."""
        view = self.view
        assert view is not None
        whole = axes.of(view)
        at, width = moment_of(whole, self._charts.cells, x), (whole.end - whole.start) / max(1, self._charts.cells)
        for incident in view.incidents:
            spans = [axes.interval(stall, view.at_ns, view.abreast) for stall in incident]
            if min(span[0] for span in spans) - width <= at <= max(span[1] for span in spans) + width:
                self._cursor = main_stall(incident).id
                self._redraw()
                return
        if self._replayed is not None and view.abreast is None:
            self._move(lambda player: player.seek(int(at)))
        elif self.sight.zoom(view, at - AROUND_NS, at + AROUND_NS):
            self._redraw()

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        """An event of the log: chosen, where it is a stall, and shown on the charts; clicked twice, its detail."""
        logged = self._logged()
        if event.place >= len(logged) or self.view is None:
            return
        found = logged[event.place]
        if found.kind == "stall":
            self._cursor = found.id
            if event.twice:
                self._detail_of(found)
                return
        self.sight.cross = axes.interval(found, self.view.at_ns, self.view.abreast)[0]
        self._hovers = False
        self._redraw()

    def _logged(self) -> Sequence[EventRow]:
        """The events of the log, the newest first."""
        return tuple(reversed(self.view.events)) if self.view is not None else ()

    def on_click(self, event: events.Click) -> None:
        """A row of the table of roles: the chart shows that role."""
        region = self._roles.region
        if self.view is None or not region.contains(*event.screen_offset):
            return
        place = int(event.screen_y) - region.y - 1
        roles = self.view.roles
        if self.view.series is not None and 0 <= place < len(roles):
            kinds = {role.name: role.kind for role in self.view.series.roles.values()}
            self._kind = kinds.get(roles[place].name, self._kind)
            self._redraw()
