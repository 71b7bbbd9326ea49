"""What a run is doing right now, read from its journal: the plain live output, and `watch --once`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from engine.journal import Attempt, EventRow, JournalReader, RoleRow, StepRow, is_locked
from engine.plan import Manifest

RATE_ROLES = {"load": "insert", "write": "insert", "query": "query"}  # whose rate is a step's headline


@dataclass(frozen=True, slots=True)
class RoleNow:
    """One role's last second: rates in its own unit (rows or queries) per second."""

    name: str
    rate_per_s: float
    in_flight_s: float
    max_ms: float
    waits: tuple[str, ...]


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
    elapsed_s: float = 0.0
    fraction: float | None = None
    eta_s: float | None = None
    rate_per_s: float = 0.0
    unit: str = ""
    relative: float | None = None  # step so far against the base's same step
    roles: tuple[RoleNow, ...] = ()
    stalls: tuple[EventRow, ...] = ()  # of this step, the lasting ones last


class Watcher:
    """Follows a run. Each `look` reads only what was committed since the last one."""

    def __init__(self, run: Path) -> None:
        self._reader = JournalReader(run)
        self.manifest = Manifest.of(self._reader.manifest)
        self.run = run
        self._step_id = 0
        self._roles: list[RoleRow] = []
        self._done: dict[int, tuple[int, int]] = {}  # role id: statements, rows so far
        self._last_ns: dict[int, int] = {}
        self._last: dict[int, RoleNow] = {}
        self._base: dict[tuple[str, str], float] = {}

    def look(self) -> Now:
        """The state of the run at its last commit."""
        attempts = self._reader.attempts()
        finished = {attempt.cell for attempt in attempts if attempt.state == "finished"}
        failed = {attempt.cell for attempt in attempts if attempt.state == "failed"} - finished
        counts = (len(finished), len(failed), len(self.manifest.cells))
        running = is_locked(self.run)
        if not attempts or attempts[-1].state != "running" or not running:
            return Now(*counts, running=running)
        attempt = attempts[-1]
        cell = next(cell for cell in self.manifest.cells if cell.id == attempt.cell)
        steps = self._reader.steps(attempt.id)
        subject = cell.subject.name
        if not steps:
            return Now(*counts, running=True, subject=subject, repeat=cell.repeat, step="starting the server")
        step = steps[-1]
        if step.state != "running":
            between = f"after {step.name}"
            return Now(*counts, running=True, subject=subject, repeat=cell.repeat, step=between, fraction=1.0)
        return self._in_step(counts, subject, cell.repeat, step, attempts)

    def _in_step(
        self, counts: tuple[int, int, int], subject: str, repeat: int, step: StepRow, attempts: list[Attempt]
    ) -> Now:
        if step.id != self._step_id:
            self._step_id = step.id
            self._done, self._last_ns, self._last = {}, {}, {}
            self._roles = []
        self._roles = self._roles or self._reader.roles(step.id)
        headline = RATE_ROLES.get(step.kind, "")
        for role in self._roles:
            self._catch_up(role, headline)
        elapsed_s = max(0.0, (time.monotonic_ns() - step.started_ns) / 1e9)
        worked = sum(self._done.get(role.id, (0, 0))[1] for role in self._roles if role.name == "insert")
        fraction = min(1.0, worked / step.work) if step.work and step.kind != "index" else None
        total = sum(self._count(role, headline) for role in self._roles if role.name == headline)
        rate = sum(
            self._last[role.id].rate_per_s for role in self._roles if role.id in self._last and role.name == headline
        )
        base = self._base_rate(step.name, attempts)
        return Now(
            *counts,
            running=True,
            subject=subject,
            repeat=repeat,
            step_id=step.id,
            step=step.name,
            elapsed_s=elapsed_s,
            fraction=fraction,
            eta_s=elapsed_s * (1 - fraction) / fraction if fraction else None,
            rate_per_s=rate,
            unit="queries/s" if step.kind == "query" else "rows/s",
            relative=total / elapsed_s / base if base and elapsed_s > 2 else None,
            roles=tuple(self._last[role.id] for role in self._roles if role.id in self._last),
            stalls=tuple(event for event in self._reader.events(step.id) if event.kind == "stall"),
        )

    def _count(self, role: RoleRow, headline: str) -> int:
        statements, rows = self._done.get(role.id, (0, 0))
        return statements if headline == "query" else rows

    def _catch_up(self, role: RoleRow, headline: str) -> None:
        statements, rows = self._done.get(role.id, (0, 0))
        for second in self._reader.role_seconds(role.id, self._last_ns.get(role.id, 0)):
            statements += second.statements
            rows += second.rows
            counted = second.statements if role.name == "query" else second.rows
            self._last[role.id] = RoleNow(
                role.name,
                counted / (second.dt_ns / 1e9),
                second.in_flight_ns / 1e9,
                second.max_us / 1000,
                (second.wait_event,) if second.wait_event else (),
            )
            self._last_ns[role.id] = second.t_ns
        self._done[role.id] = (statements, rows)

    def _base_rate(self, step: str, attempts: list[Attempt]) -> float | None:
        """The base's mean rate over this step, from its finished cells; None until there is one."""
        bases = {cell.id for cell in self.manifest.cells if cell.subject.build == self.manifest.base}
        for attempt in attempts:
            if attempt.state != "finished" or attempt.cell not in bases or (attempt.cell, step) in self._base:
                continue
            for row in self._reader.steps(attempt.id):
                role = row.totals.roles.get(RATE_ROLES.get(row.kind, "")) if row.totals else None
                if role and row.totals:
                    counted = role.statements if row.kind == "query" else role.rows
                    self._base[(attempt.cell, row.name)] = counted / row.totals.seconds
        rates = [rate for (_, name), rate in self._base.items() if name == step]
        return sum(rates) / len(rates) if rates else None


def line(now: Now) -> str:
    """The state as one line of plain text, for logs and scripts."""
    done = f"cell {min(now.cells_done + now.cells_failed + 1, now.cells)}/{now.cells}"
    if not now.subject:
        failed = f", {now.cells_failed} failed" if now.cells_failed else ""
        return f"{now.cells_done} of {now.cells} cells finished{failed}{'' if now.running else ', engine not running'}"
    parts = [done, f"{now.subject} r{now.repeat}", now.step]
    if now.fraction is not None and now.rate_per_s:
        parts.append(f"{now.fraction:4.0%}")
    if now.eta_s is not None and now.fraction != 1.0:
        parts.append(f"ETA {duration(now.eta_s)}")
    if now.unit:
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


def follow(run: Path, console: Console, wait_s: float = 0.0) -> Now:
    """Shows a run until its engine has gone: a live display on a terminal, a line each five seconds elsewhere.

    `wait_s` is how long an engine that was just started may take to open the journal. Returns the last state.
    """
    deadline = time.monotonic() + wait_s
    while not (run / "journal.db").exists() or not is_locked(run):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    watcher = Watcher(run)
    shown: set[int] = set()
    if not console.is_terminal:
        return _follow_lines(watcher, console, shown)
    progress = Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        console=console,
        expand=True,
    )
    run_task = progress.add_task("run", total=1.0)
    step_task = progress.add_task("step", total=1.0)
    now = watcher.look()
    with Live(progress, console=console, refresh_per_second=2, redirect_stdout=False) as live:
        for now in _looks(watcher, 1.0):
            _print_ended_stalls(now, console, shown)
            done = now.cells_done + now.cells_failed
            progress.update(
                run_task, completed=done / now.cells, description=f"cell {min(done + 1, now.cells)}/{now.cells}"
            )
            progress.update(step_task, completed=now.fraction or 0.0, description=now.step or "-")
            live.update(_panel(progress, now))
    return now


def _panel(progress: Progress, now: Now) -> Group:
    def text(line: str, style: str = "") -> Text:
        return Text(line, style=style, overflow="ellipsis", no_wrap=True)

    lasting = [text(stall_text(stall), "reverse") for stall in now.stalls if stall.ended_ns is None]
    return Group(progress, text(line(now)), *(text(_role_line(role)) for role in now.roles), *lasting)


def _role_line(role: RoleNow) -> str:
    waits = f"  waits on {', '.join(role.waits)}" if role.waits else ""
    return (
        f"  {role.name:<7} {role.rate_per_s:>10,.0f}/s  in flight {role.in_flight_s:5.2f}s"
        f"  max {role.max_ms:8.1f} ms{waits}"
    )


def _follow_lines(watcher: Watcher, console: Console, shown: set[int]) -> Now:
    last_line_at = 0.0
    last_step = ""
    now = watcher.look()
    for now in _looks(watcher, 1.0):
        _print_ended_stalls(now, console, shown)
        where = f"{now.subject} r{now.repeat} {now.step}"
        if where != last_step or time.monotonic() - last_line_at >= 5:
            console.print(line(now), highlight=False, soft_wrap=True)
            last_line_at, last_step = time.monotonic(), where
    return now


def _print_ended_stalls(now: Now, console: Console, shown: set[int]) -> None:
    for stall in now.stalls:
        if stall.ended_ns is not None and stall.id not in shown:
            shown.add(stall.id)
            console.print(f"{now.step}: {stall_text(stall)}", highlight=False, soft_wrap=True)
