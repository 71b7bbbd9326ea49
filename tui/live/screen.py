"""Live: the step as it runs, or as it ran; the same screen for a run, and for the replay of a recorded cell."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget

from engine.core.errors import UserError
from engine.core.format import seconds_of
from engine.journal.reader import EventRow
from engine.view.events import incident_words, main_stall
from engine.view.player import Player, legible
from engine.view.step_series import SECOND_NS
from engine.view.view_state import ViewState
from tui.keys import key
from tui.live import probe_words
from tui.live import text as live_text
from tui.live.charts import Charts
from tui.live.cost import Cost
from tui.marks import Line, folded, line
from tui.screens.base import TALL_ROWS, WIDE_COLUMNS, BenchScreen
from tui.widgets import axes
from tui.widgets.axes import WINDOWS
from tui.widgets.key_row import KeyRow
from tui.widgets.lines import Lines

PAINT_S = 1.0  # a finer beat costs more than it shows: the engine counts once a second
REPLAY_PAINT_S = 0.25
GLANCE_S = 0.2  # between two looks whether a stall has begun
EVENTS_MOST = 8  # that are shown at once
# What the last row leaves out: always, and on a narrow screen, where further keys hold that have no room.
LIVE_ONLY, REPLAY_ONLY, ABREAST_ONLY = ("live.mark",), ("live.back", "live.slower"), ("live.build",)
LESS_IN_REPLAY, LESS_ABREAST = ("live.zoom", "live.role"), ("live.zoom", "live.slower")


class LiveScreen(BenchScreen):
    """A run as it is measured, or a cell of it replayed."""

    TITLE_WORD: ClassVar[str] = "LIVE"
    JUMPS: ClassVar[dict[str, str]] = {"chart": "c", "sides": "c", "ribbon": "r", "events": "e"}
    DEFAULT_CSS = (
        Charts.CSS
        + """
    LiveScreen #middle { height: 1fr; }
    LiveScreen #main { width: 1fr; }
    LiveScreen #side { display: none; width: 44; padding: 0 1; height: 1fr; }
    LiveScreen.-wide #side { display: block; }
    LiveScreen #events { height: 3; }
    LiveScreen.-abreast #events { height: 2; }
    LiveScreen.-tall #events { height: 8; }
    """
    )
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("space", "hold", "pause", "live.pause"),
        key("n", "stall(1)", "stall", "live.next_stall", shown="n/N"),
        key("N", "stall(-1)", "stall before", "live.previous_stall", show=False),
        key("enter", "detail", "detail", "live.detail"),
        key("z", "zoom", "zoom", "live.zoom"),
        key("i", "role", "role", "live.role"),
        key("s", "side", "build", "live.build"),
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
        self.player: Player | None = None
        self.view: ViewState | None = None
        self._window = 0
        self._kind = ""  # of role that the chart shows; empty: the step's own
        self._cursor: int | None = None  # id of the stall that n and N stand on
        self._held_at: float | None = None  # clock reading at which painting was paused
        self._paint: Timer | None = None
        self._version = -1
        self._cost = Cost()
        self._trouble = ""  # why nothing new is shown

    def parts(self) -> Sequence[Widget]:
        self._charts = charts = Charts(self.glyphs, self._redraw)
        self._head, self._ages = Lines(id="head"), Lines(id="ages")
        self._roles, self._events, self._side = Lines(id="roles"), Lines(id="events"), Lines(id="side")
        upper, lower = (charts.rates, charts.sides, charts.ribbon), (charts.times, charts.closing)
        main = Vertical(self._head, *upper, self._ages, *lower, self._roles, self._events, id="main")
        for part in (charts.rates.chart, charts.sides, charts.ribbon, self._events):
            part.can_focus = True
        return [Horizontal(main, self._side, id="middle")]

    def on_mount(self) -> None:
        self.bench.run_selected.subscribe(self, lambda _: self.watch_run())
        self.set_interval(GLANCE_S, self._glance)
        self._beat()

    def on_screen_resume(self) -> None:
        """Looks at once at what was chosen meanwhile; while painting is paused, shows what is held."""
        self._open()
        self.call_after_refresh(self.repaint if self._held_at is None else self._redraw)

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self._redraw)

    def watch_run(self) -> None:
        """Another run, or another cell of it, was selected."""
        if self.player is not None:
            self.player.close()
        self.player, self.view, self._cursor, self._kind, self._held_at = None, None, None, "", None
        self._trouble = ""
        self._charts.clear()
        for part in (self._head, self._ages, self._roles, self._events, self._side):
            part.show([])
        self.repaint()

    @property
    def _replayed(self) -> Player | None:
        """The player, where what it plays is recorded."""
        return self.player if self.player is not None and self.player.replay else None

    @property
    def _stalls(self) -> Sequence[EventRow]:
        return self.view.stalls if self.view is not None else ()

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

    def _offer(self, *, abreast: bool) -> None:
        """Lays the screen out for cells abreast, or one by itself, with the keys that matter then."""
        self.set_class(abreast, "-abreast")
        replay = self._replayed is not None
        hidden = {*(LIVE_ONLY if replay else REPLAY_ONLY), *(() if abreast else ABREAST_ONLY)}
        if self.size.width < WIDE_COLUMNS:
            hidden |= {*(LESS_IN_REPLAY if replay else ()), *(LESS_ABREAST if abreast else ())}
        self.query_one(KeyRow).hide(*sorted(hidden))

    def _tick(self) -> None:
        still = self._replayed is not None and not self._replayed.playing
        if self.is_current and self._held_at is None and not still:
            self.repaint()
        elif self.is_current and self.view is not None:
            self._redraw_head(self.view)

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
            self._show_error("No run selected: start one in Launch (1), or choose one in History (5)")

    def _try(self, act: Callable[[], object]) -> None:
        """Does what reads the record; where that cannot be understood, says so in a line."""
        try:
            with legible(self.context.run or self.context.out):
                act()
        except UserError as error:
            self._show_error(str(error))

    def _take(self, view: ViewState) -> None:
        if self.view is None or self.view.step is None or view.step is None:
            self._kind = ""
        elif view.step.id != self.view.step.id:
            self._kind, self._cursor = self._kind if view.step.name == self.view.step.name else "", None
        self.view = view
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

    def small(self) -> Sequence[Line]:
        if self._trouble:
            return self._error_lines()
        return live_text.small(self.view, self._behind_s()) if self.view else [line("No run selected")]

    def _show_error(self, text: str) -> None:
        self._trouble = text
        self._head.show([line((f" {self.TITLE_WORD} ", "title")), *self._error_lines()])
        self.refresh_small()

    def _error_lines(self) -> list[Line]:
        return folded(self._trouble, self.size.width, "warning")

    def _show(self, view: ViewState) -> None:
        if self.has_class("-small"):
            self.refresh_small()
            return
        self._show_head(view)
        self._ages.show([live_text.ages(view)])
        probes = probe_words.rows(view.frames, [role.name for role in view.roles])
        if self.size.height < TALL_ROWS:
            probes = probes[:2]
        self._roles.show([*live_text.role_table(view, self.size.width), *probes, live_text.states(view)])
        self._events.show(live_text.event_log(view, EVENTS_MOST))
        if self.size.width >= WIDE_COLUMNS and self.player is not None:
            self._side.show(live_text.side(view, live_text.environment(self.player.manifest)))
        self._charts.show(view, self._shown_kind(view), self._window, self._chosen_stall)

    def _behind_s(self) -> float | None:
        """How long painting has been paused; None while it is not."""
        return None if self._held_at is None else self.context.clock.monotonic_ns() / 1e9 - self._held_at

    def _redraw_head(self, view: ViewState) -> None:
        if not self._trouble:
            self._show_head(view)
            self.refresh_small()

    def _show_head(self, view: ViewState) -> None:
        percent = self._cost.percent if self.context.show_cost else None
        window = axes.words(axes.of(view), self._window) if view.step is not None else ""
        legend = partial(live_text.legend, glyphs=self.glyphs, columns=self._head.size.width or self.size.width)
        self._head.show(
            [
                live_text.title(view),
                live_text.progress(view, self.glyphs, self._behind_s(), percent),
                (legend if view.abreast is not None else live_text.rates)(view, self._shown_kind(view), window),
            ]
        )

    def _shown_kind(self, view: ViewState) -> str:
        return self._kind or view.headline

    @property
    def _chosen_stall(self) -> EventRow | None:
        return next((stall for stall in self._stalls if stall.id == self._cursor), None)

    # Keys

    def action_hold(self) -> None:
        """Live: stops painting, recording continues. In a replay: stops, or plays."""
        if self._replayed is not None:
            self._replayed.pause(not self._replayed.playing)
        else:
            self._held_at = self.context.clock.monotonic_ns() / 1e9 if self._held_at is None else None
        if self._held_at is None:
            self.repaint()
        elif self.view is not None:
            self._redraw_head(self.view)

    def action_stall(self, by: int) -> None:
        """The next stall, or the one before; a replay goes there."""
        if self._replayed is not None:
            self._move(lambda player: self._seek_stall(player, by))
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

    def _seek_stall(self, player: Player, by: int) -> None:
        if not player.seek_stall(by):
            self.notify_line("no later stall" if by > 0 else "no earlier stall")

    def action_detail(self) -> None:
        """The stall that was chosen, or the last one: what everything did around it."""
        from tui.live.stall import StallScreen

        if self.player is None or self.view is None or not (found := self.view.incidents):
            self.notify_line("no stall in this step so far")
            return
        chosen = self._chosen_stall or main_stall(found[-1])
        self.app.push_screen(StallScreen(self.player, self.view, chosen))

    def action_zoom(self) -> None:
        """The whole step, the last ten minutes, the last minute."""
        if self.view is None or self.view.step is None:
            self.notify_line("no step has started yet")
            return
        before = self._window
        self._window = axes.narrower(axes.of(self.view), before)
        if before == self._window:
            self.notify_line(f"the whole step is no longer than {WINDOWS[-1][0]}")
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

    def _move(self, how: Callable[[Player], object]) -> None:
        """Does something to the replay, and shows what comes of it."""
        player = self._replayed
        if player is None:
            self.notify_line("this is live: replay a cell from History (5)")
            return
        self._try(lambda: how(player))
        self.repaint()

    def action_seek(self, seconds: int) -> None:
        self._move(lambda player: player.seek(player.position_ns + seconds * SECOND_NS))

    def action_speed(self, by: int) -> None:
        self._move(lambda player: player.faster(by))

    def action_go(self) -> None:
        from tui.screens.over import LineScreen

        if self._replayed is None or self.view is None or self.view.step is None:
            self._move(lambda _: None)
            return
        start_ns = self.view.step.started_ns

        def go(text: str) -> None:
            try:
                t_ns = start_ns + int(seconds_of(text) * SECOND_NS)
            except (ValueError, OverflowError):
                self.notify_line(f"{text}: give seconds, mm:ss or hh:mm:ss", "warning")
            else:
                self._move(lambda player: player.seek(t_ns))

        self.bench.ask_user(LineScreen("Go to a time of the step (seconds, mm:ss or hh:mm:ss):"), go)
