"""What a run is doing right now, read from its journal: the plain live output, and `watch --once`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from engine.journal import Attempt, EventRow, JournalReader, RoleRow, StepRow, is_locked
from engine.model import HEADLINE, Cell, Manifest, Subject, progress

UNITS = {"load": "rows/s", "write": "rows/s", "query": "queries/s"}  # an index build's rows come in lumps: no rate


@dataclass(frozen=True, slots=True)
class RoleNow:
    """One role's last second: rates in its own unit (rows or queries) per second."""

    name: str
    rate_per_s: float
    in_flight_s: float
    max_ms: float
    waits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed, of a cell that is not finished. `id` is the journal's."""

    id: int
    cell: str
    reason: str


@dataclass(frozen=True, slots=True)
class Now:
    """What the engine was doing at the journal's last commit. `fraction` is None where work is not counted."""

    cells_done: int
    cells_failed: int
    cells: int
    running: bool
    subject: str = ""
    repeat: int = 0
    step_id: int = 0
    step: str = ""
    doing: str = ""  # between steps, when it takes long: what the engine waits for
    elapsed_s: float = 0.0
    fraction: float | None = None
    eta_s: float | None = None
    rate_per_s: float = 0.0
    unit: str = ""
    relative: float | None = None  # rate of the step so far over the base's whole step, same config and kernel
    roles: tuple[RoleNow, ...] = ()
    stalls: tuple[EventRow, ...] = ()  # of this step, in the order in which they began
    probes: tuple[EventRow, ...] = ()  # what probes had to say in this cell, and times without their figures
    failures: tuple[Failure, ...] = ()


class Watcher:
    """Follows a run. A look reads what was committed since the last one: new rows, and those that had not ended."""

    def __init__(self, run: Path) -> None:
        self._reader = JournalReader(run)
        self.manifest = Manifest.of(self._reader.manifest)
        self.run = run
        self._cells = {cell.id: cell for cell in self.manifest.cells}
        self._attempts: dict[int, Attempt] = {}
        self._step_id = 0
        self._roles: list[RoleRow] = []
        self._done: dict[int, int] = {}  # role id: what `progress` counts, so far
        self._last: dict[int, RoleNow] = {}
        self._last_ns: dict[int, int] = {}  # role id: end of its last interval
        self._stalls: dict[int, EventRow] = {}
        self._event_id = 0
        self._words: list[EventRow] = []
        self._word_id = 0
        self._rates: dict[int, dict[str, float]] = {}  # finished attempt: its steps' rates

    def look(self) -> Now:
        """The state of the run at its last commit."""
        attempts = self._read_attempts()
        finished = {attempt.cell for attempt in attempts if attempt.state == "finished"}
        failures = tuple(
            Failure(attempt.id, attempt.cell, attempt.reason or "")
            for attempt in attempts
            if attempt.state == "failed" and attempt.cell not in finished
        )
        running = is_locked(self.run)
        now = Now(
            cells_done=len(finished),
            cells_failed=len({failure.cell for failure in failures}),
            cells=len(self.manifest.cells),
            running=running,
            failures=failures,
        )
        if not attempts or attempts[-1].state != "running" or not running:
            return now
        attempt = attempts[-1]
        cell = self._cells[attempt.cell]
        now = replace(now, subject=cell.subject.name, repeat=cell.repeat, probes=self._read_words(attempt.id))
        step = self._reader.latest_step(attempt.id)
        if step is None:
            return replace(now, step="starting the server", doing=self._doing(attempt.id, attempt.started_ns))
        if step.state != "running":
            doing = self._doing(attempt.id, step.ended_ns or step.started_ns)
            return replace(now, step=f"after {step.name}", doing=doing, fraction=1.0)
        return self._in_step(now, cell, step)

    def _doing(self, attempt: int, since_ns: int) -> str:
        told = self._reader.latest_event(attempt, "progress")
        return str(told.data.get("text", "")) if told and told.started_ns >= since_ns else ""

    def _read_attempts(self) -> list[Attempt]:
        ended = [attempt.id for attempt in self._attempts.values() if attempt.state != "running"]
        for attempt in self._reader.attempts(max(ended, default=0), origins=False):
            self._attempts[attempt.id] = attempt
        return list(self._attempts.values())

    def _in_step(self, now: Now, cell: Cell, step: StepRow) -> Now:
        if step.id != self._step_id:
            self._step_id = step.id
            self._done, self._last_ns, self._last, self._roles = {}, {}, {}, []
            self._stalls, self._event_id = {}, 0
        self._roles = self._roles or self._reader.roles(step.id)
        for role in self._roles:
            self._catch_up(role)
        elapsed_s = max(0.0, (time.monotonic_ns() - step.started_ns) / 1e9)
        worked = sum(self._done.get(role.id, 0) for role in self._roles if role.kind == "insert")
        fraction = min(1.0, worked / step.work) if step.work and step.kind != "index" else None
        rated = [role.id for role in self._roles if step.kind in UNITS and role.kind == HEADLINE[step.kind]]
        return replace(
            now,
            step_id=step.id,
            step=step.name,
            elapsed_s=elapsed_s,
            fraction=fraction,
            eta_s=elapsed_s * (1 - fraction) / fraction if fraction else None,
            rate_per_s=sum(self._last[role].rate_per_s for role in rated if role in self._last),
            unit=UNITS.get(step.kind, ""),
            relative=self._relative(rated, cell.subject, step),
            roles=tuple(self._last[role.id] for role in self._roles if role.id in self._last),
            stalls=self._read_stalls(step.id),
        )

    def _catch_up(self, role: RoleRow) -> None:
        for second in self._reader.role_seconds(role.id, self._last_ns.get(role.id, 0)):
            counted = progress(role.name, second)
            self._done[role.id] = self._done.get(role.id, 0) + counted
            self._last[role.id] = RoleNow(
                role.name,
                counted / (second.dt_ns / 1e9),
                second.in_flight_ns / 1e9,
                second.max_us / 1000,
                (second.wait_event,) if second.wait_event else (),
            )
            self._last_ns[role.id] = second.t_ns

    def _read_words(self, attempt: int) -> tuple[EventRow, ...]:
        for event in self._reader.events(after_id=self._word_id):
            self._word_id = event.id
            if event.kind in ("probe", "probe_gap"):
                self._words.append(event)
        self._words = [event for event in self._words if event.attempt_id == attempt]
        return tuple(self._words)

    def _read_stalls(self, step: int) -> tuple[EventRow, ...]:
        lasting = [stall.id for stall in self._stalls.values() if stall.ended_ns is None]
        self._stalls.update((id, self._reader.event(id)) for id in lasting)
        for event in self._reader.events(step, self._event_id):
            self._event_id = event.id
            if event.kind == "stall":
                self._stalls[event.id] = event
        return tuple(self._stalls.values())

    def _relative(self, rated: list[int], subject: Subject, step: StepRow) -> float | None:
        """The rate up to the last interval counted, over the base's; None while either says too little."""
        counted_s = (max((self._last_ns.get(role, 0) for role in rated), default=0) - step.started_ns) / 1e9
        base = self._base_rate(subject, step.name) if counted_s > 2 else None
        return sum(self._done.get(role, 0) for role in rated) / counted_s / base if base else None

    def _base_rate(self, subject: Subject, step: str) -> float | None:
        """The median rate of the base over this step: of its finished cells of the same config and kernel."""
        base = replace(subject, build=self.manifest.base, arm="")
        finished = [
            attempt.id
            for attempt in self._attempts.values()
            if attempt.state == "finished" and self._cells[attempt.cell].subject == base
        ]
        for attempt in finished:
            if attempt not in self._rates:
                self._rates[attempt] = self._reader.rates(attempt)
        rates = [rate for attempt in finished if (rate := self._rates[attempt].get(step))]
        return median(rates) if rates else None


def record(now: Now) -> dict[str, Any]:
    """The state as JSON: the names of `Now`; stalls and failures as objects, null where there is no value."""
    return asdict(now)


def line(now: Now) -> str:
    """The state as one line of plain text, for logs and scripts."""
    done = f"cell {min(now.cells_done + now.cells_failed + 1, now.cells)}/{now.cells}"
    if not now.subject:
        failed = f", {now.cells_failed} failed" if now.cells_failed else ""
        return f"{now.cells_done} of {now.cells} cells finished{failed}{'' if now.running else ', engine not running'}"
    parts = [done, f"{now.subject} r{now.repeat}", now.step]
    if now.doing:
        parts.append(now.doing)
    if now.fraction is not None and now.rate_per_s:
        parts.append(f"{now.fraction:4.0%}")
    if now.eta_s is not None and now.fraction != 1.0:
        parts.append(f"ETA {duration(now.eta_s)}")
    if now.unit and now.roles:  # not before the first second was counted
        parts.append(f"{now.rate_per_s:,.0f} {now.unit}")
    if now.relative is not None:
        parts.append(f"{now.relative:.3f} of base")
    parts.extend(stall_text(stall) for stall in now.stalls if stall.ended_ns is None)
    return "  ".join(parts)


def stall_text(stall: EventRow) -> str:
    """A stall in words: how long (so far), which role, the likeliest cause."""
    ended_ns = stall.ended_ns if stall.ended_ns is not None else time.monotonic_ns()
    causes = stall.data.get("causes") or []
    cause = f": {causes[0]['text']}" if causes else ""
    lasting = "" if stall.ended_ns is not None else " and lasting"
    return f"! STALL {stall.role} {(ended_ns - stall.started_ns) / 1e9:.1f}s{lasting}{cause}"


def word_text(word: EventRow) -> str:
    """What a probe had to say, or for how long its figures are missing and why."""
    text = str(word.data.get("text", ""))
    if word.kind == "probe":
        return text
    lasting = "from here on" if word.ended_ns is None else f"for {(word.ended_ns - word.started_ns) / 1e9:.1f}s"
    return f"probes: {word.data.get('probe')} has no figures {lasting}: {text}"


def duration(seconds: float) -> str:
    """`2h05m`, `3m20s` or `12s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def _looks(watcher: Watcher, period_s: float) -> Iterator[Now]:
    while True:
        now = watcher.look()
        yield now
        if not now.running:
            return
        time.sleep(period_s)


class _Told:
    """What is printed once, when it comes to light: stalls that ended, cells that failed."""

    def __init__(self, console: Console, told: Iterable[str] = ()) -> None:
        self._console = console
        self._texts = set(told)  # what every cell says alike is said once
        self._stalls: set[int] = set()
        self._failures: set[int] = set()
        self._words: set[int] = set()

    def tell(self, now: Now) -> None:
        """Prints what is new."""
        for stall in now.stalls:
            if stall.ended_ns is not None and stall.id not in self._stalls:
                self._stalls.add(stall.id)
                self._print(f"{now.step}: {stall_text(stall)}")
        for word in now.probes:
            text = word_text(word)
            if word.id not in self._words and text not in self._texts:
                self._print(text)
            self._words.add(word.id)
            self._texts.add(text)
        for failure in now.failures:
            if failure.id not in self._failures:
                self._failures.add(failure.id)
                self._print(f"! FAILED {failure.cell}: {failure.reason or 'no reason was recorded'}")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


def follow(run: Path, console: Console, told: Iterable[str] = ()) -> Now:
    """Prints a line each five seconds, and what comes to light, until a run's engine has gone.

    `told` are lines that the person has read already. Returns the last state.
    """
    watcher = Watcher(run)
    teller = _Told(console, told)
    last_line_at = 0.0
    last_step = ""
    now = watcher.look()
    for now in _looks(watcher, 1.0):
        teller.tell(now)
        where = f"{now.subject} r{now.repeat} {now.step}"
        if where != last_step or time.monotonic() - last_line_at >= 5:
            console.print(line(now), highlight=False, soft_wrap=True)
            last_line_at, last_step = time.monotonic(), where
    return now
