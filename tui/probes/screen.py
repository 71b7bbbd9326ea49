"""Probes: how each stands, what it counted, by role and over time; switching them in a running step."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding

from engine.errors import UserError
from engine.journal import EventRow, is_locked
from tui import bench
from tui.keys import key
from tui.live.film import SECOND_NS
from tui.live.playing import legible
from tui.marks import Line, line
from tui.probes import text as probe_text
from tui.probes import view as probe_view
from tui.probes.reading import SAMPLED, News, Place, Wanted, look
from tui.probes.reel import Reel, in_order
from tui.probes.states import AT_START, ProbeRow, probe_rows
from tui.probes.view import WINDOWS, Moment
from tui.screens.base import BenchScreen, Jump
from tui.screens.over import AskScreen
from tui.widgets.lines import Lines

LOOK_S = 1.0
UNASKED: tuple[Mapping[str, Any], ...] = tuple(
    {"probe": name, "state": "ready", "cost": "..."}
    for name in (SAMPLED, AT_START, "runq", "sched", "stacks", "planner", "phases", "endpoint")
)


class ProbesScreen(BenchScreen):
    """The probes of the run that is looked at: in its newest step, at the moment that is played, or in another step."""

    TITLE_WORD: ClassVar[str] = "PROBES"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("space", "switch", "on/off", "probes.switch"),
        key("d", "role(1)", "role", "probes.role"),
        key("D", "role(-1)", "role before", "probes.role_before", show=False),
        key("w", "window", "window", "probes.window"),
        key("l", "log", "log", "probes.log"),
        key("x", "cost", "cost", "probes.cost"),
        key("right", "step(1)", "next step", "probes.step_on", show=False),
        key("left", "step(-1)", "step", "probes.step_back"),
        key("up,k", "move(-1)", "up", "probes.up", show=False),
        key("down,j", "move(1)", "down", "probes.down", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._run: Path | None = None
        self._listed: Sequence[Mapping[str, Any]] = UNASKED
        self._asked = False
        self._chosen = ""  # probe
        self._role = ""
        self._window = 0
        self._log = False
        self._reading = False
        self._forget()

    def _forget(self) -> None:
        """Nothing is known of a run."""
        self._places: list[Place] = []
        self._step: int | None = None  # chosen by the user; None: the newest, or the one that is played
        self._news: News | None = None
        self._reel: Reel | None = None
        self._events: dict[int, EventRow] = {}
        self._roles: set[tuple[str, str]] = set()  # probe, role
        self._trouble = ""

    # -- reading

    def on_mount(self) -> None:
        """Begins to look, and asks what probes there are."""
        self.set_interval(LOOK_S, self.look)
        self.look()
        self._ask()

    def on_screen_resume(self) -> None:
        """Comes back to the front."""
        super().on_screen_resume()
        self.look()

    def _ask(self) -> None:
        async def ask() -> None:
            try:
                self._listed = await bench.ask_json("probes", "list", "--out", str(self.bench.out))
                self._asked = True
            except UserError as error:
                self.bench.say(f"bench probes list: {error}", "warning")
            self.paint()

        self.run_worker(ask(), group="probes", exit_on_error=False)

    def look(self) -> None:
        """Reads on, away from the picture; nothing while another screen is in front."""
        if self.bench.run_folder != self._run:
            self._run = self.bench.run_folder
            self._forget()
            self.paint()
        if self._run is not None and not self._reading and self.bench.current_mode == "probes":
            self._reading = True
            self.run_worker(self._read(self._run), group="reading", exit_on_error=False)

    async def _read(self, run: Path) -> None:
        try:
            for _ in range(3):  # what was chosen meanwhile, or came to light, is read at once
                wanted = self._wanted()
                with legible(run):
                    news = await asyncio.to_thread(look, run, wanted)
                if run != self._run:
                    return
                self._take(wanted, news)
                now = self._wanted()
                if (now.step is None) == (wanted.step is None) and (now.probe, now.role) == (wanted.probe, wanted.role):
                    break
        except UserError as error:
            if run == self._run:
                self._trouble = str(error)
        finally:
            self._reading = False
            self.paint()

    def _wanted(self) -> Wanted:
        place = self._place()
        if place is None:
            return Wanted(event=max(self._events, default=0), lasting=self._lasting())
        reel = self._reel_of(place)
        return Wanted(
            step=place.step,
            probe=reel.probe,
            role=reel.role,
            after_ns=reel.after_ns,
            at_ns=self._at_ns(place),
            newest_step=self._places[-1].step.id,
            event=max(self._events, default=0),
            lasting=self._lasting(),
        )

    def _lasting(self) -> tuple[int, ...]:
        return tuple(id for id, event in self._events.items() if event.ended_ns is None)

    def _take(self, wanted: Wanted, news: News) -> None:
        self._trouble = ""
        if news.places is not None:
            self._places = list(news.places)
        self._events |= {event.id: event for event in news.events}
        if news.step is not None:
            self._news = news
            self._places = [
                Place(news.step, place.attempt, place.session, place.cell) if place.step.id == news.step.id else place
                for place in self._places
            ]
            self._roles |= news.roles
            reel = self._reel
            if reel is not None and (reel.step.id, reel.probe, reel.role) == (news.step.id, wanted.probe, wanted.role):
                reel.take(news.frames)

    # -- what is shown

    def _place(self) -> Place | None:
        """The step that is meant: the user's, the one that is played, or the newest."""
        if not self._places:
            return None
        wanted = self._step
        if wanted is None and self.bench.replayed is not None and (position := self.bench.position()) is not None:
            wanted = position[0]
        return next((place for place in self._places if place.step.id == wanted), self._places[-1])

    def _at_ns(self, place: Place) -> int:
        """The moment in it: that of the replay, else as far as it has come."""
        position = self.bench.position() if self.bench.replayed is not None else None
        if position is not None and position[0] == place.step.id:
            return position[1]
        return Wanted().at_ns

    def _reel_of(self, place: Place) -> Reel:
        """The frames to be shown, empty ones where others were shown before."""
        if self._reel is not None and self._reel.step.id != place.step.id:
            self._news, self._reel, self._roles = None, None, set()
        probe = self._row_name()
        roles = in_order(role for name, role in self._roles if name == probe)
        role = self._role if self._role in roles or not roles else roles[0]
        if self._reel is None or (self._reel.probe, self._reel.role) != (probe, role):
            self._reel = Reel(place.step, probe, role)
        return self._reel

    def _row_name(self) -> str:
        """The chosen probe; at first the one that says most of those that are there."""
        names = [str(row["probe"]) for row in self._listed]
        if self._chosen in names:
            return self._chosen
        there = {probe for probe, _ in self._roles}
        return next((name for name in ("planner", "sched", "runq", "phases", "endpoint") if name in there), names[0])

    def _moment(self) -> Moment | None:
        place, news = self._place(), self._news
        if place is None:
            return None
        end_ns = news.end_ns if news is not None else place.step.ended_ns or place.step.started_ns
        at_ns = self._at_ns(place)
        stalls = [
            event
            for event in self._events.values()
            if event.kind == "stall" and event.step_id == place.step.id and event.started_ns <= at_ns
        ]
        reel = self._reel if self._reel is not None and self._reel.step.id == place.step.id else None
        return Moment(
            place=place,
            reel=reel if reel is not None and reel.role else None,
            stalls=stalls,
            at_ns=min(at_ns, end_ns + SECOND_NS),
            end_ns=end_ns,
            window_s=WINDOWS[self._window][1],
            log=self._log,
            replay=self.bench.replayed is not None and at_ns != Wanted().at_ns,
            running=news.running if news is not None else False,
        )

    def _rows(self, moment: Moment | None) -> list[ProbeRow]:
        news = self._news
        if moment is None or news is None:
            return probe_rows(self._listed, news.observers if news is not None else (), (), (), None)
        said = probe_view.events_until(list(self._events.values()), moment.place.attempt.id, moment.at_ns)
        at_end = moment.place.step.ended_ns is not None and moment.at_ns >= moment.place.step.ended_ns
        totals = moment.place.step.totals if at_end else None
        return probe_rows(self._listed, news.observers, news.fresh, said, totals)

    # -- painting

    def parts(self) -> Sequence[Lines]:
        """From top to bottom."""
        return [Lines(id=id) for id in ("title", "table", "panels", "strip", "remarks")]

    def on_resize(self, event: events.Resize) -> None:
        """Draws again, for what there is room for now."""
        super().on_resize(event)
        self.paint()

    def paint(self) -> None:
        """Draws all of it."""
        columns, height = self.size
        if not self.is_mounted or not columns or self.has_class("-small"):
            self.refresh_small()
            return
        moment = self._moment()
        rows = self._rows(moment)
        cursor = next((place for place, row in enumerate(rows) if row.probe == self._row_name()), 0)
        parts: dict[str, list[Line]] = {"panels": [], "strip": [], "title": [line((" PROBES ", "title"))]}
        if moment is not None:
            room = probe_view.room(height, len(rows))
            parts["title"] = [probe_view.title(moment, moment.reel.role if moment.reel else "", columns)]
            parts["panels"] = probe_view.panels(moment, columns, room.bars, self.glyphs)
            parts["strip"] = probe_view.over_time(moment, columns, room.strip, self.glyphs)
        if self._trouble or moment is None:
            parts["title"] = [line((" PROBES ".ljust(columns), "title"))]
            words = textwrap.wrap(self._trouble or self._no_run(), columns - 1, break_long_words=True)
            parts["panels"], parts["strip"] = [line((f" {part}", "warning")) for part in words], []
        parts["table"] = probe_text.table(rows, cursor, columns, self.glyphs)
        parts["remarks"] = probe_text.remarks(rows, cursor, columns, probe_view.REMARK_ROWS, self.glyphs)
        for id, lines in parts.items():
            self.query_one(f"#{id}", Lines).show(lines)

    def _no_run(self) -> str:
        if self._run is None:
            return "no run is looked at: choose one in History (5)"
        return "reading" if self._reading else "no step has begun yet"

    def small(self) -> Sequence[Line]:
        """How each probe stands."""
        moment = self._moment()
        return probe_view.small(moment, self._rows(moment))

    # -- keys

    def jumps(self) -> list[Jump]:
        """Every probe."""
        return self.row_jumps("table", len(self._listed), self._choose)

    def action_move(self, by: int) -> None:
        """Another probe."""
        names = [str(row["probe"]) for row in self._listed]
        self._choose(max(0, min(names.index(self._row_name()) + by, len(names) - 1)))

    def _choose(self, place: int) -> None:
        self._chosen = str(self._listed[place]["probe"])
        self._again()

    def _again(self) -> None:
        """Shows what is chosen now, and reads what that needs."""
        self._wanted()
        self.paint()
        self.look()

    def action_role(self, by: int) -> None:
        """Another role."""
        roles = in_order(role for name, role in self._roles if name == self._row_name())
        if not roles:
            self.bench.say("this probe told nothing of any role", "warning")
            return
        now = self._reel.role if self._reel is not None else ""
        self._role = roles[((roles.index(now) if now in roles else 0) + by) % len(roles)]
        self._again()

    def action_window(self) -> None:
        """Histograms of the whole step, or of its last minute, or ten seconds."""
        self._window = (self._window + 1) % len(WINDOWS)
        self.paint()

    def action_log(self) -> None:
        """Bars by the logarithm of the count, so that a tail is seen."""
        self._log = not self._log
        self.bench.say(f"bars are {'logarithmic' if self._log else 'linear'}", "dim")
        self.paint()

    def action_step(self, by: int) -> None:
        """Another step of the run; beyond the newest it is followed again."""
        place = self._place()
        if place is None:
            self.bench.say(self._no_run(), "warning")
            return
        at = next(index for index, one in enumerate(self._places) if one.step.id == place.step.id) + by
        if at < 0:
            self.bench.say("this is the first step of the run", "warning")
            return
        self._step = self._places[at].step.id if at < len(self._places) - 1 else None
        self._again()

    def action_switch(self) -> None:
        """Attaches the chosen probe to the running step, or detaches it."""
        run, probe = self._run, self._row_name()
        if run is None or not is_locked(run):
            said = "no run is under way here: a probe is switched while one runs; for a new run Launch (1) has probes"
            self.bench.say(said, "warning")
            return
        row = next((row for row in self._rows(self._moment()) if row.probe == probe), None)
        word = "off" if row is not None and row.on else "on"
        self.bench.ask_bench(("probes", word, probe, str(run)), f"{probe}: {word}")

    def action_cost(self) -> None:
        """Asks whether to measure what the chosen probe costs on this machine."""
        probe = self._row_name()
        if probe in (SAMPLED, AT_START):
            self.bench.say(
                f"{probe} is part of every cell here: no cell can go without, so none can be compared", "warning"
            )
            return
        active = next((lock.parent for lock in self.bench.out.glob("*/engine.lock") if is_locked(lock.parent)), None)
        if active is not None:
            self.bench.say(f"{active.name} is measuring: what a probe costs is measured on a quiet machine", "warning")
            return

        def measure(sure: bool | None) -> None:
            if sure:
                command = ("probes", "cost", "--probe", probe, "--out", str(self.bench.out), *self._build())
                self.bench.ask_bench(
                    command, f"measuring what {probe} costs: History (5) has the run", lambda _: self._measured(probe)
                )

        question = (
            f"Measure what {probe} costs on this machine? Cells with and without it in turn, 8 pairs, "
            "take some minutes; leave the machine alone and this open meanwhile."
        )
        self.app.push_screen(AskScreen(question), measure)

    def _build(self) -> tuple[str, ...]:
        """The build to measure with: that of the step that is shown."""
        place = self._place()
        return ("--pg", place.cell.subject.build) if place is not None else ()

    def _measured(self, probe: str) -> None:
        self.bench.say(f"measured: the table has what {probe} costs here")
        self._ask()
