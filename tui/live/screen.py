"""Live: the step as it runs, or as it ran; the same screen for a run, and for the replay of a recorded cell."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget

from engine.errors import UserError
from engine.journal import EventRow
from tui.live import axes, probe_words
from tui.live import text as live_text
from tui.live.axes import WINDOWS
from tui.live.cost import Cost
from tui.live.film import SECOND_NS
from tui.live.keys import KEYS, LIVE_ONLY, REPLAY_ONLY
from tui.live.picture import Picture
from tui.live.playing import Player, legible
from tui.live.words import stall_words
from tui.marks import Line, line
from tui.numbers import seconds_of
from tui.screens.base import TALL_ROWS, WIDE_COLUMNS, BenchScreen
from tui.widgets.lines import Lines
from tui.widgets.ribbon import ribbon
from tui.widgets.scaled import SCALE_CELLS, ScaledChart

PAINT_S = 1.0  # a finer beat costs more than it shows: the engine counts once a second
REPLAY_PAINT_S = 0.25
GLANCE_S = 0.2  # between two looks whether a stall has begun
EVENTS_MOST = 8  # that are shown at once


class LiveScreen(BenchScreen):
    """A run as it is measured, or a cell of it replayed."""

    TITLE_WORD: ClassVar[str] = "LIVE"
    JUMPS: ClassVar[dict[str, str]] = {"chart": "c", "ribbon": "r", "events": "e"}
    DEFAULT_CSS = """
    LiveScreen #middle { height: 1fr; }
    LiveScreen #main { width: 1fr; }
    LiveScreen #side { display: none; width: 44; padding: 0 1; height: 1fr; }
    LiveScreen.-wide #side { display: block; }
    LiveScreen #rates { height: 1fr; min-height: 4; }
    LiveScreen #times { height: 2; }
    LiveScreen #ribbon { height: 1; }
    LiveScreen #events { height: 3; }
    LiveScreen.-tall #events { height: 8; }
    LiveScreen.-tall #times { height: 4; }
    """
    BINDINGS: ClassVar[list[Binding]] = KEYS  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.player: Player | None = None
        self.picture: Picture | None = None
        self._window = 0
        self._kind = ""  # of role that the chart shows; empty: the step's own
        self._cursor: int | None = None  # id of the stall that n and N stand on
        self._held_at: float | None = None  # clock reading at which painting was paused
        self._paint: Timer | None = None
        self._version = -1
        self._cost = Cost()
        self._trouble = ""  # why there is no new picture

    def parts(self) -> Sequence[Widget]:
        """Title, chart, stalls, roles, events; on wide terminals the machine at the side."""
        self._rates = ScaledChart(self.glyphs, "0", id="rates", chart_id="chart", resized=self._redraw)
        self._times = ScaledChart(self.glyphs, "max ms", id="times", chart_id="slowest")
        self._head, self._ages, self._ribbon = Lines(id="head"), Lines(id="ages"), Lines(id="ribbon")
        self._roles, self._events, self._side = Lines(id="roles"), Lines(id="events"), Lines(id="side")
        middle = (self._rates, self._ribbon, self._ages, self._times, self._roles)
        main = Vertical(self._head, *middle, self._events, id="main")
        for part in (self._rates.chart, self._ribbon, self._events):
            part.can_focus = True
        return [Horizontal(main, self._side, id="middle")]

    def shown_keys(self) -> list[tuple[str, Binding]]:
        """Of a replay those that move it, live those that bear on the run."""
        replay = self.player is not None and self.player.replay
        hidden = LIVE_ONLY if replay else REPLAY_ONLY
        return [entry for entry in super().shown_keys() if entry[1].id not in hidden]

    def on_mount(self) -> None:
        """Starts looking."""
        self.set_interval(GLANCE_S, self._glance)
        self._beat()

    def on_screen_resume(self) -> None:
        """Looks at once at what was chosen meanwhile; while painting is paused, shows what is held."""
        self._open()
        self.call_after_refresh(self.repaint if self._held_at is None else self._redraw)

    def on_resize(self, _: events.Resize) -> None:
        """Draws anew for another size."""
        self.call_after_refresh(self._redraw)

    def watch_run(self) -> None:
        """Another run, or another cell of it, is to be looked at."""
        if self.player is not None:
            self.player.close()
        self.player, self.picture, self._cursor, self._kind, self._held_at = None, None, None, "", None
        self._trouble = ""
        self._rates.clear()
        self._times.clear()
        for part in (self._head, self._ribbon, self._ages, self._roles, self._events, self._side):
            part.show([])
        self._open()
        self._beat()
        self.show_keys()
        self.repaint()

    def _open(self) -> None:
        if self.player is not None or self.bench.run_folder is None:
            return
        cell, step = self.bench.replayed or (None, None)
        try:
            self.player = Player(self.bench.run_folder, self.bench.clock, cell, step)
        except UserError as error:
            self._show_error(str(error))

    def _beat(self) -> None:
        if self._paint is not None:
            self._paint.stop()
        replay = self.player is not None and self.player.replay
        self._paint = self.set_interval(REPLAY_PAINT_S if replay else PAINT_S, self._tick)

    def _tick(self) -> None:
        still = self.player is not None and self.player.replay and not self.player.playing
        if self.is_current and self._held_at is None and not still:
            self.repaint()
        elif self.is_current and self.picture is not None:
            self._redraw_head(self.picture)

    def _glance(self) -> None:
        """Shows a stall when it begins and when it ends, not at the next beat."""
        player, picture = self.player, self.picture
        if not self.is_current or player is None or player.replay or picture is None or picture.film is None:
            return
        try:
            with legible(player.run):
                version = player.version()
                if version == self._version:
                    return
                self._version = version
                changed = self._held_at is None and picture.film.catch_up_events()
        except UserError:
            return  # the next beat says it
        if changed:
            self.repaint()

    def repaint(self) -> None:
        """Looks, and shows what there is to see."""
        if self.player is None:
            self._open()
        if self.player is None:
            if self.bench.run_folder is None:
                self._show_error("no run is looked at: start one in Launch (1), or choose one in History (5)")
            return
        player = self.player
        self._try(lambda: self._take(player.look()))

    def _try(self, act: Callable[[], object]) -> None:
        """Does what reads the record; where that cannot be understood, says so in a line."""
        try:
            with legible(self.bench.run_folder or self.bench.out):
                act()
        except UserError as error:
            self._show_error(str(error))

    def _take(self, picture: Picture) -> None:
        if self.picture is None or self.picture.step is None or picture.step is None:
            self._kind = ""
        elif picture.step.id != self.picture.step.id:
            self._kind, self._cursor = "", None
        self.picture = picture
        self._cost.measure()
        self._trouble = ""
        self._show(picture)

    def _redraw(self) -> None:
        """Shows the same picture again: its size, its window or its role is another."""
        if self._trouble:
            self._show_error(self._trouble)
        elif (picture := self.picture) is not None:
            self._try(lambda: self._show(picture))

    def small(self) -> Sequence[Line]:
        """The one page of a small terminal."""
        if self._trouble:
            return self._error_lines()
        return live_text.small(self.picture, self._behind_s()) if self.picture else [line("no run is looked at")]

    def _show_error(self, text: str) -> None:
        self._trouble = text
        self._head.show([line((f" {self.TITLE_WORD} ", "title")), *self._error_lines()])
        self.refresh_small()

    def _error_lines(self) -> list[Line]:
        return [line((f" {row}", "warning")) for row in textwrap.wrap(self._trouble, max(20, self.size.width - 2))]

    def _show(self, picture: Picture) -> None:
        if self.has_class("-small"):
            self.refresh_small()
            return
        self._show_head(picture)
        self._ages.show([live_text.ages(picture)])
        probes = probe_words.rows(picture.frames, [role.name for role in picture.roles])
        if self.size.height < TALL_ROWS:
            probes = probes[:2]
        self._roles.show([*live_text.role_table(picture, self.size.width), *probes, live_text.states(picture)])
        self._events.show(live_text.event_log(picture, EVENTS_MOST))
        if self.size.width >= WIDE_COLUMNS and self.player is not None:
            self._side.show(live_text.side(picture, live_text.environment(self.player.manifest)))
        self._show_charts(picture)

    def _behind_s(self) -> float | None:
        """How long painting has been paused; None while it is not."""
        return None if self._held_at is None else self.bench.clock.monotonic_ns() / 1e9 - self._held_at

    def _redraw_head(self, picture: Picture) -> None:
        if self._trouble:
            return
        self._show_head(picture)
        self.refresh_small()

    def _show_head(self, picture: Picture) -> None:
        percent = self._cost.percent if self.bench.show_cost else None
        window = axes.words(picture.step, picture.at_ns, self._window)
        self._head.show(
            [
                live_text.title(picture),
                live_text.progress(picture, self.glyphs, self._behind_s(), percent),
                live_text.rates(picture, self._shown_kind(picture), window),
            ]
        )

    def _shown_kind(self, picture: Picture) -> str:
        return self._kind or picture.headline

    def _show_charts(self, picture: Picture) -> None:
        film, step = picture.film, picture.step
        if film is None or step is None:
            self._rates.clear()
            self._times.clear()
            self._ribbon.show([])
            return
        whole = axes.whole(step, picture.at_ns)
        shown = axes.window(whole, WINDOWS[self._window][1])
        kind = self._shown_kind(picture)
        cursor = self._stall_at(self._cursor)
        stalls = [axes.interval(stall, picture.at_ns) for stall in picture.stalls]
        if kind in film.rates:
            base = picture.base_per_s if kind == picture.headline else None
            at = picture.at_ns if picture.speed is not None else None
            self._rates.show(film.rates[kind], shown, stalls, base, f"base {picture.base}", at)
            self._times.show(film.slowest[kind], shown, stalls)
        else:
            self._rates.clear()
            self._times.clear()
        cells = self._ribbon.size.width - SCALE_CELLS
        at_cursor = axes.interval(cursor, picture.at_ns) if cursor is not None else None
        if picture.speed is not None and at_cursor is None:
            at_cursor = (picture.at_ns, picture.at_ns)
        self._ribbon.show([(("stalls ", "dim"), *ribbon(cells, (whole.start, whole.end), whole.at, stalls, at_cursor))])

    def _stall_at(self, id: int | None) -> EventRow | None:
        stalls = self.picture.stalls if self.picture else ()
        return next((stall for stall in stalls if stall.id == id), None)

    # Keys

    def action_hold(self) -> None:
        """Live: stops painting, the record goes on. In a replay: stops, or plays."""
        if self.player is not None and self.player.replay:
            self.player.pause(not self.player.playing)
        elif self._held_at is None:
            self._held_at = self.bench.clock.monotonic_ns() / 1e9
        else:
            self._held_at = None
        if self._held_at is None:
            self.repaint()
        elif self.picture is not None:
            self._redraw_head(self.picture)

    def action_stall(self, by: int) -> None:
        """The next stall, or the one before; a replay goes there."""
        if self.player is not None and self.player.replay:
            self._move(lambda player: self._seek_stall(player, by))
        else:
            self._try(lambda: self._choose_stall(by))

    def _choose_stall(self, by: int) -> None:
        stalls = self.picture.stalls if self.picture else ()
        if not stalls or self.picture is None:
            self.notify_line("no stall in this step so far")
            return
        ids = [stall.id for stall in stalls]
        place = ids.index(self._cursor) + by if self._cursor in ids else (0 if by > 0 else -1)
        self._cursor = ids[place % len(ids)]
        chosen = stalls[place % len(ids)]
        self.notify_line(f"{place % len(ids) + 1}/{len(ids)} {stall_words(chosen, self.picture.at_ns)}")
        self._redraw()

    def _seek_stall(self, player: Player, by: int) -> None:
        if not player.seek_stall(by):
            self.notify_line("no stall further on" if by > 0 else "no stall before")

    def action_detail(self) -> None:
        """The stall that was chosen, or the last one: what everything did around it."""
        from tui.live.stall import StallScreen

        stalls = self.picture.stalls if self.picture else ()
        if not stalls or self.player is None or self.picture is None:
            self.notify_line("no stall in this step so far")
            return
        chosen = self._stall_at(self._cursor) or stalls[-1]
        self.app.push_screen(StallScreen(self.player, self.picture, chosen))

    def action_zoom(self) -> None:
        """The whole step, the last ten minutes, the last minute."""
        if self.picture is None or self.picture.step is None:
            self.notify_line("no step has begun yet")
            return
        before = self._window
        self._window = axes.narrower(self.picture.step, self.picture.at_ns, before)
        if before == self._window:
            self.notify_line(f"the whole step is no longer than {WINDOWS[-1][0]}")
        self._redraw()

    def action_role(self) -> None:
        """The chart of another role."""
        if self.picture is None or self.picture.film is None or not self.picture.film.rates:
            self.notify_line("no role has done anything yet")
            return
        kinds = sorted(self.picture.film.rates)
        shown = self._shown_kind(self.picture)
        self._kind = kinds[(kinds.index(shown) + 1) % len(kinds)] if shown in kinds else kinds[0]
        if len(kinds) == 1:
            self.notify_line(f"{kinds[0]} is the only role of this step")
        self._redraw()

    def action_mark(self) -> None:
        """A word of the user's in the record."""
        from tui.screens.over import LineScreen

        run = self.bench.run_folder
        if run is None or self.picture is None or self.picture.state != "running":
            self.notify_line("only a running run takes a mark", "warning")
            return

        def put(text: str | None) -> None:
            if text:
                self.bench.ask_bench(("mark", text, str(run)), "marking")

        self.app.push_screen(LineScreen("A word for the record, to find this moment again:"), put)

    def _move(self, how: Callable[[Player], object]) -> None:
        """Does something to the replay, and shows what comes of it."""
        if self.player is None or not self.player.replay:
            self.notify_line("this is live: replay a cell from History (5)")
            return
        player = self.player
        self._try(lambda: how(player))
        self.repaint()

    def action_seek(self, seconds: int) -> None:
        """So many seconds on, or back."""
        self._move(lambda player: player.seek(player.position_ns + seconds * SECOND_NS))

    def action_speed(self, by: int) -> None:
        """Faster, or slower."""
        self._move(lambda player: player.faster(by))

    def action_go(self) -> None:
        """To a time of the step."""
        from tui.screens.over import LineScreen

        if self.player is None or not self.player.replay or self.picture is None or self.picture.step is None:
            self._move(lambda _: None)
            return
        start_ns = self.picture.step.started_ns

        def go(text: str | None) -> None:
            if not text:
                return
            try:
                t_ns = start_ns + int(seconds_of(text) * SECOND_NS)
            except (ValueError, OverflowError):
                self.notify_line(f"{text}: give seconds, mm:ss or hh:mm:ss", "warning")
            else:
                self._move(lambda player: player.seek(t_ns))

        self.app.push_screen(LineScreen("Go to a time of the step (seconds, mm:ss or hh:mm:ss):"), go)
