"""Live and replay: the state of a run at an advancing moment.

The moment is now, or where the replay's clock stands. Reading and display are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Self

from engine.core.clock import Clock
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import Subject
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, EngineStart, EventRow, StepRow
from engine.journal.run_lock import is_locked
from engine.view.base_cells import BaseCells
from engine.view.eta import Planned, left_s, pieces, planned
from engine.view.events import incident_beside, incidents_of, landings_ns, lasts
from engine.view.ghost import BaseCurve
from engine.view.interleaved_step import AttemptSteps, InterleavedSteps
from engine.view.moment import last_second, machine_over, role_means
from engine.view.phase import booting, waiting
from engine.view.progress import SETTLED_S, agreement
from engine.view.progress import fraction as fraction_of
from engine.view.run_attempts import RunAttempts
from engine.view.step_details import StepDetails
from engine.view.step_series import SECOND_NS, StepSeries
from engine.view.view_state import ViewState, machine

SPEEDS = (1, 2, 4, 8, 16, 32, 64)
FRAME_NS = 2_500_000_000  # probes report about once a second, each at its own pace
MEDIAN_NS = 60 * SECOND_NS
LATE_NS = 3 * SECOND_NS  # ticks come every second: after this long without one, the present is unknown
TREND_NS = 60 * SECOND_NS  # over which a ratio's trend is shown


@contextmanager
def legible(run: Path) -> Iterator[None]:
    """Turn exceptions caused by a damaged record into one line for the user."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise UserError(f"{run}: damaged manifest or journal ({problem})") from error


class Player:
    """States of a run, or of the replay of one cell. A context manager."""

    def __init__(self, run: Path, clock: Clock | None = None, cell: str | None = None, step: str | None = None) -> None:
        self.run = run
        self._clock = clock or Clock()
        with legible(run):
            self.reader = JournalReader(run)
            self.manifest = self.reader.manifest
            self._cells = {known.id: known for known in self.manifest.cells}
            self._attempts = RunAttempts(self.reader)
        self._sessions: dict[int, EngineStart] = {}
        self._series: dict[int, StepSeries] = {}  # by step: all seen in a replay, only the newest live
        self._wanted: Subject | None = None  # the side shown, once one was chosen
        self._notices: list[EventRow] = []  # messages of probes, and gaps in their figures
        self._bases = BaseCells(self.reader)
        self._details: tuple[tuple[int, bool], StepDetails] | None = None  # of the step shown
        self._recorded = cache(self.reader.steps)  # of an attempt that has ended
        self.replay = cell is not None
        with legible(run):
            self._interleaved = InterleavedSteps(self.reader, replay=self.replay)
        self.speed = 1
        self.playing = self.replay
        self._played: Attempt | None = None
        self._steps: list[StepRow] = []
        self._chosen_ns: int | None = None  # start of the incident that a replay was moved to
        self._anchor = (0, 0)  # (position of the replay, the clock when it was set)
        if cell is not None:
            with legible(run):
                self._open(cell, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.reader.__exit__(None, None, None)

    def look(self) -> ViewState:
        """The state at this moment. Raises UserError if the journal cannot be read (any more)."""
        if not (self.run / "journal.db").exists():
            raise UserError(f"{self.run}: the run's folder no longer exists")
        with legible(self.run):
            running = is_locked(self.run)  # before reading cells: an engine that just ended has not died
            self._attempts.read()
            if self._played is not None:
                return self._replayed(self._played)
            view = self._live(running)
            return self._with_left(view) if running else view

    def notices(self) -> tuple[EventRow, ...]:
        with legible(self.run):
            known = [self.reader.event(event.id) if event.ended_ns is None else event for event in self._notices]
            new = self.reader.events(after_id=known[-1].id if known else 0, kinds=("probe", "probe_gap"))
            self._notices = known + new
        newest = {attempt.id for last in self._attempts.all[-1:] for attempt in self._interleaved_with(last)}
        return tuple(event for event in self._notices if event.attempt_id in newest)

    def schedule(self) -> list[Planned]:
        with legible(self.run):
            cells = self._attempts.wanted()
            attempts = self._attempts.all
            running, sliced = is_locked(self.run), self.manifest.design.sliced
            return planned(
                cells, attempts, self._bases.rates, running=running, interleaved=sliced, start=self._attempts.start
            )

    def ghost(self, view: ViewState, kind: str) -> BaseCurve | None:
        if view.series is None or view.timed or view.interleaved is not None:
            return None
        with legible(self.run):
            bases = self._bases.attempts(view.cell, self._attempts.all)
            return self._bases.ghost(bases, view.series, kind)

    def details(self, view: ViewState) -> StepDetails:
        """Details of the step shown, nothing of which is read before there is room for it."""
        assert view.step is not None
        key = (view.step.id, view.interleaved is not None)  # sliced steps are over active time
        if self._details is None or self._details[0] != key:
            self._details = (key, StepDetails(self.reader, view.step.id))
        return self._details[1]

    def other_side(self, view: ViewState) -> None:
        if view.interleaved is None:
            return
        sides = view.interleaved.sides
        cell = sides[(view.interleaved.chosen + 1) % len(sides)].cell
        self._wanted = cell.subject
        if self._played is not None:
            at_ns = self.position_ns
            with legible(self.run):
                self._play(next(attempt for attempt in self._interleaved_with(self._played) if attempt.cell == cell.id))
            self.seek(at_ns)

    # Live

    def _live(self, running: bool) -> ViewState:
        attempts = self._attempts.all
        now_ns = self._now_ns(attempts[-1]) if attempts else self._clock.monotonic_ns()
        blank = self._attempts.blank("running" if running else self._attempts.ended())
        if running and (guest := booting(self.reader, attempts)) is not None:
            now_ns = self._clock.monotonic_ns()
            doing = f"booting its kernel: {(now_ns - guest.started_ns) / 1e9:.0f} s"
            return replace(
                blank, cell=self._cells.get(guest.cell), doing=doing, at_ns=now_ns, wall_ns=self._clock.wall_ns()
            )
        if not attempts:
            return replace(
                blank, doing="starting the engine" if running else "no cell was started; r in Launch resumes the run"
            )
        attempt, step, sides = self._under_way(attempts[-1])
        view = replace(blank, cell=self._cells.get(attempt.cell))
        if not running and attempt.state == "running":
            view = replace(view, state="died", doing="the engine has exited; r in Launch resumes the run")
        if step is None:
            at_ns = now_ns if running else attempt.ended_ns or attempt.started_ns
            doing = waiting(self.reader, "starting the server", attempt, attempt.started_ns) if running else view.doing
            return replace(view, doing=doing, at_ns=at_ns, wall_ns=self._wall(attempt, at_ns))
        self._series = {row.id: self._series_of(row) for row in (step, *(side for _, side in sides))}
        series = self._series[step.id]
        step = series.step
        if running and attempt.state == "running" and step.state == "running":
            return self._at(view, attempt, series, max(now_ns, series.newest_ns), sides)
        if running:
            doing = waiting(self.reader, f"after {step.name}", attempt, step.ended_ns or step.started_ns)
            view = replace(view, doing=doing)
        together = [self._series[side.id] for _, side in sides] or [series]  # interleaved servers end one after another
        ended_ns = max(series.step.ended_ns or series.newest_ns for series in together)
        return self._at(view, attempt, series, ended_ns, sides)

    def _with_left(self, view: ViewState) -> ViewState:
        attempts, start = self._attempts.all, self._attempts.start
        wanted = self._attempts.wanted()
        work = pieces(wanted, attempts, interleaved=self.manifest.design.sliced)
        now_ns = self._now_ns(attempts[-1]) if attempts else self._clock.monotonic_ns()
        usual_s = view.allocation.pair_s if view.allocation is not None else None
        left = left_s(work, now_ns, self._steps_of, start=start, usual_s=usual_s, eta_s=view.eta_s)
        return replace(view, left_s=left, left=sum(not piece.over(start) for piece in work))

    def _steps_of(self, attempt: Attempt) -> list[StepRow]:
        return self._recorded(attempt.id) if attempt.state == "finished" else self.reader.steps(attempt.id)

    def _now_ns(self, attempt: Attempt) -> int:
        """The present by the attempt's clock: a guest has its own monotonic clock and shares only the wall clock."""
        in_guest = attempt.cell in self._cells and self._cells[attempt.cell].subject.kernel != HOST
        return self._clock.wall_ns() - self._wall(attempt, 0) if in_guest else self._clock.monotonic_ns()

    def _under_way(self, newest: Attempt) -> tuple[Attempt, StepRow | None, AttemptSteps]:
        """The attempt and step to show of the cells that run, or ran last; and the interleaved steps."""
        attempts = self._interleaved_with(newest)
        begun = [(attempt, step) for attempt in attempts if (step := self.reader.latest_step(attempt.id)) is not None]
        starting = newest.state == "running" and newest.id not in {attempt.id for attempt, _ in begun}
        if not begun or starting:
            return newest, None, ()
        attempt, step = max(
            begun, key=lambda side: (side[1].state == "running", side[1].ended_ns or side[1].started_ns)
        )
        sides = self._interleaved.sliced([side for side in begun if side[1].name == step.name])
        going = [side for side in sides if side[0].state != "failed"]
        if going:
            wanted = [side for side in going if self._cells[side[0].cell].subject == self._wanted]
            attempt, step = (wanted or going[1:] or going)[0]
        return attempt, step, sides

    # Replay

    def _open(self, cell: str, step: str | None) -> None:
        self._attempts.read()
        attempts = [attempt for attempt in self._attempts.all if attempt.cell == cell]
        attempts = [attempt for attempt in attempts if attempt.state == "finished"] or attempts
        if not attempts:
            raise UserError(f"{self.run.name}: cell {cell} has not been run")
        self._play(attempts[-1])
        if not self._steps:
            raise UserError(f"{self.run.name}: cell {cell} has no step")
        named = [known for known in self._steps if known.name == step]
        if step is not None and not named:
            raise UserError(f"{self.run.name}: cell {cell} has no step {step}")
        self.seek((named or self._steps)[0].started_ns)

    def _play(self, attempt: Attempt) -> None:
        self._played = attempt
        self._steps = self._recorded(attempt.id)

    @property
    def position_ns(self) -> int:
        stood_ns, at_ns = self._anchor
        if not self.playing:
            return stood_ns
        return min(stood_ns + (self._clock.monotonic_ns() - at_ns) * self.speed, self._end_ns())

    def seek(self, t_ns: int) -> None:
        """Seek to a time of the cell, clamped to its steps."""
        t_ns = max(self._steps[0].started_ns, min(t_ns, self._end_ns()))
        self._anchor = (t_ns, self._clock.monotonic_ns())

    def pause(self, playing: bool) -> None:
        """Pause or continue; at the end, start again."""
        at_ns = self.position_ns
        if playing and at_ns >= self._end_ns():
            at_ns = self._steps[0].started_ns
        self.playing = playing
        self.seek(at_ns)

    def faster(self, by: int) -> None:
        at_ns = self.position_ns
        self.speed = SPEEDS[max(0, min(SPEEDS.index(self.speed) + by, len(SPEEDS) - 1))]
        self.seek(at_ns)

    def seek_stall(self, by: int) -> tuple[EventRow, ...] | None:
        """Seek to where all of the next or previous incident is visible; None without incidents."""
        with legible(self.run):
            stalls = [stall for step in self._steps for stall in self.reader.events(step.id, kinds=("stall",))]
        ends: dict[int | None, int] = {step.id: step.ended_ns or self._end_ns() for step in self._steps}
        incidents = incidents_of(stalls)
        incidents_at = list(zip(incidents, landings_ns(incidents, ends), strict=True))
        incident, lands_ns = incident_beside(incidents_at, self.position_ns, by, self._chosen_ns) or ((), 0)
        if not incident:
            return None
        self.seek(lands_ns)
        self._chosen_ns = incident[0].started_ns
        return incident

    def _end_ns(self) -> int:
        last = self._steps[-1]
        return last.ended_ns or self._series_of(last).newest_ns

    def _replayed(self, attempt: Attempt) -> ViewState:
        at_ns = self.position_ns
        step = [step for step in self._steps if step.started_ns <= at_ns][-1]
        attempts = self._interleaved_with(attempt)
        sides = self._interleaved.sliced(
            [(attempt, one) for attempt in attempts for one in self._recorded(attempt.id) if one.name == step.name]
        )
        view = replace(
            self._attempts.blank("replay"), cell=self._cells.get(attempt.cell), speed=self.speed, playing=self.playing
        )
        if step.ended_ns is not None and at_ns > step.ended_ns:
            view = replace(view, doing=f"after {step.name}")
        return self._at(view, attempt, self._series_of(step), at_ns, sides)

    # Both

    def _series_of(self, step: StepRow) -> StepSeries:
        series = self._series.get(step.id)
        if series is None:
            series = StepSeries(self.reader, step)
            with legible(self.run):
                series.catch_up()
            self._series[step.id] = series
        elif not self.replay:
            series.catch_up()
        return series

    def _interleaved_with(self, one: Attempt) -> list[Attempt]:
        return self._interleaved.attempts(self._attempts.all, one)

    def _at(
        self, view: ViewState, attempt: Attempt, series: StepSeries, at_ns: int, sides: AttemptSteps = ()
    ) -> ViewState:
        step = series.step
        kind = step.primary_metric.role if step.primary_metric else "insert"
        until_ns = min(at_ns, step.ended_ns or at_ns)
        newest_ns = series.tick_ns(until_ns)
        events = self._events(view, series, at_ns)
        stalls = tuple(event for event in events if event.kind == "stall")
        lasting = [stall for stall in stalls if lasts(stall, at_ns)]
        silent = until_ns - newest_ns > LATE_NS  # do not show stale values as current
        roles, samples = last_second(self.reader, series, kind, newest_ns, lasting) if not silent else ((), {})
        rates = series.rates.get(kind)
        rate = rates.at(newest_ns) if rates and not silent else None
        over = step.totals if step.ended_ns is not None and at_ns >= step.ended_ns and view.speed is None else None
        if over is not None:
            rate, samples = step.rate_per_s, machine_over(over, samples)
            roles = role_means(over, series.roles.values(), kind)
        bases = self._bases.attempts(view.cell, self._attempts.all)
        timed = step.primary_metric is not None and step.primary_metric.by == "time"
        base = self._bases.rate(bases, step.name)
        counted_s = series.worked_s(newest_ns)
        compared = counted_s > SETTLED_S and step.primary_metric is not None and step.primary_metric.live and not timed
        ratios = self._bases.relatives(bases, series, kind, newest_ns) if compared else []
        earlier_ns = max(newest_ns - TREND_NS, step.started_ns + (newest_ns - step.started_ns) // 2)
        before = self._bases.relatives(bases, series, kind, earlier_ns) if compared else []
        fraction = fraction_of(series, kind, until_ns, counted_s)  # as of the last tick, so that it never goes back
        elapsed_s = (newest_ns - step.started_ns) / 1e9
        stalls_of = [self._stalls(view, side, at_ns) for _, side in sides]
        under_way = view.state == "running" and step.state == "running"
        goes_on = under_way or view.state == "replay"
        known_s = (min(until_ns, newest_ns + LATE_NS) - step.started_ns) / 1e9  # no work is done in a longer silence
        # The end of a step is recorded late: a clock that shows the present would go back then.
        shown_ns = max(newest_ns, until_ns - LATE_NS) if under_way else until_ns
        return replace(
            view,
            at_ns=at_ns,
            wall_ns=self._wall(attempt, at_ns),
            step=step,
            series=series,
            length_s=max(0.0, (shown_ns - step.started_ns) / 1e9),
            fraction=fraction,
            eta_s=max(0.0, elapsed_s / fraction - known_s) if fraction and goes_on else None,
            silent_s=(until_ns - newest_ns) / 1e9 if silent and goes_on else None,
            primary_role=kind,
            rate_per_s=rate if step.primary_metric and step.primary_metric.live else None,
            over=over is not None,
            median_per_s=rates.median(newest_ns - MEDIAN_NS, newest_ns) if rates else None,
            timed=timed,
            time_s=step.time_s if fraction == 1 else None,
            base_s=base if timed else None,
            base_per_s=None if timed else base,
            relative=median(ratios) if ratios else None,
            relatives=tuple(ratios),
            relative_before=median(before) if before else None,
            sla=agreement(series, until_ns, int(self.manifest.workload.get("clients", 1))),
            roles=roles,
            machine=machine(samples, rate or 0.0),
            frames=tuple(self.reader.probe_frames(step.id, until_ns - FRAME_NS, until_ns)),
            stalls=stalls,
            events=tuple(events),
            interleaved=self._interleaved.at(sides, stalls_of, attempt, at_ns),
        )

    def _events(self, view: ViewState, series: StepSeries, at_ns: int) -> list[EventRow]:
        events = [event for event in series.events if event.started_ns <= at_ns]
        if view.state == "died":  # the end of current events was not recorded
            events = [replace(event, ended_ns=event.ended_ns or at_ns) for event in events]
        return events

    def _stalls(self, view: ViewState, step: StepRow, at_ns: int) -> tuple[StepSeries, list[EventRow]]:
        series = self._series_of(step) if self.replay else self._series[step.id]
        return series, [event for event in self._events(view, series, at_ns) if event.kind == "stall"]

    def _wall(self, attempt: Attempt, t_ns: int) -> int:
        if attempt.session_id not in self._sessions:
            self._sessions = {session.id: session for session in self.reader.sessions()}
        return self._sessions[attempt.session_id].wall(t_ns)
