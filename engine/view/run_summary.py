"""The runs below a folder and the steps of their cells, a line each: `bench list runs` and the History screen.

A run is read when looked for, and again only when its files have changed. Its line needs the manifest, attempts and
stalls; steps of its cells are read on demand. An unreadable run raises nothing: its line says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from engine.core.errors import UserError
from engine.core.model import Cell, Manifest, workload_title
from engine.journal import outcome
from engine.journal.housekeeping import read_tags
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, EngineStart, EventRow, StepRow
from engine.journal.run_lock import is_locked
from engine.journal.runs import runs_in
from engine.journal.totals import sla
from engine.view.events import incidents_of
from engine.view.step_series import SECOND_NS

WATCHED = ("manifest.json", "journal.db", "journal.db-wal", "tags.json")
Spans = tuple[tuple[int, int], ...]  # (from, until) in monotonic ns, sorted and disjoint


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run. `trouble` explains `state`, `when_ns` is Unix time, overlapping stalls of a client count once."""

    folder: Path
    when_ns: int
    state: str
    created: str = ""  # ISO 8601
    host: str = ""
    kernel: str = ""  # the host's release, or the names of compared kernels
    builds: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    workload: str = ""
    load: str = ""  # generation and scale
    steps: tuple[str, ...] = ()
    clients: int = 0
    repeats: int = 0
    done: int = 0
    failed: int = 0
    planned: int = 0
    stalls: int = 0
    stalled_s: float = 0.0
    probes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def state_words(self) -> str:
        return f"{self.failed} failed" if self.state == "failed" else self.state


@dataclass(frozen=True, slots=True)
class StepSummary:
    """One step of a cell. `step` is empty if there was none; `flags` are (text, mark); `stalled` is monotonic."""

    run: RunSummary
    cell: str
    build: str
    kernel: str
    repeat: int
    step: str
    when_ns: int
    started_ns: int = 0
    ended_ns: int | None = None
    rate_per_s: float | None = None
    stalls: int = 0
    stalled: Spans = ()
    flags: tuple[tuple[str, str], ...] = ()
    time_s: float | None = None  # instead of a rate, for a step whose primary metric is a time

    @property
    def stalled_s(self) -> float:
        return seconds_of(self.stalled)


class RunCache:
    """The runs below a folder, as read so far. Another thread may read, one at a time."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._stamps: dict[Path, tuple[int, ...]] = {}
        self._runs: dict[Path, RunSummary] = {}
        self._cells: dict[Path, tuple[StepSummary, ...]] = {}

    @property
    def runs(self) -> list[RunSummary]:
        return list(self._runs.values())

    def cells(self, folder: Path) -> tuple[StepSummary, ...] | None:
        """Steps of a run's cells; None if not read since the run changed."""
        return self._cells.get(folder)

    def changed(self) -> list[Path]:
        """Forget runs that are gone; return new or changed ones, newest first by name."""
        folders = runs_in(self.out)
        for folder in set(self._runs).difference(folders):
            for known in (self._stamps, self._runs, self._cells):
                known.pop(folder, None)
        return [folder for folder in folders if self._stamps.get(folder) != _stamp(folder) or self._died(folder)]

    def read(self, folder: Path) -> RunSummary:
        stamp = _stamp(folder)  # first: anything written while reading counts as a change
        run = read_run(folder)
        self._cells.pop(folder, None)
        self._runs[folder], self._stamps[folder] = run, stamp
        return run

    def read_cells(self, folder: Path) -> tuple[StepSummary, ...]:
        run = self._runs.get(folder)
        self._cells[folder] = read_cells(run) if run is not None else ()
        return self._cells[folder]

    def _died(self, folder: Path) -> bool:
        """Whether the engine died without telling the journal."""
        return self._runs[folder].state == "running" and not is_locked(folder)


def _stamp(folder: Path) -> tuple[int, ...]:
    """A value that changes when anything is written to a run."""
    stamp: list[int] = []
    for name in WATCHED:
        file_stamp = (0, 0)
        with suppress(OSError):
            status = (folder / name).stat()
            if status.st_size:  # a reader creates an empty log
                file_stamp = (status.st_mtime_ns, status.st_size)
        stamp += file_stamp
    return tuple(stamp)


def read_run(folder: Path) -> RunSummary:
    run = RunSummary(folder, _made_ns(folder), "unreadable", tags=read_tags(folder))
    try:
        manifest = read_manifest(folder)
        run = _planned(run, manifest)
        if not (folder / "journal.db").exists():
            return replace(run, state="not started")
        with JournalReader(folder) as reader:
            attempts = reader.attempts(origins=False)
            events = reader.events(kinds=("stall",))
            decisions = reader.decisions()
    except UserError as error:
        return replace(run, state="unreadable", trouble=str(error))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        trouble = f"{folder / 'manifest.json'}: damaged ({type(error).__name__}: {error})"
        return replace(run, state="unreadable", trouble=trouble)
    finished = outcome.finished(manifest, attempts)
    failed = {attempt.cell for attempt in attempts if attempt.state == "failed"} - finished
    wanted = outcome.wanted(manifest, decisions)
    ended = "finished" if finished.issuperset(cell.id for cell in wanted) else "failed" if failed else "unfinished"
    reasons = [attempt.reason or "" for attempt in attempts if attempt.cell in failed]
    # Step by step: the clocks of two engine starts are unrelated.
    by_step = _by_step(events)
    spans = [span for stalls in by_step.values() for span in _stalls(stalls)]
    return replace(
        run,
        state="running" if is_locked(folder) else ended,
        done=len(finished),
        planned=max(len(wanted), len(finished)),
        repeats=outcome.repeats(manifest, decisions),
        failed=len(failed),
        stalls=sum(len(incidents_of(stalls)) for stalls in by_step.values()),
        stalled_s=seconds_of(spans),
        trouble=reasons[-1] if reasons else "",
    )


def _made_ns(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _planned(run: RunSummary, manifest: Manifest) -> RunSummary:
    environment, workload = manifest.environment, manifest.workload
    kernels = sorted({cell.subject.kernel for cell in manifest.cells} - {"host"})
    return replace(
        run,
        when_ns=int(datetime.fromisoformat(manifest.origin.created).timestamp() * SECOND_NS),
        created=manifest.origin.created,
        host=(environment.get("host") or {}).get("name") or "",
        kernel=" ".join(kernels) or (environment.get("kernel") or {}).get("release") or "",
        builds=tuple(build.label for build in manifest.builds),
        configs=tuple(sorted({cell.subject.config for cell in manifest.cells})),
        workload=workload["name"],
        load=workload_title(workload),
        steps=tuple(step["name"] for step in workload["steps"]),
        clients=int(workload.get("clients", 1)),
        repeats=manifest.design.repeats,
        planned=len(manifest.cells),
        probes=manifest.observation.observers,
    )


def read_cells(run: RunSummary) -> tuple[StepSummary, ...]:
    """Steps of a run's cells, oldest first; empty if the run cannot be read."""
    try:
        with JournalReader(run.folder) as reader:
            cells = {cell.id: cell for cell in reader.manifest.cells}
            sessions = {session.id: session for session in reader.sessions()}
            by_step = _by_step(reader.events())
            several = len({cell.subject.config for cell in cells.values()}) > 1
            rows: list[StepSummary] = []
            chosen = outcome.chosen(reader.manifest, reader.attempts(origins=False)).values()
            for attempt in sorted(chosen, key=lambda attempt: (attempt.session_id, attempt.started_ns)):
                cell, session = cells.get(attempt.cell), sessions.get(attempt.session_id)
                if cell is not None and session is not None:
                    base = _of_cell(run, cell, attempt, session, several)
                    between = [event for event in by_step.get(None, ()) if event.attempt_id == attempt.id]
                    steps = [_of_step(base, step, session, by_step, between) for step in reader.steps(attempt.id)]
                    rows += [step for step in steps if step.step != "pause"] or [base]
    except (UserError, KeyError, TypeError, ValueError, AttributeError):
        return ()
    return tuple(rows)


def _of_cell(run: RunSummary, cell: Cell, attempt: Attempt, session: EngineStart, several: bool) -> StepSummary:
    subject = cell.subject
    return StepSummary(
        run=run,
        cell=cell.id,
        build=f"{subject.name}/{subject.config}" if several else subject.name,
        kernel=run.kernel if subject.kernel == "host" else subject.kernel,
        repeat=cell.repeat,
        step="",
        when_ns=session.wall(attempt.started_ns),
        started_ns=attempt.started_ns,
        flags=_unfinished(attempt.state, attempt.reason, run),
    )


def _unfinished(state: str, reason: str | None, run: RunSummary) -> tuple[tuple[str, str], ...]:
    if state == "finished":
        return ()
    if state == "running":
        return (("> running", "chosen"),) if run.state == "running" else (("x cut off", "worse"),)
    return ((f"x {state}" + (f": {reason}" if reason else ""), "worse"),)


def _of_step(
    base: StepSummary,
    step: StepRow,
    session: EngineStart,
    by_step: dict[int | None, list[EventRow]],
    between: Sequence[EventRow],
) -> StepSummary:
    """`between` are the cell's events outside steps."""
    totals = step.totals
    flags = [*base.flags] if step.state != "finished" else []
    events = by_step.get(step.id, [])
    agreement = sla(step.kind, totals) if totals is not None else None
    if agreement is not None and not agreement.passed:
        flags.append((f"x SLA {agreement.achieved_per_s / agreement.target_per_s:.0%}", "sla"))
    if totals is not None and any(role.saturated for role in totals.roles.values()):
        flags.append(("? client-bound", "warning"))
    if any(event.kind == "server_error" for event in events):
        flags.append(("? errors", "warning"))
    flags += [(f"? drift: {event.data.get('text', '')}", "warning") for event in between if event.kind == "drift"][-1:]
    flags += [("probed", "dim")] if totals is not None and totals.observers else []
    return replace(
        base,
        step=step.name,
        when_ns=session.wall(step.started_ns),
        started_ns=step.started_ns,
        ended_ns=step.ended_ns,
        rate_per_s=step.rate_per_s,
        time_s=step.time_s,
        stalls=len(incidents_of(event for event in events if event.kind == "stall")),
        stalled=_stalls(events),
        flags=tuple(flags),
    )


def _by_step(events: Iterable[EventRow]) -> dict[int | None, list[EventRow]]:
    by_step: dict[int | None, list[EventRow]] = {}
    for event in events:
        by_step.setdefault(event.step_id, []).append(event)
    return by_step


def _stalls(events: Iterable[EventRow]) -> Spans:
    return merged((e.started_ns, e.ended_ns or e.started_ns) for e in events if e.kind == "stall")


def merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """Sort spans and merge those that overlap or touch: two roles stalled together are one stall."""
    apart: list[tuple[int, int]] = []
    for from_, until in sorted(spans):
        if apart and from_ <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], until))
        else:
            apart.append((from_, until))
    return tuple(apart)


def seconds_of(spans: Iterable[tuple[int, int]]) -> float:
    return sum(until - from_ for from_, until in spans) / SECOND_NS
