"""The cells of one run or several, laid out for a comparison: which subjects there are, and which cells make a pair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.analysis.cells.run_results import CellResult, RunResult, StepResult
from engine.core.model import Subject, baseline
from engine.results.ratio import DELETE_PLAN, LATENCIES, Metric

if TYPE_CHECKING:
    from engine.analysis.cells.alpha_spending import Levels

Pair = tuple[CellResult, CellResult]  # baseline, other

METRICS: tuple[Metric, ...] = (
    Metric("rate_per_s", "ops/s", "more"),
    Metric("server_cpu_us_per_op", "server CPU us/op", "less"),
    Metric("client_cpu_us_per_op", "client CPU us/op", "less"),
    Metric("ctx_switches_per_op", "switches/op", "less"),
    Metric("runq_us_per_op", "run-queue us/op", "less"),
    Metric("plan_us_per_op", "planning us/op", "less"),
    Metric(DELETE_PLAN, "planning us per DELETE", "less"),
    *(Metric(name, f"{title} response {name.rpartition('_')[2]}", "less") for name, title in LATENCIES.items()),
    Metric("wakeups_per_op", "wake-ups/op", "less"),
    Metric("migrations_per_op", "migrations/op", "less"),
    Metric("instructions_per_op", "instructions/op", "less"),
    Metric("wal_bytes_per_op", "WAL bytes/op", "less"),
    Metric("read_kb_per_op", "kB read/op", "less"),
    Metric("reads_per_op", "reads/op", "less"),
    Metric("pages_read_per_op", "pages read/op", "less"),
    Metric("read_us_per_op", "read time us/op", "less"),
    Metric("written_kb_per_op", "kB dirtied/op", "less"),
    Metric("device_written_kb_per_op", "device kB written/op", "less"),
    Metric("heap_bytes", "heap bytes", "less"),
    Metric("index_bytes", "index bytes", "less"),
    Metric("time_s", "time", "less"),
    Metric("user_s", "user time", "less"),
    Metric("system_s", "system time", "less"),
    Metric("memory_bytes", "peak memory", "less"),
)
NEGLIGIBLE = {  # if both sides are below it, a ratio means nothing
    "user_s": 0.02,
    "system_s": 0.02,
    "server_cpu_us_per_op": 0.01,
    "instructions_per_op": 1.0,
    "client_cpu_us_per_op": 0.01,
    "ctx_switches_per_op": 0.001,
    "runq_us_per_op": 0.05,
    "plan_us_per_op": 0.05,
    "wakeups_per_op": 0.001,
    "migrations_per_op": 0.001,
    "wal_bytes_per_op": 1.0,
    "read_kb_per_op": 0.01,
    "reads_per_op": 0.001,
    "pages_read_per_op": 0.001,
    "read_us_per_op": 0.05,
    "written_kb_per_op": 0.01,
    "device_written_kb_per_op": 0.01,
}


@dataclass(frozen=True, slots=True)
class ComparedCells:
    """The finished cells of some runs. `names` are the subjects, the base first."""

    runs: tuple[RunResult, ...]
    base: Subject
    names: dict[Subject, str]
    steps: tuple[str, ...]
    cells: tuple[CellResult, ...]
    margin: float
    levels: Levels  # of verdicts

    @property
    def others(self) -> list[Subject]:
        return [subject for subject in self.names if subject != self.base]

    def baseline_of(self, subject: Subject) -> Subject:
        return baseline(subject, self.base)

    def run_of(self, cell: CellResult) -> RunResult:
        return next(run for run in self.runs if run.name == cell.run)

    def of(self, subject: Subject, step: str) -> list[StepResult]:
        return [cell.steps[step] for cell in self.cells if cell.cell.subject == subject and step in cell.steps]

    def values(self, subject: Subject, step: str, metric: str) -> list[float]:
        """One figure in all cells of a subject that have it, in order of time."""
        figures = (result.figure(metric) for result in self.of(subject, step))
        return [value for value in figures if value is not None]

    def pairs(self, subject: Subject, step: str = "") -> list[Pair]:
        """Cells of one repeat of one run, the baseline's first; only those with the step, if one is given."""
        sides = pairs(self.cells, self.baseline_of(subject), subject)
        return [pair for pair in sides if not step or all(step in cell.steps for cell in pair)]


def pairs(cells: Iterable[CellResult], base: Subject, other: Subject) -> list[Pair]:
    """Finished cells of one repeat of one run, the base's first."""
    by_place = {(cell.run, cell.cell.repeat, cell.cell.subject): cell for cell in cells}
    return [
        (by_place[run, repeat, base], cell)
        for (run, repeat, subject), cell in by_place.items()
        if subject == other and (run, repeat, base) in by_place
    ]
