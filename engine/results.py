"""The results of a run, read from its journal: cells with their steps, and what became of each cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine import metrics
from engine.journal import Attempt, EventRow, JournalReader, StepRow
from engine.model import Cell, StepTotals, cell_of, progress


@dataclass(frozen=True, slots=True)
class StepResult:
    """A finished step: its totals, and its stalls as in `engine.stalls.Stall`. `id` is the journal's."""

    id: int
    name: str
    kind: str
    plan: dict[str, Any]
    totals: StepTotals
    stalls: tuple[dict[str, Any], ...]

    @property
    def stall_s(self) -> float:
        """Seconds in which at least one connection was stalled."""
        spans = sorted((stall["started_ns"], stall["ended_ns"]) for stall in self.stalls)
        total_ns, reached_ns = 0, 0
        for started_ns, ended_ns in spans:
            total_ns += max(0, ended_ns - max(started_ns, reached_ns))
            reached_ns = max(reached_ns, ended_ns)
        return total_ns / 1e9


@dataclass(frozen=True, slots=True)
class CellResult:
    """A planned cell and its outcome: `finished` ones have all their steps, others a reason why not.

    `environments` are the machine's records before and after the cell (`engine.environment`).
    """

    run: str
    cell: Cell
    state: str  # finished, failed, interrupted, running, not run
    reason: str
    steps: dict[str, StepResult]
    environments: tuple[dict[str, Any], ...]
    drift: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run: its manifest and all its planned cells in order."""

    path: Path
    manifest: dict[str, Any]
    cells: tuple[CellResult, ...]

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.manifest.get("run", self.path.name))


def load(path: Path) -> RunResult:
    """Reads a run, finished or under way. Raises UserError when it is none or cannot be read."""
    with JournalReader(path) as reader:
        manifest = reader.manifest
        attempts: dict[str, Attempt] = {}
        for attempt in reader.attempts():
            if attempts.get(attempt.cell) is None or attempts[attempt.cell].state != "finished":
                attempts[attempt.cell] = attempt
        events = reader.events()
        cells = [cell_of(record) for record in manifest["cells"]]
        name = str(manifest.get("run", path.name))
        results = tuple(_cell(reader, name, cell, attempts.get(cell.id), events, manifest) for cell in cells)
        return RunResult(path, manifest, results)


def rate_seconds(reader: JournalReader, step: StepResult) -> list[metrics.Second]:
    """The per-second counts of a step, for percentiles of its rate."""
    return [
        metrics.Second(role.client, role.name, row.t_ns, row.dt_ns, progress(role.name, row))
        for role in reader.roles(step.id)
        for row in reader.role_seconds(role.id)
    ]


def steps_of(result: RunResult) -> Iterable[tuple[CellResult, StepResult]]:
    """Every finished step with its cell, in order."""
    return ((cell, step) for cell in result.cells for step in cell.steps.values())


def published_by_cell(runs: Iterable[RunResult]) -> list[tuple[CellResult, str, dict[str, float | None]]]:
    """The published figures of every finished cell and step."""
    lines = []
    for run in runs:
        with JournalReader(run.path) as reader:
            for cell, step in steps_of(run):
                figures = metrics.published(step.kind, step.totals, rate_seconds(reader, step))
                lines.append((cell, step.name, figures))
    return lines


def _cell(
    reader: JournalReader,
    run: str,
    cell: Cell,
    attempt: Attempt | None,
    events: Sequence[EventRow],
    manifest: dict[str, Any],
) -> CellResult:
    if attempt is None:
        return CellResult(run, cell, "not run", "", {}, (), ())
    own = [event for event in events if event.attempt_id == attempt.id]
    drift = tuple(str(event.data.get("text", "")) for event in own if event.kind == "drift")
    environments = tuple(attempt.origin[key] for key in ("environment", "environment_after") if attempt.origin.get(key))
    steps: dict[str, StepResult] = {}
    if attempt.state == "finished":
        clients = int(manifest["workload"].get("clients", 1))
        for row in reader.steps(attempt.id):
            if row.totals is not None:
                stalls = tuple(_stall(event, row) for event in own if event.step_id == row.id and event.kind == "stall")
                totals = _totals(row, clients)
                steps[row.name] = StepResult(row.id, row.name, row.kind, row.plan, totals, stalls)
    return CellResult(run, cell, attempt.state, attempt.reason or "", steps, environments, drift)


def _stall(event: EventRow, step: StepRow) -> dict[str, Any]:
    """A stall with both its ends: one that the engine could not close ends with its step."""
    ended_ns = event.ended_ns if event.ended_ns is not None else step.ended_ns
    return {"role": event.role, **event.data, "started_ns": event.started_ns, "ended_ns": ended_ns or event.started_ns}


def _totals(row: StepRow, clients: int) -> StepTotals:
    """The totals, with the rows that an index build covers taken from its plan when they were not counted."""
    assert row.totals is not None
    if row.kind == "index" and row.totals.rows_indexed == 0:
        return replace(row.totals, rows_indexed=int(row.plan.get("rows_indexed", 0)) * clients)
    return row.totals


def step_order(runs: Iterable[RunResult]) -> tuple[str, ...]:
    """The names of all steps that any cell has finished, in their order."""
    names = (name for run in runs for cell in run.cells for name in cell.steps)
    return tuple(dict.fromkeys(names))
