"""Live and replay, which are one thing: pictures of a run at a moment that moves on.

Live the moment is now; in a replay it is where the clock of the replay stands. What is read, and how it is shown,
is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Self

from engine.errors import UserError
from engine.journal import Attempt, JournalReader, Session, StepRow, is_locked
from engine.model import SLA_FRACTION, Cell, Manifest, sla
from tui.clock import Clock
from tui.live.film import SECOND_NS, Film
from tui.live.picture import Picture, Sla, headline, lasts, machine, role_lines

SPEEDS = (1, 2, 4, 8, 16, 32, 64)
TICK_NS = 1_500_000_000  # what belongs to a tick was read within so long before its end
FRAME_NS = 2_500_000_000  # probes report about once a second, on a beat of their own
MEDIAN_NS = 60 * SECOND_NS
LATE_NS = 3 * SECOND_NS  # a tick comes every second: without one for so long nothing is known of the moment
SETTLED_S = 2.0  # before, a mean says too little to be held against the base's


@contextmanager
def legible(run: Path) -> Iterator[None]:
    """Turns what a damaged record does to those who read it into one line for the user."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        told = f"{type(error).__name__}: {error}"
        raise UserError(f"{run}: its manifest or journal holds what cannot be understood ({told})") from error


class Player:
    """Pictures of a run; of one cell of it, played, where a cell is named. A context manager."""

    def __init__(self, run: Path, clock: Clock, cell: str | None = None, step: str | None = None) -> None:
        self.run = run
        self._clock = clock
        with legible(run):
            self._reader = JournalReader(run)
            self.manifest = Manifest.of(self._reader.manifest)
            self._cells = {known.id: known for known in self.manifest.cells}
        self._attempts: dict[int, Attempt] = {}
        self._sessions: dict[int, Session] = {}
        self._films: dict[int, Film] = {}  # by step: all that a replay came to, live the newest
        self._rates: dict[int, dict[str, float]] = {}  # finished attempt: its steps' rates
        self.replay = cell is not None
        self.speed = 1
        self.playing = self.replay
        self._played: Attempt | None = None
        self._steps: list[StepRow] = []
        self._anchor = (0, 0)  # the replay stood there, when the clock said that
        if cell is not None:
            with legible(run):
                self._open(cell, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the journal."""
        self._reader.__exit__(None, None, None)

    def version(self) -> int:
        """Changes whenever the engine has committed something."""
        return self._reader.version()

    @property
    def reader(self) -> JournalReader:
        """The journal, for what lies beyond the picture."""
        return self._reader

    def look(self) -> Picture:
        """The picture of this moment. Raises UserError when the journal cannot be read (any more)."""
        if not (self.run / "journal.db").exists():
            raise UserError(f"{self.run}: the run directory is gone")
        with legible(self.run):
            running = is_locked(self.run)  # before its cells are read: an engine that just ended has not died
            self._read_attempts()
            return self._replayed(self._played) if self._played is not None else self._live(running)

    # Live

    def _live(self, running: bool) -> Picture:
        attempts = list(self._attempts.values())
        blank = self._blank("running" if running else self._ended())
        if not attempts:
            return replace(blank, doing="the engine starts" if running else "no cell was begun; r in Launch resumes it")
        attempt = attempts[-1]
        picture = replace(blank, cell=self._cells.get(attempt.cell))
        if not running and attempt.state == "running":
            picture = replace(picture, state="died", doing="the engine is gone; r in Launch resumes the run")
        now_ns = self._clock.monotonic_ns()
        step = self._reader.latest_step(attempt.id)
        if step is None:
            told = self._doing(attempt, attempt.started_ns) or "starting the server"
            at_ns = now_ns if running else attempt.ended_ns or attempt.started_ns
            doing = told if running else picture.doing
            return replace(picture, doing=doing, at_ns=at_ns, wall_ns=self._wall(attempt, at_ns))
        film = self._filmed(step)
        step = film.step
        if running and attempt.state == "running" and step.state == "running":
            return self._at(replace(picture, doing=""), attempt, film, max(now_ns, film.newest_ns))
        told = self._doing(attempt, step.ended_ns or step.started_ns)
        doing = f"after {step.name}{': ' + told if told else ''}" if running else picture.doing
        return self._at(replace(picture, doing=doing), attempt, film, step.ended_ns or film.newest_ns)

    def _ended(self) -> str:
        states = {attempt.cell: attempt.state for attempt in self._attempts.values()}
        if sum(state == "finished" for state in states.values()) == len(self._cells):
            return "finished"
        return "failed" if "failed" in states.values() else "stopped"

    def _doing(self, attempt: Attempt, since_ns: int) -> str:
        told = self._reader.latest_event(attempt.id, "progress")
        return str(told.data.get("text", "")) if told and told.started_ns >= since_ns else ""

    # Replay

    def _open(self, cell: str, step: str | None) -> None:
        self._read_attempts()
        found = [attempt for attempt in self._attempts.values() if attempt.cell == cell]
        found = [attempt for attempt in found if attempt.state == "finished"] or found
        if not found:
            raise UserError(f"{self.run.name}: cell {cell} has not been run")
        self._played = found[-1]
        self._steps = self._reader.steps(self._played.id)
        if not self._steps:
            raise UserError(f"{self.run.name}: cell {cell} came to no step")
        named = [known for known in self._steps if known.name == step]
        if step is not None and not named:
            raise UserError(f"{self.run.name}: cell {cell} has no step {step}")
        self.seek((named or self._steps)[0].started_ns)

    @property
    def position_ns(self) -> int:
        """Where the replay stands."""
        stood_ns, at_ns = self._anchor
        if not self.playing:
            return stood_ns
        return min(stood_ns + (self._clock.monotonic_ns() - at_ns) * self.speed, self._end_ns())

    def seek(self, t_ns: int) -> None:
        """Goes to a time of the cell, which is held within its steps."""
        t_ns = max(self._steps[0].started_ns, min(t_ns, self._end_ns()))
        self._anchor = (t_ns, self._clock.monotonic_ns())

    def pause(self, playing: bool) -> None:
        """Stands still, or goes on; from the end it begins again."""
        at_ns = self.position_ns
        if playing and at_ns >= self._end_ns():
            at_ns = self._steps[0].started_ns
        self.playing = playing
        self.seek(at_ns)

    def faster(self, by: int) -> None:
        """The next speed, or the one before."""
        at_ns = self.position_ns
        self.speed = SPEEDS[max(0, min(SPEEDS.index(self.speed) + by, len(SPEEDS) - 1))]
        self.seek(at_ns)

    def seek_stall(self, by: int) -> bool:
        """To the next stall of the cell, or the one before; False when there is none."""
        at_ns = self.position_ns
        with legible(self.run):
            events = [event for step in self._steps for event in self._reader.events(step.id)]
        begins = [event.started_ns for event in events if event.kind == "stall"]
        wanted = [t for t in begins if t > at_ns] if by > 0 else [t for t in begins if t < at_ns - SECOND_NS]
        if not wanted:
            return False
        self.seek(min(wanted) if by > 0 else max(wanted))
        return True

    def _end_ns(self) -> int:
        last = self._steps[-1]
        return last.ended_ns or self._filmed(last).newest_ns

    def _replayed(self, attempt: Attempt) -> Picture:
        at_ns = self.position_ns
        step = [step for step in self._steps if step.started_ns <= at_ns][-1]
        picture = replace(
            self._blank("replay"), cell=self._cells.get(attempt.cell), speed=self.speed, playing=self.playing
        )
        if step.ended_ns is not None and at_ns > step.ended_ns:
            picture = replace(picture, doing=f"after {step.name}")
        return self._at(picture, attempt, self._filmed(step), at_ns)

    # Both

    def _read_attempts(self) -> None:
        ended = [attempt.id for attempt in self._attempts.values() if attempt.state != "running"]
        for attempt in self._reader.attempts(max(ended, default=0), origins=False):
            self._attempts[attempt.id] = attempt

    def _filmed(self, step: StepRow) -> Film:
        film = self._films.get(step.id)
        if film is None:
            film = Film(self._reader, step)
            with legible(self.run):
                film.catch_up()
            self._films = {**self._films, step.id: film} if self.replay else {step.id: film}
        elif not self.replay:
            film.catch_up()
        return film

    def _blank(self, state: str) -> Picture:
        done = {attempt.cell for attempt in self._attempts.values() if attempt.state == "finished"}
        failed = {attempt.cell for attempt in self._attempts.values() if attempt.state == "failed"} - done
        return Picture(
            self.run.name,
            state,
            len(self._cells),
            len(done),
            len(failed),
            repeats=self.manifest.repeats,
            base=self.manifest.base,
        )

    def _at(self, picture: Picture, attempt: Attempt, film: Film, at_ns: int) -> Picture:
        step = film.step
        kind = headline(step)
        until_ns = min(at_ns, step.ended_ns or at_ns)
        length_s = max(0.0, (until_ns - step.started_ns) / 1e9)
        newest_ns = film.tick_ns(until_ns)
        events = [event for event in film.events if event.started_ns <= at_ns]
        if picture.state == "died":  # nobody saw the end of what lasted
            events = [replace(event, ended_ns=event.ended_ns or at_ns) for event in events]
        stalls = tuple(event for event in events if event.kind == "stall")
        lasting = [stall for stall in stalls if lasts(stall, at_ns)]
        silent = until_ns - newest_ns > LATE_NS  # what was last known is not told as what is
        after_ns = max(newest_ns - TICK_NS, 0)
        seconds = [] if silent else self._reader.seconds(step.id, after_ns, newest_ns)
        tick = [second for second in seconds if second.t_ns == newest_ns]
        rates = film.rates.get(kind)
        rate = rates.at(newest_ns) if rates and not silent else None
        base = self._base_rate(picture.cell, step.name)
        counted_s = (newest_ns - step.started_ns) / 1e9
        done = film.done(kind, newest_ns)
        samples = {
            source: (dt_ns, data)
            for _, dt_ns, source, data in ([] if silent else self._reader.samples(step.id, after_ns, newest_ns))
        }
        fraction = self._fraction(film, kind, until_ns, length_s)
        goes_on = (picture.state == "running" and step.state == "running") or picture.state == "replay"
        return replace(
            picture,
            at_ns=at_ns,
            wall_ns=self._wall(attempt, at_ns),
            step=step,
            film=film,
            length_s=length_s,
            fraction=fraction,
            eta_s=length_s * (1 - fraction) / fraction if fraction and goes_on else None,
            silent_s=(until_ns - newest_ns) / 1e9 if silent else None,
            headline=kind,
            rate_per_s=rate if step.kind != "index" and step.kind != "pause" else None,
            median_per_s=rates.median(newest_ns - MEDIAN_NS, newest_ns) if rates else None,
            base_per_s=base,
            relative=done / counted_s / base if base and counted_s > SETTLED_S and step.kind != "index" else None,
            sla=self._sla(film, until_ns),
            roles=role_lines(film.roles, tick, lasting, kind),
            machine=machine(samples, rate or 0.0),
            frames=tuple(self._reader.probe_frames(step.id, until_ns - FRAME_NS, until_ns)),
            stalls=stalls,
            events=tuple(events),
        )

    def _fraction(self, film: Film, kind: str, until_ns: int, length_s: float) -> float | None:
        step = film.step
        if step.state == "finished" and step.ended_ns is not None and until_ns >= step.ended_ns:
            return 1.0
        if step.kind == "index" or kind == "index":
            return None
        if step.work and kind == "insert":
            return min(1.0, film.done("insert", until_ns) / step.work)
        nominal_s = float(step.plan.get("seconds") or 0)
        return min(1.0, length_s / nominal_s) if nominal_s else None

    def _sla(self, film: Film, until_ns: int) -> Sla | None:
        """How much of the wanted insert rate was kept up to the last interval; none in its first seconds."""
        step = film.step
        if step.totals is not None and step.ended_ns is not None and until_ns >= step.ended_ns:
            judged = sla(step.kind, step.totals)
            return Sla(judged.achieved_per_s / judged.target_per_s, judged.passed) if judged is not None else None
        target = float(step.plan.get("rate_per_s") or 0) * int(self.manifest.workload.get("clients", 1))
        counted_s = (film.tick_ns(until_ns) - step.started_ns) / 1e9
        if step.kind != "query" or target <= 0 or counted_s <= SETTLED_S:
            return None
        # The newest burst may be counted a second late: verdicts go by engine.model.sla, once it has ended.
        fraction = film.done("insert", until_ns) / target / max(1.0, counted_s - 1.0)
        return Sla(min(1.0, fraction), fraction >= SLA_FRACTION)

    def _base_rate(self, cell: Cell | None, step: str) -> float | None:
        """The median rate of the base over this step: of its finished cells of the same config and kernel."""
        if cell is None:
            return None
        base = replace(cell.subject, build=self.manifest.base, arm="")
        finished = [
            attempt.id
            for attempt in self._attempts.values()
            if attempt.state == "finished" and attempt.cell in self._cells and self._cells[attempt.cell].subject == base
        ]
        for attempt in finished:
            if attempt not in self._rates:
                self._rates[attempt] = self._reader.rates(attempt)
        rates = [rate for attempt in finished if (rate := self._rates[attempt].get(step))]
        return median(rates) if rates else None

    def _wall(self, attempt: Attempt, t_ns: int) -> int:
        if attempt.session_id not in self._sessions:
            self._sessions = {session.id: session for session in self._reader.sessions()}
        return self._sessions[attempt.session_id].wall(t_ns)
