"""The results of a run, read from its journal: cells with their steps, and the outcome of each cell."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.analysis.cells import hang_site, transactions
from engine.analysis.statistics import metrics
from engine.core.errors import UserError
from engine.core.model import Cell, Manifest
from engine.core.record import converted
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, EngineStart, EventRow, SliceRow, StepRow
from engine.journal.totals import StepTotals
from engine.results.cell_step import StallRecord
from workloads.api.report import Report

Environment = dict[str, Any]
MOST_FIGURE = 1e30  # no measurement exceeds it, or is below its reciprocal


@dataclass(frozen=True, slots=True)
class StepResult:
    """A finished step: its totals, the figures from them (`metrics.summary`), its stalls. `id` is the journal's."""

    id: int
    name: str
    kind: str
    totals: StepTotals
    figures: dict[str, Any]
    stalls: tuple[StallRecord, ...]
    slices: tuple[SliceRow, ...] = ()  # of interleaved cells
    planned_s: float = 0.0  # length; 0 if it is given as work
    group: str = ""  # of steps that do alike work
    vacuums: int = 0  # by autovacuum, of the workload's tables: up to its end, since the workload itself vacuumed them
    report: Report = field(default_factory=Report)  # the clients'

    def figure(self, metric: str) -> float | None:
        value: float | None = self.figures[metric]
        return value

    @property
    def stall_s(self) -> float:
        """Seconds in which at least one connection was stalled."""
        total_ns, reached_ns = 0, 0
        for started_ns, ended_ns in sorted((stall.started_ns, stall.ended_ns) for stall in self.stalls):
            total_ns += max(0, ended_ns - max(started_ns, reached_ns))
            reached_ns = max(reached_ns, ended_ns)
        return total_ns / 1e9


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`sources` has the settings that are not built-in defaults; without `defaults`, `values` has only these."""

    values: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CellResult:
    """A planned cell and its outcome: `finished` ones have all their steps, others a reason why not.

    A cell is `alone` if it finished and another of its repeat did not: from then on its steps were not interleaved.
    `before` and `after` are the machine's records around the cell (`engine.host.environment`), if any.
    """

    run: str
    cell: Cell
    state: str  # finished, alone, failed, interrupted, running, not run, damaged
    reason: str = ""
    steps: dict[str, StepResult] = field(default_factory=dict)
    before: Environment | None = None
    after: Environment | None = None
    drift: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # what its server has that pgbed does not know, in words
    suspended: tuple[str, ...] = ()  # a sentence for each time the machine was suspended during a step
    seconds: float = 0.0  # that it took in all
    settings: ServerSettings = ServerSettings()

    @property
    def environments(self) -> tuple[Environment, ...]:
        return tuple(record for record in (self.before, self.after) if record)


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run: its manifest and its planned cells in order, without those never begun because it ended early.

    `boot` is the id of the machine's boot in which it began; empty if it is not known.
    """

    path: Path
    manifest: Manifest
    cells: tuple[CellResult, ...]
    span_ns: tuple[int, int] = (0, 0)  # when its first cell began and its last ended, Unix time
    boot: str = ""

    @property
    def whole_repeats(self) -> int:
        unfinished = {cell.cell.repeat for cell in self.cells if cell.state != "finished"}
        return len({cell.cell.repeat for cell in self.cells} - unfinished)

    @property
    def sandboxed(self) -> bool:
        """Whether it was measured in the sandbox of a Nix build, as a block of a farm."""
        return bool((self.manifest.environment.get("host") or {}).get("sandbox"))

    @property
    def name(self) -> str:
        return self.manifest.run

    @property
    def machine(self) -> str:
        """The identity of the machine; empty if not recorded."""
        return str((self.manifest.environment.get("host") or {}).get("machine") or "")


def load(path: Path) -> RunResult:
    """Read a run, finished or under way. Raises UserError if it is not a run or cannot be read.

    A cell with damaged records is `damaged` instead of finished, with the place of the damage as its reason.
    """
    with JournalReader(path) as reader:
        every = reader.attempts(origins=False)
        attempts = outcome.chosen(reader.manifest, every)
        planned = outcome.wanted(reader.manifest, reader.decisions(), attempts)
        finished = outcome.finished(reader.manifest, list(attempts.values()))
        sessions = reader.sessions()
        cells = tuple(_cell(reader, cell, attempts.get(cell.id), finished) for cell in planned)
        boot = sessions[0].boot_id if sessions else ""
        return RunResult(path, reader.manifest, cells, _span_ns(sessions, every), boot)


def _span_ns(sessions: Iterable[EngineStart], attempts: Iterable[Attempt]) -> tuple[int, int]:
    """Begin of the first attempt and end of the last, Unix time; (0, 0) without any."""
    start = {session.id: session for session in sessions}
    known = [(start[attempt.session_id], attempt) for attempt in attempts if attempt.session_id in start]
    began = [session.wall(attempt.started_ns) for session, attempt in known]
    ended = [session.wall(attempt.ended_ns or attempt.started_ns) for session, attempt in known]
    return (min(began), max(ended)) if known else (0, 0)


def _cell(reader: JournalReader, cell: Cell, attempt: Attempt | None, finished: Container[str]) -> CellResult:
    run = reader.manifest.run
    if attempt is None:
        return CellResult(run, cell, "not run")
    if attempt.state == "finished" and cell.id not in finished:
        return CellResult(run, cell, "alone", "another cell of its repeat has not finished")
    result = CellResult(run, cell, attempt.state, attempt.reason or "")
    try:
        return _read_cell(reader, result, attempt)
    except UserError as error:
        return CellResult(run, cell, "damaged", str(error))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Probes, samplers and snapshots write in free form: any of it may have been damaged.
        text = f"{type(error).__name__}: {error}"
        return CellResult(run, cell, "damaged", f"{reader.run / 'journal.db'}: cell {cell.id}: {text}")


def _is_plausible(value: float) -> bool:
    return value == 0 or 1 / MOST_FIGURE <= abs(value) <= MOST_FIGURE


def _read_cell(reader: JournalReader, result: CellResult, attempt: Attempt) -> CellResult:
    events = reader.events(attempt=attempt.id)
    steps: dict[str, StepResult] = {}
    vacuumed_ns = [event.ended_ns or 0 for event in events if _is_vacuum(event)]
    since_ns = attempt.started_ns
    for row in reader.steps(attempt.id) if attempt.state == "finished" else ():
        if row.totals is not None:
            # Earlier versions did not record whether the workload itself vacuumed: there no vacuum counts.
            since_ns = {True: row.started_ns, False: since_ns}.get(row.plan.get("vacuumed", ""), row.ended_ns or 0)
            stalls = tuple(_stall(event, row) for event in events if event.step_id == row.id and event.kind == "stall")
            totals = _totals(row, int(reader.manifest.workload.get("clients", 1)))
            report = converted(totals.report, Report, "a step's totals: report")
            figures = metrics.summary(row.kind, totals, report)
            figures["transactions"] = transactions.times(report.times_ms)
            invalid = [k for k, v in figures.items() if isinstance(v, float) and not _is_plausible(v)]
            if invalid or totals.seconds < 0 or not _is_plausible(totals.seconds):
                raise ValueError(f"step {row.name}: {', '.join(invalid) or 'seconds'}: not a valid number")
            planned_s = row.planned_s
            if not _is_plausible(planned_s):
                raise ValueError(f"step {row.name}: plan: seconds: not a valid number")
            steps[row.name] = StepResult(
                row.id,
                row.name,
                row.kind,
                totals,
                figures,
                stalls,
                tuple(reader.slices(row.id)),
                planned_s,
                row.group,
                sum(since_ns < ended_ns <= (row.ended_ns or 0) for ended_ns in vacuumed_ns),
                report,
            )
    where = f"{reader.run / 'journal.db'}: table attempt: origin"
    origin = reader.origin(attempt.id)
    before, after = (
        converted(origin.get(key), dict[str, dict[str, Any] | None] | None, where)  # type: ignore[arg-type]
        for key in ("environment", "environment_after")
    )
    server = converted(origin.get("server"), dict[str, Any] | None, where) or {}  # type: ignore[arg-type]
    unknown = tuple(converted(server.get("unknown", []), list[str], where))
    drift, suspended = (
        tuple(str(event.data.get("text", "")) for event in events if event.kind == kind)
        for kind in ("drift", "suspended")
    )
    seconds = ((attempt.ended_ns or attempt.started_ns) - attempt.started_ns) / 1e9
    return replace(
        result,
        steps=steps,
        before=before,
        after=after,
        drift=drift,
        unknown=unknown,
        suspended=suspended,
        seconds=seconds,
        settings=_settings(reader, attempt.id, converted(origin.get("defaults", {}), dict[str, str], where)),
    )


def _settings(reader: JournalReader, attempt: int, defaults: dict[str, str]) -> ServerSettings:
    rows = reader.settings(attempt)
    values = {name: value for name, value, _ in rows}
    return ServerSettings(defaults | values, {name: source for name, _, source in rows}, defaults)


def _is_vacuum(event: EventRow) -> bool:
    """Whether autovacuum vacuumed a table that is not the system's."""
    of_system = str(event.data.get("relation", "")).startswith("pg_")
    return event.kind == "autovacuum" and event.data.get("operation") == "vacuum" and not of_system


def _stall(event: EventRow, step: StepRow) -> StallRecord:
    """A stall with both its ends; one that the engine could not close ends with its step."""
    ended_ns = event.ended_ns or step.ended_ns or event.started_ns
    record = {"role": "", **event.data, "started_ns": event.started_ns, "ended_ns": ended_ns}
    stall = converted(record | ({"role": event.role} if event.role else {}), StallRecord, f"stall {event.id}")
    return replace(stall, where=tuple(hang_site.lines(stall.role, stall.snapshot)))


def _totals(row: StepRow, clients: int) -> StepTotals:
    """The totals; uncounted rows of an index build are taken from its plan."""
    assert row.totals is not None
    if row.kind == "index" and row.totals.rows_indexed == 0:
        return replace(row.totals, rows_indexed=int(row.plan.get("rows_indexed", 0)) * clients)
    return row.totals
