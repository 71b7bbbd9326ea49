"""A comparison of builds, configs and kernels: the values of `bench compare --json`, and the questions put to them.

`analysis.answer.compare` makes one. Reports print it and the terminal shows it; `bench schema compare` prints its
JSON Schema. Null stands for a missing value; NaN and infinity never occur.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from engine.core.model import Build, Subject, baseline
from engine.core.record import grouped
from engine.results.averages import mean
from engine.results.cell_step import CellStep
from engine.results.ratio import CHANGED, COSTS, DELETE_PLAN, RATE, TIME, Metric, Ratio
from engine.results.section import Section


@dataclass(frozen=True, slots=True)
class ComparedSubject:
    """A subject of comparison: a build under a config and a kernel, by its name in tables.

    `control` is `aa` for the base compared with itself, `probed` for the base with the probes whose cost is measured.
    """

    name: str
    build: str
    config: str
    kernel: str = "host"
    control: str = ""

    @property
    def subject(self) -> Subject:
        return Subject(self.build, self.config, self.kernel, self.control)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for a subject, line by line: see `analysis.answer.answer_lines`."""

    subject: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class LeftOutCell:
    """A cell that is not part of the comparison, and why."""

    run: str
    cell: str
    name: str
    repeat: int
    state: str  # alone, failed, interrupted, running, not run, damaged
    reason: str

    @property
    def text(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"left out: {self.name} repeat {self.repeat} ({self.run} {self.cell}) {self.state}{why}"


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a subject's cells in one metric of a step: see `analysis.statistics.inference.Scatter`."""

    step: str
    subject: str
    metric: str
    cv: float
    gap: float
    wide: bool
    bimodal: bool


@dataclass(frozen=True, slots=True)
class Check:
    """One check of whether the cells of a subject and of its base are comparable, and its finding."""

    subject: str
    what: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class RunBuild(Build):
    """A build in one of the runs."""

    run: str = ""

    @classmethod
    def of(cls, run: str, build: Build) -> Self:
        return cls(run=run, **{field.name: getattr(build, field.name) for field in fields(build)})


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """The workload of all runs; `non_default` are options that differ from its published form, in words."""

    name: str
    title: str = ""
    generation: str = ""
    scale: str = ""
    clients: int = 1
    non_default: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.name} {self.title or f'{self.generation} {self.scale}'}".strip()


@dataclass(frozen=True, slots=True)
class MeasuredRuns:
    """The runs that are compared, and how they were measured: `folders` by their names.

    `kernels` are the releases under which the runs were made. `design` is the interleaved unit: `cells`, or `slices of
    20 ms` in steps that allow it. `route` is how clients connect.
    """

    folders: dict[str, str]
    kernels: tuple[str, ...]
    workload: WorkloadSummary
    builds: tuple[RunBuild, ...]
    design: str = "cells"
    route: str = "the Unix socket"


@dataclass(frozen=True, slots=True)
class Remarks:
    """Remarks on the data of a comparison: sentences, cells left out, the spread of cells, and checks."""

    findings: tuple[str, ...]
    left_out: tuple[LeftOutCell, ...]
    spreads: tuple[Spread, ...]
    comparability: tuple[Check, ...]


@dataclass(frozen=True)
class Comparison:
    """Subjects compared in each step; in its JSON form the entries of `GROUPS` are beside the others.

    `answer` has each subject except controls, `cells` one entry per cell and step. `units` are of the rate of each step
    (`rows/s`, `queries/s`), or `s` if its primary metric is a time. `sections` hold all other findings, by key:
    `results` that differ (sentences only), `plans` of statements that changed, `sweep` of a number such as clients,
    `groups` of steps, `published` ratios beside ours, `causes` of rates that differ, `functions` that cost more or
    less, `settings` that differ, `planning` times of statements.
    """

    base: str
    margin: float
    subjects: tuple[ComparedSubject, ...]  # the base first
    steps: tuple[str, ...]
    metrics: tuple[Metric, ...]
    cells: tuple[CellStep, ...]
    ratios: tuple[Ratio, ...]
    measured: MeasuredRuns
    remarks: Remarks
    answer: tuple[Answer, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self.measured.folders)

    @cached_property
    def pairs(self) -> int:
        """The largest number of pairs behind any ratio."""
        return max((ratio.pairs for ratio in self.ratios), default=0)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(subject.name for subject in self.subjects)

    @property
    def others(self) -> tuple[ComparedSubject, ...]:
        """Subjects compared with the base, controls last."""
        rest = [subject for subject in self.subjects if subject.name != self.base]
        return tuple(sorted(rest, key=lambda subject: subject.control != ""))

    def section(self, key: str) -> tuple[Section, ...]:
        """The parts of a section that was found when the runs were compared."""
        return tuple(section for section in self.sections if section.key == key)

    def subject(self, name: str) -> ComparedSubject:
        return next(subject for subject in self.subjects if subject.name == name)

    def baseline_of(self, name: str) -> str:
        names = {other.subject: other.name for other in self.subjects}
        return names.get(baseline(self.subject(name).subject, self.subject(self.base).subject), self.base)

    def of(self, subject: str, step: str) -> list[CellStep]:
        """A step in all cells of a subject, in order of time."""
        return self._by_place.get((subject, step), [])

    def values(self, subject: str, step: str, metric: str) -> list[float]:
        """One figure in all cells of a subject that have it."""
        return [value for cell in self.of(subject, step) if (value := cell.figure(metric)) is not None]

    def figure(self, subject: str, step: str, metric: str) -> float | None:
        """The figure to show next to a ratio: the base's mean times that ratio; without one, the mean of cells."""
        known = self.ratio(subject, step, metric)
        if known is not None and known.ratio and (base := self.figure(self.baseline_of(subject), step, metric)):
            return base * known.ratio
        return mean(self.values(subject, step, metric))

    def ratio(self, subject: str, step: str, metric: str) -> Ratio | None:
        return self._by_metric.get((subject, step, metric))

    def spread(self, subject: str, step: str, metric: str) -> Spread | None:
        wanted = (subject, step, metric)
        return next(
            (known for known in self.remarks.spreads if (known.subject, known.step, known.metric) == wanted), None
        )

    def checks(self, subject: str) -> list[Check]:
        """The checks of a subject, those that failed first."""
        return [check for check in self.remarks.comparability if check.subject == subject]

    def sliced(self, subject: str, step: str) -> bool:
        return any(cell.slices for cell in self.of(subject, step))

    def primary_metric(self, step: str) -> str:
        return TIME if step in self._timed else RATE

    def answer_for(self, subject: str) -> tuple[str, ...]:
        return next((answer.lines for answer in self.answer if answer.subject == subject), ())

    def changed_plans(self, subject: str, step: str | None = None) -> tuple[Section, ...]:
        """The statements of a step, or of all, whose plan is another than the base's."""
        of = ((section, section.rows[0]) for section in self.section("plans"))
        return tuple(section for section, row in of if row.subject == subject and step in (None, row.step))

    def causes(self, rate: Ratio, most: int = 3) -> list[Ratio]:
        """Flagged causes of a primary metric that differs, the largest ratios first."""
        if rate.verdict == "same":
            return []
        causes = [
            ratio
            for ratio in self.ratios
            if (ratio.step, ratio.subject) == (rate.step, rate.subject)
            and (ratio.flagged or (ratio.metric in (*COSTS, DELETE_PLAN) and ratio.verdict in CHANGED))
        ]
        return sorted(causes, key=lambda ratio: abs(math.log(ratio.ratio or 1.0)), reverse=True)[:most]

    def in_pairs(self, subject: str, step: str) -> list[tuple[CellStep, CellStep]]:
        """Cells of one repeat of one run, the base's first."""
        ours = {(cell.run, cell.repeat): cell for cell in self.of(self.baseline_of(subject), step)}
        pairs = ((ours.get((cell.run, cell.repeat)), cell) for cell in self.of(subject, step))
        return [(base, other) for base, other in pairs if base is not None]

    @cached_property
    def _timed(self) -> frozenset[str]:
        return frozenset(cell.step for cell in self.cells if cell.time_s is not None)

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], list[CellStep]]:
        by_place: dict[tuple[str, str], list[CellStep]] = {}
        for cell in sorted(self.cells, key=lambda cell: (self.runs.index(cell.run), cell.ordinal)):
            by_place.setdefault((cell.subject, cell.step), []).append(cell)
        return by_place

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str, str], Ratio]:
        return {(ratio.subject, ratio.step, ratio.metric): ratio for ratio in self.ratios}


GROUPS = {"measured": MeasuredRuns, "remarks": Remarks}  # fields of a comparison


def comparison_of(record: dict[str, Any]) -> Comparison:
    """Read the JSON form. Raises UserError."""
    return grouped(record, Comparison, GROUPS, "bench compare --json")
