"""Probes: the status of each, its figures by role and over time, and switching it in a running step."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding

from engine.core.errors import UserError
from engine.core.record import converted
from engine.journal.rows import EventRow
from engine.journal.run_lock import is_locked
from engine.results.flame import FlameGraph
from engine.view.player import legible
from engine.view.probe_frames import SAMPLED, News, StepPlace, Wanted, look
from engine.view.probe_series import ProbeSeries, in_order
from engine.view.step_series import SECOND_NS
from tui import bench
from tui.flame.screen import Asked, FlameScreen
from tui.keys import key
from tui.marks import Line, folded, line
from tui.probes import panels as probe_panels
from tui.probes import text as probe_text
from tui.probes.panels import OFFCPU, STACKS, WINDOWS, Moment
from tui.probes.probe_status import AT_START, ProbeRow, probe_rows
from tui.screens.bench_screen import DEMO, WIDE_COLUMNS, BenchScreen
from tui.screens.dialogs import AskScreen
from tui.widgets.key_row import KeyRow
from tui.widgets.text_lines import Lines

UNASKED: tuple[Mapping[str, Any], ...] = tuple(
    {"probe": name, "state": "ready", "cost": "..."}
    for name in (SAMPLED, AT_START, "runq", "sched", "stacks", "offcpu", "planner", "phases", "endpoint")
)


class ProbesScreen(BenchScreen):
    """The probes of the selected run: in its newest step, at the moment of a replay, or in another step."""

    TITLE_WORD: ClassVar[str] = "PROBES"
    LOOK_S: ClassVar[float] = 1.0
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("space", "switch", "on/off", "probes.switch"),
        key("d", "role(1)", "role", "probes.role"),
        key("D", "role(-1)", "role before", "probes.role_before", show=False),
        key("w", "window", "window", "probes.window"),
        key("l", "log", "log", "probes.log"),
        key("f", "flame", "flame", "probes.flame"),
        key("x", "cost", "cost", "probes.cost"),
        key("right", "step(1)", "next step", "probes.step_on", show=False),
        key("left", "step(-1)", "step", "probes.step_back", shown="arrows"),
        key("up,k", "move(-1)", "up", "probes.up", show=False),
        key("down,j", "move(1)", "down", "probes.down", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.watched_run: Path | None = None
        self.listed: Sequence[Mapping[str, Any]] = UNASKED
        self._chosen = ""  # probe
        self._role = ""
        self._window = 0
        self._log = False
        self.reading = False
        self._forget()

    def _forget(self) -> None:
        self._places: list[StepPlace] = []
        self._step: int | None = None  # chosen by the user; None: the newest, or the one being played
        self._news: News | None = None
        self.series: ProbeSeries | None = None
        self._events: dict[int, EventRow] = {}
        self.roles: set[tuple[str, str]] = set()  # probe, role
        self.trouble = ""
        self._stacks: dict[Asked, FlameGraph | str] = {}  # or why it is missing

    # -- reading

    def on_mount(self) -> None:
        self._ask()

    @work(group="probes", exit_on_error=False)
    async def _ask(self) -> None:
        try:
            self.listed = await bench.ask_json("list", "probes", "--out", str(self.context.out))
        except UserError as error:
            self.bench.say(f"bench list probes: {error}", "warning")
        self.draw()

    def look(self) -> None:
        """Read on, in a thread; do nothing while another screen is in front."""
        if self.context.run != self.watched_run:
            self.watched_run = self.context.run
            self._forget()
            self.draw()
        if self.watched_run is not None and not self.reading and self.bench.current_mode == "probes":
            self.reading = True
            self.run_worker(self._read(self.watched_run), group="reading", exit_on_error=False)

    async def _read(self, run: Path) -> None:
        try:
            wanted = self._wanted()
            for _ in range(3):  # a choice or probe that appeared meanwhile is read at once
                series = self.series
                with legible(run):
                    news = await asyncio.to_thread(look, run, wanted)
                if run != self.watched_run:
                    return
                self._take(series, news)
                wanted = self._wanted()
                if self.series is series:
                    break
        except UserError as error:
            if run == self.watched_run:
                self.trouble = str(error)
        finally:
            self.reading = False
            self.draw()

    def _wanted(self) -> Wanted:
        place = self._place()
        lasting = tuple(id for id, event in self._events.items() if event.ended_ns is None)
        wanted = Wanted(event=max(self._events, default=0), lasting=lasting)
        if place is None:
            return wanted
        series = self._series_of(place)
        return replace(
            wanted,
            step=place.step,
            probe=series.probe,
            role=series.role,
            after_ns=series.after_ns,
            at_ns=self._at_ns(place),
            newest_step=self._places[-1].step.id,
        )

    def _take(self, series: ProbeSeries | None, news: News) -> None:
        """Take news, with frames of the series that was shown when they were asked for."""
        self.trouble = ""
        if news.places is not None:
            self._places = list(news.places)
        self._events |= {event.id: event for event in news.events}
        if news.step is None:
            return
        self._places = [
            replace(place, step=news.step) if place.step.id == news.step.id else place for place in self._places
        ]
        if self.series is None or self.series.step.id != news.step.id:  # another step was chosen meanwhile
            return
        self._news = news
        self.roles |= news.roles
        if self.series is series:
            series.take(news.frames)

    def _stacks_of(self, place: StepPlace, role: str) -> FlameGraph | str:
        """The stacks of a role in a finished step; asked for once, empty until they arrive."""
        if place.step.ended_ns is None:
            return "functions are listed when the step ends"
        asked = self._flame(place, role)
        if asked not in self._stacks:
            self._stacks[asked] = ""
            self.run_worker(self._ask_stacks(asked), group="stacks", exit_on_error=False)
        return self._stacks[asked]

    async def _ask_stacks(self, asked: Asked) -> None:
        try:
            answer = await bench.ask_json(*asked.arguments(asked.roles[0]))
            self._stacks[asked] = converted(answer, FlameGraph, "bench flame --json")
        except UserError as error:
            self._stacks[asked] = str(error)
        self.draw()

    def _flame(self, place: StepPlace, role: str) -> Asked:
        return Asked(self.watched_run or Path(), place.step.name, (role,), cell=place.cell.id)

    # -- the display

    def _place(self) -> StepPlace | None:
        """The shown step: the user's choice, the replayed one, or the newest."""
        if not self._places:
            return None
        wanted = self._step
        if wanted is None and self.context.replayed is not None and (position := self.context.position) is not None:
            wanted = position[0]
        return next((place for place in self._places if place.step.id == wanted), self._places[-1])

    def _at_ns(self, place: StepPlace) -> int:
        """The moment of the replay, or else the end of the recording."""
        position = self.context.position if self.context.replayed is not None else None
        if position is not None and position[0] == place.step.id:
            return position[1]
        return Wanted().at_ns

    def _series_of(self, place: StepPlace) -> ProbeSeries:
        if self.series is not None and self.series.step.id != place.step.id:
            self._news, self.series, self.roles = None, None, set()
        probe = self.row_name()
        roles = in_order(role for name, role in self.roles if name == probe)
        role = self._role if self._role in roles or not roles else roles[0]
        if self.series is None or (self.series.probe, self.series.role) != (probe, role):
            self.series = ProbeSeries(place.step, probe, role)
        return self.series

    def row_name(self) -> str:
        """The chosen probe; at first the most telling one with data."""
        names = [str(row["probe"]) for row in self.listed]
        if self._chosen in names:
            return self._chosen
        there = {probe for probe, _ in self.roles}
        return next((name for name in ("planner", "sched", "runq", "phases", "endpoint") if name in there), names[0])

    def moment(self) -> Moment | None:
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
        series = self.series if self.series is not None and self.series.step.id == place.step.id else None
        stacks: FlameGraph | str = ""
        if series is not None and series.role and series.probe == STACKS:
            stacks = self._stacks_of(place, series.role)
        return Moment(
            place=place,
            probe=self.row_name(),
            series=series if series is not None and series.role else None,
            others=sorted({probe for probe, _ in self.roles}),
            stalls=stalls,
            at_ns=min(at_ns, end_ns + SECOND_NS),
            end_ns=end_ns,
            window_s=WINDOWS[self._window][1],
            log=self._log,
            replay=self.context.replayed is not None and at_ns != Wanted().at_ns,
            running=news.running if news is not None else False,
            stacks=stacks if isinstance(stacks, FlameGraph) else None,
            stacks_note=stacks if isinstance(stacks, str) else "",
        )

    def _rows(self, moment: Moment | None) -> list[ProbeRow]:
        news = self._news
        if moment is None or news is None:
            return probe_rows(self.listed, news.observers if news is not None else (), (), (), None)
        step, attempt = moment.place.step, moment.place.attempt
        events = (event for event in self._events.values() if event.started_ns <= moment.at_ns)
        reports = [event for event in events if event.attempt_id == attempt.id]
        totals = step.totals if step.ended_ns is not None and moment.at_ns >= step.ended_ns else None
        return probe_rows(self.listed, news.observers, news.fresh, reports, totals)

    # -- painting

    def parts(self) -> Sequence[Lines]:
        table = Lines(id="table", clicked=lambda row: self._choose(row - 1), turned=self.action_move)
        return [Lines(id="title"), table, *(Lines(id=id) for id in ("panels", "strip", "remarks"))]

    def draw(self) -> None:
        columns, height = self.size.width, self.rows
        if self.is_mounted:  # 80 columns have no room for one more key
            self.query_one(KeyRow).hide(*(("probes.log",) if columns < WIDE_COLUMNS else ()))
        if not self.is_mounted or not columns or self.has_class("-small"):
            self.refresh_small()
            return
        moment = self.moment()
        rows = self._rows(moment)
        cursor = next((place for place, row in enumerate(rows) if row.probe == self.row_name()), 0)
        if self.trouble or moment is None:
            title = line((" PROBES ".ljust(columns), "title"))
            panels = folded(self.trouble or self._no_run(), columns, "warning")
            strip: list[Line] = []
        else:
            title = probe_panels.title(moment, moment.series.role if moment.series else "", columns)
            panels, strip = probe_panels.panels_and_strip(moment, columns, height, len(rows), self.glyphs)
        table = probe_text.table(rows, cursor, columns, self.glyphs)
        remarks = probe_text.remarks(rows, cursor, columns, probe_panels.REMARK_ROWS, self.glyphs)
        self.fill(title=[title], table=table, panels=panels, strip=strip, remarks=remarks)

    def _no_run(self) -> str:
        if self.watched_run is None:
            return "No run selected: choose one in History (5)" + DEMO
        return "reading" if self.reading else "no step has started yet"

    def small(self) -> Sequence[Line]:
        moment = self.moment()
        return probe_panels.small(moment, self._rows(moment))

    # -- keys

    def action_move(self, by: int) -> None:
        names = [str(row["probe"]) for row in self.listed]
        self._choose(max(0, min(names.index(self.row_name()) + by, len(names) - 1)))

    def _choose(self, place: int) -> None:
        if 0 <= place < len(self.listed):
            self._chosen = str(self.listed[place]["probe"])
            self._again()

    def _again(self) -> None:
        self._wanted()
        self.draw()
        self.look()

    def _say_missing(self, missing: str) -> None:
        """Report data that the shown step lacks, if it has been read."""
        if self._place() is None:
            missing = self._no_run()
        elif self._news is None:
            missing = "this step has not been read yet"
        self.bench.say(missing, "warning")

    def action_role(self, by: int) -> None:
        roles = in_order(role for name, role in self.roles if name == self.row_name())
        if not roles:
            self._say_missing("this probe has no data for any role")
            return
        now = self.series.role if self.series is not None else ""
        self._role = roles[((roles.index(now) if now in roles else 0) + by) % len(roles)]
        self._again()

    def action_window(self) -> None:
        self._window = (self._window + 1) % len(WINDOWS)
        self.draw()

    def action_log(self) -> None:
        self._log = not self._log
        self.bench.say(f"bars are {'logarithmic' if self._log else 'linear'}", "dim")
        self.draw()

    def action_flame(self) -> None:
        place = self._place()
        if place is None:
            self.bench.say(self._no_run(), "warning")
            return
        probes = {name for name, _ in self.roles}
        chosen = self.series.probe if self.series is not None else ""
        probe = OFFCPU if chosen == OFFCPU or STACKS not in probes else STACKS
        roles = in_order(role for name, role in self.roles if name == probe)
        if not roles:
            self._say_missing("no stacks in this step: neither the probe `stacks` nor `offcpu` was on")
            return
        if place.step.ended_ns is None:
            self.bench.say("stacks are added up when the step ends; left chooses a step before", "warning")
            return
        shown = self.series.role if self.series is not None else ""
        asked = replace(self._flame(place, roles[0]), roles=roles, offcpu=probe == OFFCPU)
        self.app.push_screen(FlameScreen(asked, shown if shown in roles else roles[0]))

    def action_step(self, by: int) -> None:
        """Go to another step of the run; beyond the newest, follow the run again."""
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
        run, probe = self.watched_run, self.row_name()
        if run is None or not is_locked(run):
            refusal = "no run in progress: probes can be switched during a run only; for a new run use Launch (1)"
            self.bench.say(refusal, "warning")
            return
        row = next((row for row in self._rows(self.moment()) if row.probe == probe), None)
        word = "off" if row is not None and row.on else "on"
        self.bench.ask_bench(("probes", word, probe, str(run)), f"{probe}: {word}")

    def action_cost(self) -> None:
        probe = self.row_name()
        if probe in (SAMPLED, AT_START):
            self.bench.say(f"{probe} is always on, so there are no cells without it to compare", "warning")
            return
        active = next((lock.parent for lock in self.context.out.glob("*/engine.lock") if is_locked(lock.parent)), None)
        if active is not None:
            self.bench.say(f"{active.name} is measuring: measure the cost of a probe on a quiet machine", "warning")
            return

        def measure(_: bool) -> None:
            command = ("probes", "cost", "--probe", probe, "--out", str(self.context.out), *self._build())
            doing = f"measuring what {probe} costs: History (5) has the run"
            self.bench.ask_bench(command, doing, lambda _: self._measured(probe))

        question = (
            f"Measure what {probe} costs on this machine? Cells with and without it in turn, 8 pairs, "
            "take some minutes; leave the machine idle and this screen open meanwhile."
        )
        self.bench.ask_user(AskScreen(question), measure)

    def _build(self) -> tuple[str, ...]:
        place = self._place()
        return ("--pg", place.cell.subject.build) if place is not None else ()

    def _measured(self, probe: str) -> None:
        self.bench.say(f"measured: the table has what {probe} costs here")
        self._ask()
