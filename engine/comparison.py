"""What a comparison of builds, configs and kernels consists of; `engine.compare` makes one.

Cells of one repeat of one run make a pair; only pairs are judged. A verdict that the circumstances do not bear is
withheld and says why, but its numbers stay visible. `Comparison.record()` is the documented JSON, see `engine.report`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any, Literal

from engine import hangs, metrics, origins
from engine.model import PROBED_ARM, Subject, sla
from engine.results import CellResult, RunResult, StepResult

Pair = tuple[CellResult, CellResult]  # base, other


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that is compared. Where both sides are below `negligible` a ratio of them means nothing."""

    name: str
    title: str
    better: Literal["more", "less"]
    negligible: float = 0.0


METRICS: tuple[Metric, ...] = (
    Metric("rate_per_s", "ops/s", "more"),
    Metric("dbms_cpu_us_per_op", "server CPU us/op", "less", 0.01),
    Metric("client_cpu_us_per_op", "client CPU us/op", "less", 0.01),
    Metric("ctx_switches_per_op", "switches/op", "less", 0.001),
    Metric("runq_us_per_op", "run-queue us/op", "less", 0.05),
    Metric("plan_us_per_op", "planning us/op", "less", 0.05),
    Metric("wal_bytes_per_op", "WAL bytes/op", "less", 1.0),
    Metric("read_kb_per_op", "kB read/op", "less", 0.01),
    Metric("written_kb_per_op", "kB dirtied/op", "less", 0.01),
    Metric("device_written_kb_per_op", "device kB written/op", "less", 0.01),
    Metric("heap_bytes", "heap bytes", "less"),
    Metric("index_bytes", "index bytes", "less"),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One subject against the base (an A/A double against its twin) in one metric of one step.

    `verdict` is one of `engine.statistics.Verdict`; `more_pairs` goes with `inconclusive`.
    `noise_floor` is how far the base against itself strays in this step and metric, when A/A was run.
    """

    step: str
    subject: Subject
    name: str  # of the subject in this comparison
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    verdict: str
    reasons: tuple[str, ...] = ()
    more_pairs: int | None = None
    better: bool | None = None  # which side of 1 the ratio is on, as the user feels it
    noise_floor: float | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A cell that is not part of the comparison, and why."""

    run: str
    cell: str
    name: str
    repeat: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """How the cells of a subject lie in one metric of a step: see `engine.statistics.Scatter`."""

    step: str
    name: str  # of the subject
    metric: str
    cv: float
    gap: float
    gap_ratio: float | None
    wide: bool
    two_modes: bool


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at to see whether cells are of one kind, and what was found."""

    what: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a report, a screen or a script needs. `names` are the subjects, the base first."""

    base: Subject
    names: dict[Subject, str]
    runs: tuple[RunResult, ...]
    steps: tuple[str, ...]
    cells: tuple[CellResult, ...]  # those compared
    left_out: tuple[LeftOut, ...]
    ratios: tuple[Ratio, ...]
    findings: tuple[str, ...]
    margin: float
    spreads: tuple[Spread, ...] = ()
    likeness: dict[Subject, tuple[Check, ...]] = field(default_factory=dict)

    def opposite(self, subject: Subject) -> Subject:
        """What a subject is compared with: the base, or for a double (A/A, probed) the one that it doubles."""
        return replace(subject, arm="") if subject.arm else self.base

    def of(self, subject: Subject, step: str) -> list[StepResult]:
        """A step's results in all cells of a subject."""
        return [cell.steps[step] for cell in self.cells if cell.cell.subject == subject and step in cell.steps]

    def values(self, subject: Subject, step: str, metric: str) -> list[float]:
        """One figure in all cells of a subject that have it, in order of time."""
        found = (metrics.step_figures(result.kind, result.totals)[metric] for result in self.of(subject, step))
        return [value for value in found if value is not None]

    def ratio(self, subject: Subject, step: str, metric: str) -> Ratio | None:
        """The ratio of a subject's figure to the base's."""
        wanted = (subject, step, metric)
        return next((ratio for ratio in self.ratios if (ratio.subject, ratio.step, ratio.metric) == wanted), None)

    def sla(self, subject: Subject, step: str) -> tuple[int, int] | None:
        """Cells that passed the step's SLA, and all; None where there is none."""
        judged = [sla(result.kind, result.totals) for result in self.of(subject, step)]
        passed = [agreement.passed for agreement in judged if agreement is not None]
        return (sum(passed), len(passed)) if passed else None

    def most_pairs(self) -> int:
        """The largest number of pairs that any verdict rests on."""
        return max((ratio.pairs for ratio in self.ratios), default=0)

    def record(self) -> dict[str, Any]:
        """The JSON form; no NaN, null where there is no value."""
        return {
            "base": self.names[self.base],
            "runs": [run.name for run in self.runs],
            "margin": self.margin,
            "subjects": [{"name": name, **asdict(subject)} for subject, name in self.names.items()],
            "steps": list(self.steps),
            "cells": [record for cell in self.cells for record in self._cell_records(cell)],
            "ratios": [_ratio_record(ratio) for ratio in self.ratios],
            "left_out": [asdict(cell) for cell in self.left_out],
            "findings": list(self.findings),
            "folders": {run.name: str(run.path) for run in self.runs},
            "pairs": self.most_pairs(),
            "kernels": list(dict.fromkeys(origins.release_of(run) for run in self.runs)),
            "workload": self._workload(),
            "metrics": [{"name": metric.name, "title": metric.title, "better": metric.better} for metric in METRICS],
            "builds": [{"run": run.name, **build} for run in self.runs for build in run.manifest.get("builds", ())],
            "spreads": [_spread_record(spread) for spread in self.spreads],
            "likeness": [
                {"subject": self.names[subject], "what": check.what, "ok": check.ok, "text": check.text}
                for subject, checks in self.likeness.items()
                for check in checks
            ],
        }

    def _workload(self) -> dict[str, Any]:
        workload = self.runs[0].manifest["workload"]
        named = {key: workload.get(key) for key in ("name", "generation", "scale")}
        return {**named, "clients": workload.get("clients", 1), "departures": list(origins.departures(workload))}

    def _cell_records(self, cell: CellResult) -> list[dict[str, Any]]:
        subject = cell.cell.subject
        return [
            {
                **asdict(subject),
                "subject": self.names[subject],
                "run": cell.run,
                "cell": cell.cell.id,
                "ordinal": cell.cell.ordinal,
                "repeat": cell.cell.repeat,
                "step": step.name,
                "kind": step.kind,
                **metrics.summary(step.kind, step.totals),
                "stall_s": step.stall_s,
                "stalls": [{**stall, "where": _where(stall)} for stall in step.stalls],
            }
            for step in cell.steps.values()
        ]


def _where(stall: dict[str, Any]) -> list[str]:
    return hangs.lines(str(stall.get("role", "")), stall.get("snapshot"))


def _ratio_record(ratio: Ratio) -> dict[str, Any]:
    record = asdict(ratio)
    subject = record.pop("subject")
    return {**subject, "subject": record.pop("name"), **record, "reasons": list(ratio.reasons)}


def _spread_record(spread: Spread) -> dict[str, Any]:
    record = asdict(spread)
    return {"step": record.pop("step"), "subject": record.pop("name"), **record}


def subject_names(subjects: Sequence[Subject]) -> dict[Subject, str]:
    """Names that tell the subjects apart by no more than what differs between them."""
    parts: tuple[Callable[[Subject], str], ...] = (
        lambda subject: subject.build,
        lambda subject: subject.config,
        lambda subject: subject.kernel,
    )
    told = [part for part in parts if len({part(subject) for subject in subjects}) > 1] or [parts[0]]
    arms = {"": "", "aa": " A/A", PROBED_ARM: " probed"}
    return {
        subject: "/".join(part(subject) for part in told) + arms.get(subject.arm, f" {subject.arm}")
        for subject in subjects
    }


def pairs(cells: Iterable[CellResult], base: Subject, other: Subject) -> list[Pair]:
    """Finished cells of one repeat of one run, base first."""
    by_place: dict[tuple[str, int, Subject], CellResult] = {
        (cell.run, cell.cell.repeat, cell.cell.subject): cell for cell in cells
    }
    return [
        (by_place[run, repeat, base], cell)
        for (run, repeat, subject), cell in by_place.items()
        if subject == other and (run, repeat, base) in by_place
    ]


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def middle(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return median(values) if values else None
