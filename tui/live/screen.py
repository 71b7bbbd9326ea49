"""Live: the step as it runs or ran; the same screen for a run and for the replay of a recorded cell.

It has a `Playback` (the moment shown), a `Pointer` (zoom and readout) and a `Painter` (the parts and their drawing);
here are the keys, clicks and timers that act on them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.timer import Timer
from textual.widget import Widget

from engine.core.errors import UserError
from engine.core.format import seconds_of
from engine.journal.rows import EventRow
from engine.view.events import incident_words
from engine.view.player import Player, legible
from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tui.live import text as live_text
from tui.live.bindings import BINDINGS
from tui.live.charts import ROOMY
from tui.live.layout import LiveLayout
from tui.live.mouse import Mouse
from tui.live.painter import Painter
from tui.live.playback import NO_STALL, Playback
from tui.live.pointer import Pointer
from tui.marks import Line, folded, line
from tui.screens.bench_screen import DEMO, BenchScreen
from tui.widgets import axes
from tui.widgets.key_row import KeyRow
from tui.widgets.row_list import Rows

PAINT_S = 1.0  # the engine counts once a second, so painting more often costs more than it shows
REPLAY_PAINT_S = 0.25
GLANCE_S = 0.2  # interval of checks whether a stall has begun
WHEEL = 0.5  # share of the visible part for one turn of the wheel


class LiveScreen(BenchScreen):
    TITLE_WORD: ClassVar[str] = "LIVE"
    DEFAULT_CSS = Painter.CSS
    BINDINGS: ClassVar[list[Binding]] = BINDINGS  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.pointer = Pointer()
        self._trouble = ""  # why nothing new is shown
        self._paint: Timer | None = None

    def parts(self) -> Sequence[Widget]:
        self.playback = Playback(self.context.clock)
        self.painter = Painter(self.glyphs, self.playback, self.pointer, self.redraw)
        self.mouse = Mouse(self.painter.charts, self.pointer, self.playback, self._seek)
        return self.painter.parts()

    @property
    def player(self) -> Player | None:
        return self.playback.player

    @property
    def view(self) -> ViewState | None:
        return self.playback.view

    def on_mount(self) -> None:
        self.bench.run_selected.subscribe(self, lambda _: self.watch_run())
        self.set_interval(GLANCE_S, self.glance)
        self._open()
        self.repaint()  # before the layout, so that parts as high as their lines have that height in the first paint
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        self.painter.settled = True
        self.redraw()

    def on_screen_resume(self) -> None:
        """Show a new selection at once; while painting is paused, the same moment again."""
        self._open()
        if self.painter.settled:
            self.call_after_refresh(self.redraw if self.playback.held else self.repaint)

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self.redraw)

    # The run

    def watch_run(self) -> None:
        self.playback.close()
        self._trouble = ""
        self.pointer.forget()
        self.painter.clear()
        self.repaint()

    def _open(self) -> None:
        if self.player is not None or self.context.run is None:
            return
        try:
            self.playback.open(self.context.run, *(self.context.replayed or (None, None)))
        except UserError as error:
            self._show_error(str(error))
        self._lay_out(interleaved=False)
        if self._paint is not None:
            self._paint.stop()
        self._paint = self.set_interval(REPLAY_PAINT_S if self.playback.replay else PAINT_S, self.tick)

    def tick(self) -> None:
        if not self.is_current:
            return
        if self.playback.held or self.playback.at_rest:
            self._redraw_head()
        else:
            self.repaint()

    def glance(self) -> None:
        """Show a stall as soon as it begins or ends, instead of at the next tick."""
        try:
            changed = self.is_current and self.playback.stalls_changed()
        except UserError:
            return  # the next tick shows it
        if changed:
            self.repaint()

    def repaint(self) -> None:
        self._open()
        player = self.player
        if player is not None:
            self._try(lambda: self.show(player.look()))
        elif self.context.run is None:
            self._show_error("No run selected: start one in Launch (1), or choose one in History (5)" + DEMO)

    def show(self, view: ViewState) -> None:
        if view.state not in ("running", "replay") and self.context.stopping == self.context.run:
            self.context.stopping = None  # it may be resumed
        view = replace(view, stopping=self.context.stopping == self.context.run)
        self.pointer.follow(self.view, view)
        self.playback.show(view)
        self.context.position = (view.step.id, view.at_ns) if view.step is not None else None
        self.hint({"finished": "finished: 3 compares", "stopped": "r on Launch (1) resumes"}.get(view.state, ""))
        self._trouble = ""
        self._draw(self._lay_out(interleaved=view.interleaved is not None))

    def redraw(self) -> None:
        """Show the same moment in another size, another window or for another role."""
        layout = self._lay_out(interleaved=self.has_class("-interleaved"))
        if self._trouble:
            self._show_error(self._trouble)
        elif self.view is not None:
            self._try(lambda: self._draw(layout))

    def _draw(self, layout: LiveLayout) -> None:
        if self.has_class("-small"):
            self.refresh_small()
        elif self.player is not None and self.view is not None:
            self.painter.paint(self.player, self.view, layout)

    def _redraw_head(self) -> None:
        player, view = self.player, self.view
        if player is None or view is None or self._trouble:
            return
        self._try(lambda: self.painter.paint_head(player, view, self.app.size.width))
        self.refresh_small()

    def _lay_out(self, *, interleaved: bool) -> LiveLayout:
        """Lay the screen out for one cell or interleaved ones, with the keys that matter then."""
        log, heat = self.has_class("-log"), self.has_class("-heat")
        layout = LiveLayout(*self.app.size, interleaved=interleaved, log=log, heat=heat)
        for name, holds in layout.classes.items():
            self.set_class(holds, name)
        self.painter.lay_out(layout)
        self.query_one(KeyRow).hide(*layout.hidden_keys(replay=self.playback.replay is not None))
        return layout

    def small(self) -> Sequence[Line]:
        if self._trouble:
            return self._trouble_lines()
        if self.view is None:
            return [line("No run selected")]
        return live_text.small(self.view, self.app.size.width, self.playback.behind_s)

    def _try(self, act: Callable[[], object]) -> None:
        """Call what reads the record, and show its error in a line."""
        try:
            with legible(self.context.run or self.context.out):
                act()
        except UserError as error:
            self._show_error(str(error))

    def _show_error(self, text: str) -> None:
        self._trouble = text
        self.painter.show_head([line((f" {self.TITLE_WORD} ", "title")), *self._trouble_lines()])
        self.refresh_small()

    def _trouble_lines(self) -> list[Line]:
        return folded(self._trouble, self.app.size.width, "warning")

    # Keys: time

    def action_hold(self) -> None:
        """Pause painting while recording continues, or pause a replay; or continue."""
        self.playback.hold()
        if self.playback.held:
            self._redraw_head()
        else:
            self.repaint()

    def _move(self, how: Callable[[Player], object]) -> None:
        player = self.playback.replay
        if player is None:
            self.notify_line("this is live: replay a cell from History (5)")
            return
        self.notify_line("")  # drops a notice about the old place
        self._try(lambda: how(player))
        self.repaint()

    def _seek(self, t_ns: float) -> None:
        self._move(lambda player: player.seek(int(t_ns)))

    def action_seek(self, seconds: int) -> None:
        self._move(lambda player: player.seek(player.position_ns + seconds * SECOND_NS))

    def action_speed(self, by: int) -> None:
        self._move(lambda player: player.faster(by))

    def action_go(self) -> None:
        from tui.screens.dialogs import LineScreen

        if self.playback.replay is None or self.view is None or self.view.step is None:
            self._move(lambda _: None)
            return
        start_ns = self.view.step.started_ns

        def go(text: str) -> None:
            try:
                t_ns = start_ns + int(seconds_of(text) * SECOND_NS)
            except (ValueError, OverflowError):
                self.notify_line(f"{text}: give seconds, mm:ss or hh:mm:ss", "warning")
            else:
                self._seek(t_ns)

        self.bench.ask_user(LineScreen("Go to a time of the step (seconds, mm:ss or hh:mm:ss):"), go)

    # Keys: stalls

    def action_stall(self, by: int) -> None:
        """Choose the next or previous stall; a replay goes there."""

        def seek(player: Player) -> None:
            incident = player.seek_stall(by)
            if incident is None:
                self.notify_line("no later stall" if by > 0 else "no earlier stall")
            else:
                self.notify_line(incident_words(incident, player.position_ns))

        if self.playback.replay is not None:
            self._move(seek)
        else:
            self._try(lambda: self._heed(self.playback.next_stall(by)))

    def action_detail(self) -> None:
        """Open the stall that was chosen, or the last one: what everything did around it."""
        self._open_detail(self.playback.stall_or_last)

    def _open_detail(self, stall: EventRow | None) -> None:
        from tui.live.stall_screen import StallScreen

        if self.player is None or self.view is None or stall is None:
            self.notify_line(NO_STALL)
            return
        self.app.push_screen(StallScreen(self.player, self.view, stall))

    # Keys that change the display

    def action_heat(self) -> None:
        """Toggle between how long operations took and how many there were."""
        self.toggle_class("-heat")
        self.call_after_refresh(self.redraw)

    def action_log(self) -> None:
        """Toggle between the log and the charts and tables."""
        self.toggle_class("-log")
        self.call_after_refresh(self.redraw)

    def action_scroll_log(self, how: str) -> None:
        getattr(self.painter.log, f"scroll_{how}")(animate=False)

    def action_figure(self) -> None:
        if not self.has_class("-roomy"):
            self.notify_line(f"the second chart needs {ROOMY[0]} columns and {ROOMY[1]} rows")
            return
        self.painter.charts.figure += 1
        self.redraw()

    def action_role(self) -> None:
        self._heed(self.playback.next_role())

    def action_side(self) -> None:
        """Show the roles, stalls and events of the next interleaved build."""
        player, view = self.player, self.view
        if player is None or view is None or view.interleaved is None:
            self.notify_line("no build is interleaved with this one now")
            return
        self._try(lambda: player.other_side(view))
        if self.playback.held:
            self.notify_line("painting is paused: the other build is shown when it continues")
        else:
            self.repaint()

    def action_mark(self) -> None:
        from tui.screens.dialogs import LineScreen

        run, ask = self.context.run, self.bench.ask_bench
        if run is None or self.view is None or self.view.state != "running":
            self.notify_line("a marker can only be added to a running run", "warning")
            return
        put = lambda text: ask(("mark", "--", text, str(run)), "adding the marker")  # noqa: E731
        self.bench.ask_user(LineScreen("Marker for this moment:"), put)

    # The pointer

    def _heed(self, notice: str | None) -> None:
        """Repaint after a change, with a notice if there is one; None: nothing has changed."""
        if notice:
            self.notify_line(notice)
        if notice is not None:
            self.redraw()

    def action_zoom(self) -> None:
        """Cycle through ten minutes, one minute and the whole step; from a part, return to the whole."""
        self._heed(self.pointer.zoom_next(self.view))

    def action_cross(self, by: int) -> None:
        """Read out a column: the newest, then its neighbours."""
        self._heed(self.pointer.move(self.view, self.painter.charts.cells, by))

    def action_let_go(self) -> None:
        if self.has_class("-log"):
            self.action_log()
        elif self.pointer.at_rest:
            self.notify_line("the whole step is shown, and nothing read out")
        self.pointer.forget()
        self.redraw()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._heed(self.mouse.move(event.screen_offset))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.mouse.press(event.screen_offset)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._heed(self.mouse.release(event.screen_offset))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._heed(self.mouse.wheel(event.screen_offset, WHEEL))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._heed(self.mouse.wheel(event.screen_offset, 1 / WHEEL))

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        """Show an event of the log on the charts, choosing it if it is a stall; a second click opens its detail."""
        log = self.playback.log
        if event.place >= len(log) or self.view is None:
            return
        clicked = log[event.place]
        if clicked.kind == "stall":
            self.playback.choose_stall(clicked)
            if event.twice:
                self._open_detail(clicked)
                return
        self.pointer.point(axes.interval(clicked, self.view.at_ns, self.view.interleaved)[0])
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        if self.view is not None and (role := self.painter.role_at(self.view, event.screen_offset)):
            self.playback.choose_role(role)
            self.redraw()
