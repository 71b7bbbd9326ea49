"""Live: the step as it runs, or as it ran; the same screen for a run, and for the replay of a recorded cell."""

from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.timer import Timer

from engine.core.errors import UserError
from engine.view.events import incident_words, main_stall
from engine.view.player import Player, legible
from engine.view.view_state import ViewState
from tui.keys import key
from tui.live.charts import ROOMY
from tui.live.painting import Painting
from tui.screens.base import DEMO

PAINT_S = 1.0  # a finer beat costs more than it shows: the engine counts once a second
REPLAY_PAINT_S = 0.25
GLANCE_S = 0.2  # between two looks whether a stall has begun


class LiveScreen(Painting):
    """A run as it is measured, or a cell of it replayed."""

    TITLE_WORD: ClassVar[str] = "LIVE"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("space", "hold", "pause", "live.pause"),
        key("n", "stall(1)", "stall", "live.next_stall", shown="n/N"),
        key("N", "stall(-1)", "stall before", "live.previous_stall", show=False),
        key("enter", "detail", "detail", "live.detail"),
        key("z", "zoom", "zoom", "live.zoom"),
        key("i", "role", "role", "live.role"),
        key("s", "side", "build", "live.build"),
        key("h", "heat", "heat map", "live.heat"),
        key("left", "cross(-1)", "read out", "live.left", shown="left/right"),
        key("right", "cross(1)", "read out what is later", "live.right", show=False),
        key("shift+left", "cross(-10)", "read out, ten columns before", "live.left_far", show=False),
        key("shift+right", "cross(10)", "read out, ten columns later", "live.right_far", show=False),
        key("escape", "let_go", "the whole step, nothing read out", "live.let_go", show=False),
        key("c", "figure", "figure", "live.figure"),
        key("l", "log", "log", "live.log"),
        key("down", "scroll_log('down')", "older events", "live.down", show=False),
        key("up", "scroll_log('up')", "newer events", "live.up", show=False),
        key("pagedown", "scroll_log('page_down')", "a page of older events", "live.page_down", show=False),
        key("pageup", "scroll_log('page_up')", "a page of newer events", "live.page_up", show=False),
        key("home", "scroll_log('home')", "the newest event", "live.first", show=False),
        key("end", "scroll_log('end')", "the oldest event", "live.last", show=False),
        key("m", "mark", "mark", "live.mark"),
        key("left_square_bracket", "seek(-1)", "1 s", "live.back", shown="[ ]"),
        key("right_square_bracket", "seek(1)", "forward 1 s", "live.on", show=False),
        key("left_curly_bracket", "seek(-10)", "back 10 s", "live.back_more", show=False),
        key("right_curly_bracket", "seek(10)", "forward 10 s", "live.on_more", show=False),
        key("comma", "speed(-1)", "speed", "live.slower", shown=", ."),
        key("full_stop", "speed(1)", "faster", "live.faster", show=False),
        key("g", "go", "go to a time", "live.go", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._paint: Timer | None = None
        self._version = -1

    def on_mount(self) -> None:
        self.bench.run_selected.subscribe(self, lambda _: self.watch_run())
        self.set_interval(GLANCE_S, self._glance)
        self._open()
        self.repaint()  # before it is laid out: what is as high as its lines is so from the first paint on
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        self._settled = True
        self._redraw()

    def on_screen_resume(self) -> None:
        """Looks at once at what was chosen meanwhile; while painting is paused, shows what is held."""
        self._open()
        if self._settled:
            self.call_after_refresh(self.repaint if self._held_at is None else self._redraw)

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self._redraw)

    def watch_run(self) -> None:
        """Another run, or another cell of it, was selected."""
        if self.player is not None:
            self.player.close()
        self.player, self.view, self._cursor, self._kind, self._held_at = None, None, None, "", None
        self._trouble = ""
        self.sight.forget()
        self._drawn.clear()
        self._charts.clear()
        for part in (self._head, self._ages, self._roles, self._side):
            part.show([])
        self._events.show(0, 0)
        self.repaint()

    def _open(self) -> None:
        if self.player is not None or self.context.run is None:
            return
        cell, step = self.context.replayed or (None, None)
        try:
            self.player = Player(self.context.run, self.context.clock, cell, step)
        except UserError as error:
            self._show_error(str(error))
        self._beat()

    def _beat(self) -> None:
        if self._paint is not None:
            self._paint.stop()
        replay = self._replayed is not None
        self._offer(abreast=False)
        self._paint = self.set_interval(REPLAY_PAINT_S if replay else PAINT_S, self._tick)

    def _tick(self) -> None:
        still = self._replayed is not None and not self._replayed.playing
        if self.is_current and self._held_at is None and not still:
            self.repaint()
        elif self.is_current and (view := self.view) is not None:
            self._try(lambda: self._redraw_head(view))

    def _glance(self) -> None:
        """Shows a stall when it begins and when it ends, not at the next beat."""
        player, view = self.player, self.view
        if not self.is_current or player is None or player.replay or view is None or view.series is None:
            return
        try:
            with legible(player.run):
                version = player.reader.version()
                if version == self._version:
                    return
                self._version = version
                of = [side.series for side in view.abreast.sides] if view.abreast is not None else [view.series]
                changed = [] if self._held_at is not None else [each for each in of if each.catch_up_events()]
        except UserError:
            return  # the next beat says it
        if changed:
            self.repaint()

    def repaint(self) -> None:
        """Looks, and shows what there is to see."""
        self._open()
        player = self.player
        if player is not None:
            self._try(lambda: self._take(player.look()))
        elif self.context.run is None:
            self._show_error("No run selected: start one in Launch (1), or choose one in History (5)" + DEMO)

    def _take(self, view: ViewState) -> None:
        if self.view is None or self.view.step is None or view.step is None:
            self._kind = ""
            self.sight.forget()
        elif view.step.id != self.view.step.id:
            self._kind, self._cursor = self._kind if view.step.name == self.view.step.name else "", None
            self.sight.part = self.sight.cross = None
        self.view = view = replace(view, stopping=self.context.stopping == self.context.run)
        self.context.position = (view.step.id, view.at_ns) if view.step is not None else None
        self._offer(abreast=view.abreast is not None)
        self.hint("finished: 3 compares" if view.state == "finished" else "")
        self._cost.measure()
        self._trouble = ""
        self._show(view)

    def _redraw(self) -> None:
        """Shows the same moment again: its size, its window or its role is another."""
        self._offer(abreast=self.has_class("-abreast"))
        if self._trouble:
            self._show_error(self._trouble)
        elif (view := self.view) is not None:
            self._try(lambda: self._show(view))

    # Keys

    def action_hold(self) -> None:
        """Live: stops painting, recording continues. In a replay: stops, or plays."""
        if self._replayed is not None:
            self._replayed.pause(not self._replayed.playing)
        else:
            self._held_at = self.context.clock.monotonic_ns() / 1e9 if self._held_at is None else None
        if self._held_at is None:
            self.repaint()
        elif (view := self.view) is not None:
            self._try(lambda: self._redraw_head(view))

    def action_stall(self, by: int) -> None:
        """The next stall, or the one before; a replay goes there."""
        if self._replayed is not None:
            self._seek_stall(by)
        else:
            self._try(lambda: self._choose_stall(by))

    def _choose_stall(self, by: int) -> None:
        if self.view is None or not (found := self.view.incidents):
            self.notify_line("no stall in this step so far")
            return
        places = [place for place, incident in enumerate(found) if self._cursor in {stall.id for stall in incident}]
        place = (places[0] + by if places else 0 if by > 0 else -1) % len(found)
        self._cursor = main_stall(found[place]).id
        self.notify_line(f"{place + 1}/{len(found)} {incident_words(found[place], self.view.at_ns)}")
        self._redraw()

    def action_detail(self) -> None:
        """The stall that was chosen, or the last one: what everything did around it."""
        self._detail_of(self._chosen_stall)

    def action_heat(self) -> None:
        """How long operations took, in place of how many there were; and back."""
        self.toggle_class("-heat")
        self.call_after_refresh(self._redraw)

    def action_figure(self) -> None:
        """The next figure of the machine in the second chart."""
        if not self.has_class("-roomy"):
            self.notify_line(f"the second chart needs {ROOMY[0]} columns and {ROOMY[1]} rows")
            return
        self._charts.figure += 1
        self._redraw()

    def action_role(self) -> None:
        if self.view is None or self.view.series is None or not self.view.series.rates:
            self.notify_line("no role has done anything yet")
            return
        kinds = sorted(self.view.series.rates)
        shown = self._shown_kind(self.view)
        self._kind = kinds[(kinds.index(shown) + 1) % len(kinds)] if shown in kinds else kinds[0]
        if len(kinds) == 1:
            self.notify_line(f"{kinds[0]} is the only role of this step")
        self._redraw()

    def action_side(self) -> None:
        """The next of the builds that are driven side by side: its roles, stalls and events."""
        player, view = self.player, self.view
        if player is None or view is None or view.abreast is None:
            self.notify_line("no build is driven beside this one now")
            return
        self._try(lambda: player.other_side(view))
        if self._held_at is None:
            self.repaint()
        else:
            self.notify_line("painting is paused: the other build is shown when it goes on")

    def action_mark(self) -> None:
        from tui.screens.over import LineScreen

        run = self.context.run
        if run is None or self.view is None or self.view.state != "running":
            self.notify_line("a marker can only be added to a running run", "warning")
            return

        def put(text: str) -> None:
            self.bench.ask_bench(("mark", "--", text, str(run)), "adding the marker")

        self.bench.ask_user(LineScreen("Marker for this moment:"), put)
