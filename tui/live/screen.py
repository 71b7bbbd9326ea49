"""Live: the step as it runs, or as it ran; the same screen for a run, and for the replay of a recorded cell."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget

from engine.core.errors import UserError
from engine.view.events import incident_words, main_stall
from engine.view.player import Player, legible
from engine.view.step_series import Series
from engine.view.view_state import ViewState
from tui.keys import key
from tui.live import probe_words
from tui.live import text as live_text
from tui.live.charts import ROOMY, Charts, place_of
from tui.live.cost import Cost
from tui.live.pointing import Pointing
from tui.live.readout import readout
from tui.live.side import schedule, side
from tui.marks import Line, folded, line
from tui.screens.base import TALL_ROWS, WIDE_COLUMNS
from tui.widgets.key_row import KeyRow
from tui.widgets.lines import Lines
from tui.widgets.rows import Rows

PAINT_S = 1.0  # a finer beat costs more than it shows: the engine counts once a second
REPLAY_PAINT_S = 0.25
GLANCE_S = 0.2  # between two looks whether a stall has begun
SIDE_COLUMNS = ((160, 60), (WIDE_COLUMNS, 44))  # of the right column, by those of the terminal
SIDE_NS = 1_500_000_000  # live, between two times that it is drawn anew: every other second
AMPLE_ROWS = 46
CHART_ROWS, EVENT_ROWS = 4, 3  # of a short terminal: at least, and wished for
# What the last row leaves out: always, and on a narrow screen, where further keys hold that have no room.
LIVE_ONLY, REPLAY_ONLY, ABREAST_ONLY = ("live.mark",), ("live.back", "live.slower"), ("live.build",)
LESS_IN_REPLAY, LESS_ABREAST = ("live.zoom", "live.role"), ("live.zoom", "live.slower")
LESS, LESS_WIDE = ("live.heat",), ("live.left", "live.log")
ROOMY_ONLY = ("live.figure",)


class LiveScreen(Pointing):
    """A run as it is measured, or a cell of it replayed."""

    TITLE_WORD: ClassVar[str] = "LIVE"
    DEFAULT_CSS = (
        Charts.CSS
        + """
    LiveScreen #middle { height: 1fr; }
    LiveScreen #main { width: 1fr; }
    LiveScreen #side { display: none; width: 44; padding: 0 1; height: 1fr; }
    LiveScreen.-wide #side { display: block; }
    LiveScreen #events { height: 3; }
    LiveScreen.-log #main > *, LiveScreen.-log #middle { display: none; }
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
        self._held_at: float | None = None  # clock reading at which painting was paused
        self._paint: Timer | None = None
        self._version = -1
        self._cost = Cost()
        self._trouble = ""  # why nothing new is shown
        self._side_drawn: tuple[object, int] = (None, 0)  # what of the right column was drawn last, and when
        self._settled = False  # the first paint is over: what takes long to read may be read

    def parts(self) -> Sequence[Widget]:
        self._charts = charts = Charts(self.glyphs, self._redraw)
        self._head, self._ages = Lines(id="head"), Lines(id="ages")
        self._roles, self._side = Lines(id="roles"), Lines(id="side")
        self._events = Rows(self._event_row, id="events")
        upper = (charts.rates, charts.sides, charts.heat, charts.axis, charts.ribbon)
        lower = (charts.times, charts.closing, charts.second_head, charts.second, charts.waits)
        main = Vertical(self._head, *upper, self._ages, *lower, self._roles, id="main")
        return [Horizontal(main, self._side, id="middle"), self._events]

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
        self._side_drawn = (None, 0)
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

    def _offer(self, *, abreast: bool) -> None:
        """Lays the screen out for cells abreast, or one by itself, with the keys that matter then."""
        columns, rows = self.app.size
        roomy = columns >= ROOMY[0] and rows >= ROOMY[1]
        self.set_class(abreast, "-abreast")
        self.set_class(roomy, "-roomy")
        self.set_class(roomy and rows >= AMPLE_ROWS, "-ample")
        self.set_class(columns >= WIDE_COLUMNS, "-wide")  # as the framework does, but only after the first layout
        self.set_class(rows >= TALL_ROWS, "-tall")
        self._side.styles.width = self._side_columns
        replay = self._replayed is not None
        hidden = {*(LIVE_ONLY if replay else REPLAY_ONLY), *(() if abreast else ABREAST_ONLY)}
        hidden |= set() if roomy else set(ROOMY_ONLY)
        hidden |= set(LESS_WIDE) if columns < SIDE_COLUMNS[0][0] else set()
        if columns < WIDE_COLUMNS:
            hidden |= {*LESS, *(LESS_IN_REPLAY if replay else ()), *(LESS_ABREAST if abreast else ())}
        self.query_one(KeyRow).hide(*sorted(hidden))

    @property
    def _side_columns(self) -> int:
        """Those of the right column, were it shown."""
        return next((cells for columns, cells in SIDE_COLUMNS if self.app.size.width >= columns), SIDE_COLUMNS[-1][1])

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

    def _take(self, view: ViewState) -> None:
        if self.view is None or self.view.step is None or view.step is None:
            self._kind = ""
            self.sight.forget()
        elif view.step.id != self.view.step.id:
            self._kind, self._cursor = self._kind if view.step.name == self.view.step.name else "", None
            self.sight.part = self.sight.cross = None
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
        return folded(self._trouble, self.app.size.width, "warning")

    def _show(self, view: ViewState) -> None:
        if self.has_class("-small"):
            self.refresh_small()
            return
        columns, rows = self.app.size
        self._show_head(view)
        wide, tall = columns >= WIDE_COLUMNS, rows >= TALL_ROWS
        main_columns = columns - self._side_columns if wide else columns
        self._ages.show(_unfolded(live_text.ages(view), main_columns) if tall else [live_text.ages(view)])
        probes = probe_words.rows(view.frames, [role.name for role in view.roles])
        table = live_text.role_table(view, main_columns)
        if view.step is None and self.player is not None:  # a cell is prepared: what is known is the plan
            table = schedule(view, self.player.schedule(), main_columns, rows - 8, self.glyphs)
        self._roles.show([*table, *(probes if tall else probes[:2]), live_text.states(view)])
        self._arrange(len(table) + len(probes if tall else probes[:2]) + 1, rows)
        self._show_log(view)
        if self.player is not None:
            hot = self.has_class("-heat")
            self._charts.show(self.player, view, self._shown_kind(view), self.sight, self._chosen_stall, hot=hot)
            if self.has_class("-roomy") and view.step is not None:
                if self._settled:
                    self._charts.show_details(self.player.details(view), view, self.sight)
                else:
                    self._charts.reserve(len(view.roles))
            if wide:
                self._show_side(self.player, view)

    def _arrange(self, table: int, rows: int) -> None:
        """Gives the log of a short terminal what the chart leaves: that has the first claim."""
        if self.has_class("-log"):
            self._events.styles.height = "1fr"
            return
        most = EVENT_ROWS if rows < TALL_ROWS else 8 if not self.has_class("-roomy") or rows >= AMPLE_ROWS else 4
        fixed = 10 + table + (1 if self.has_class("-abreast") else 0)  # head, axis, ribbon, ages, times, tabs, keys
        height = max(1, min(most, rows - fixed - CHART_ROWS))
        known = self._events.styles.height
        if known is None or known.is_fraction or known.value != height:
            self._events.styles.height = height

    def _show_side(self, player: Player, view: ViewState) -> None:
        figures: Mapping[str, Series] = {}
        if self._settled and view.step is not None:
            figures = player.details(view).read_figures(place_of(view))
        size = (self._side_columns - 2, self._side.size.height or self.app.size.height)
        key = (view.step.id if view.step is not None else 0, size, view.cells_done, self._settled)
        before, before_ns = self._side_drawn
        if view.speed is None and key == before and 0 <= view.at_ns - before_ns < SIDE_NS:
            return  # its courses are a large part of what a paint costs
        self._side_drawn = (key, view.at_ns)
        self._side.show(side(view, player.schedule(), player.manifest, figures, self.glyphs, size))

    def _show_log(self, view: ViewState) -> None:
        """The log, newest first; who has scrolled it stays where that is when it grows."""
        count, before = len(view.events), self._events.virtual_size.height
        if 0 < before < count and self._events.top:
            self._events.scroll_to(y=self._events.top + count - before, animate=False, force=True)
        self._events.show(count, 0)

    def _event_row(self, place: int) -> Line:
        view = self.view
        if view is None or place >= len(view.events):
            return ()
        return live_text.event_line(view.events[-1 - place], view.at_ns, view.wall_ns)

    def _behind_s(self) -> float | None:
        """How long painting has been paused; None while it is not."""
        return None if self._held_at is None else self.context.clock.monotonic_ns() / 1e9 - self._held_at

    def _redraw_head(self, view: ViewState) -> None:
        if not self._trouble:
            self._show_head(view)
            self.refresh_small()

    def _show_head(self, view: ViewState) -> None:
        percent = self._cost.percent if self.context.show_cost else None
        columns = self._head.size.width or self.app.size.width
        progress = live_text.progress(view, self.glyphs, self._behind_s(), percent, columns)
        self._head.show([live_text.title(view), progress, self._figures(view, columns)])

    def _figures(self, view: ViewState, columns: int) -> Line:
        """What is read out, else the rates of now."""
        kind = self._shown_kind(view)
        if self.sight.cross is not None and view.series is not None and self.player is not None:
            details = self.player.details(view)
            details.read_waits(view.series.roles, place_of(view))
            ghost = self._charts.ghost
            return readout(view, kind, self.sight, self._charts.cells, ghost, details.waits)
        window = self.sight.words(view) if view.step is not None else ""
        if view.abreast is None:
            return live_text.rates(view, kind, window, glyphs=self.glyphs, columns=columns)
        legend = partial(live_text.legend, glyphs=self.glyphs, columns=columns)
        return legend(view, kind, window)

    def _shown_kind(self, view: ViewState) -> str:
        return self._kind or view.headline

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


def _unfolded(spans: Line, columns: int) -> list[Line]:
    """A line in as many as it takes: a cause is worth more than a row of the chart."""
    if sum(len(text) for text, _ in spans) <= columns:
        return [spans]
    mark = next((mark for _, mark in reversed(spans) if mark in ("stall", "dim")), "")
    return folded("".join(text for text, _ in spans).strip(), columns, mark)
