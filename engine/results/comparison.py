"""A comparison of builds, configs and kernels: the values of `bench compare --json`, and the questions put to them.

`analysis.answer.compare` makes one. Reports print it and the terminal shows it; `bench schema compare` prints its
JSON Schema. Keys are only ever added. Null stands where there is no value; NaN and infinity never occur.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Literal, Self

from engine.core.model import Build, Subject, baseline
from engine.results.averages import mean
from engine.results.cell_step import CellStep
from engine.results.function_cost import FunctionCosts
from engine.results.plan_change import PlanChange, PlanningRatio
from engine.results.published import PublishedTable
from engine.results.setting_difference import SettingDifference
from engine.results.sweep import Sweep
from engine.results.time_parts import Attribution

Verdict = Literal["faster", "slower", "same", "no slower", "no faster", "undecided", "withheld", "none"]
Unit = Literal["machine", "boot"]
CHANGED: tuple[Verdict, ...] = ("faster", "slower")
KNOWN: tuple[Verdict, ...] = (*CHANGED, "same")  # more pairs add nothing but precision
ANSWERS: tuple[Verdict, ...] = (*KNOWN, "no slower", "no faster")
UNCLEAR: tuple[Verdict, ...] = ("no slower", "no faster", "undecided")
# How a verdict is shown: as an arrow (better, worse), or by its sign.
SIGNS: dict[Verdict, str] = {
    "faster": "better", "slower": "worse", "same": "=", "withheld": "?", "none": " ", **dict.fromkeys(UNCLEAR, "~"),
}  # fmt: skip
RATE, TIME = "rate_per_s", "time_s"
PRIMARY_METRICS = (RATE, TIME)  # a step has one of them
# These have verdicts, too; all other metrics are causes.
CPU = "server_cpu_us_per_op"
INSTRUCTIONS = "instructions_per_op"
COSTS: dict[str, dict[Verdict, str]] = {  # nothing takes longer by them: there is more of them, or less
    name: {"faster": "less", "slower": "more", "no slower": "no more", "no faster": "no less"}
    for name in (CPU, INSTRUCTIONS)
}
DELETE_PLAN = "delete_plan_us"  # per DELETE
# Quantiles of the response time of the statements that the primary metric counts, and the longest one.
LATENCIES = {"latency_p50_us": "p50", "latency_p95_us": "p95", "latency_p99_us": "p99", "latency_max_us": "longest"}
# Metrics with verdicts besides the primary ones, and the family in which each is judged.
FAMILIES = {name: name for name in (CPU, INSTRUCTIONS, DELETE_PLAN)} | dict.fromkeys(LATENCIES, "latency")
DURATIONS = frozenset({TIME, "user_s", "system_s", "floor_s"})  # figures that are shown with a unit of time
MIN_PAIRS = 3  # fewer give no verdict, even if there is an interval


@dataclass(frozen=True, slots=True)
class ComparedSubject:
    """What is compared: a build under a config and a kernel, by its name in tables.

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
class Metric:
    """A figure that is compared, and which way is better."""

    name: str
    title: str
    better: Literal["more", "less"] = "more"


@dataclass(frozen=True, slots=True)
class UnitEffect:
    """How machines, or boots of one machine, differ in a ratio whose pairs were measured on several: `unit` says which.

    `ratios` are each unit's mean; `tau` is the scatter of the units' log ratios beyond that of their pairs; `disagrees`
    names units that differ significantly from the others, by the margin or more.
    """

    ratios: dict[str, float]
    tau: float
    disagrees: tuple[str, ...] = ()
    unit: Unit = "machine"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One subject against its baseline (a control against its original) in one metric of one step.

    `low` and `high` bound it with 95% confidence. `verdict` is the user's view: `slower` for less throughput and for
    more CPU per operation, too (printed as `more`: see `COSTS`); `none` is for a single pair, nothing to judge, or a
    cause, which has no verdict. `flagged` marks a cause that differs by the margin or more, tested among all causes.
    `reasons` say why the verdict was withheld, or why there is no ratio. `differs` says whether the side of 1 is
    certain: always with `faster` and `slower`, and sometimes with `same`. `among` is the number of ratios among which
    less is certain than the interval alone shows. `more_pairs` is how many pairs would make what is `undecided`, `no
    slower` or `no faster` slower, faster or the same, four times in five. `joint_low` and `joint_high` bound what is
    `faster` or `slower`: at most 5% of the bounds quoted are wrong, although only these are quoted.

    `visible_effect` is the smallest effect, as a fraction, that these pairs would show four times in five.
    `noise_floor` is how far the base strays from itself in this step and metric, if there was an A/A control.
    `left_out` says which pairs are not part of it and why. `machines` is for pairs from several machines, or from three
    boots or more of one: the interval then covers machines, or boots of this one.
    """

    step: str
    subject: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    verdict: Verdict
    build: str = ""
    config: str = ""
    kernel: str = "host"
    control: str = ""
    reasons: tuple[str, ...] = ()
    more_pairs: int | None = None
    better: bool | None = None  # the side of 1 on which the ratio is, as the user sees it
    noise_floor: float | None = None
    left_out: tuple[str, ...] = ()
    flagged: bool = False
    visible_effect: float | None = None
    machines: UnitEffect | None = None
    differs: bool = False
    among: int | None = None
    joint_low: float | None = None
    joint_high: float | None = None

    @property
    def sign(self) -> str:
        """`better` or `worse`, which are shown as arrows, or the sign of the verdict: see `SIGNS`."""
        if self.flagged:
            return "better" if self.better else "worse"
        return SIGNS[self.verdict]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why the verdict was withheld, and which pairs are left out."""
        return (*self.reasons, *self.left_out)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval to show: joint bounds of what is faster or slower; None for a single pair."""
        low, high = self.joint_low or self.low, self.joint_high or self.high
        return None if low is None or high is None else (low, high)

    @property
    def effect(self) -> str:
        """`-3.1% [-4.4, -1.7]`; `?` without an interval."""
        if self.ratio is None or self.bounds is None:
            return "?"
        low, high = self.bounds
        return f"{self.ratio - 1:+.1%} [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"

    @property
    def verdict_text(self) -> str:
        """In words: `slower`, for a cost `more`; `same, a little slower`; `undecided among 10, +3 pairs`; `flagged`."""
        words = COSTS.get(self.metric, {})
        if self.flagged:
            return "flagged"
        if self.verdict == "none":
            return ""
        among = f" among {self.among}" if self.among else ""
        more = f", +{self.more_pairs} pair{'s' if self.more_pairs != 1 else ''}" if self.more_pairs else ""
        if self.verdict == "same" and self.differs:
            sign: Verdict = "faster" if self.better else "slower"
            more = f", a little {words.get(sign, sign)}"
        return f"{words.get(self.verdict, self.verdict)}{among}{more}"


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps of one kind and their common ratio, whose `step` is the kind: see `analysis.ratios.group_verdicts`."""

    steps: tuple[str, ...]
    ratio: Ratio


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
    """One check of whether the cells of a subject and of its baseline are comparable, and its finding."""

    subject: str
    what: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class RunBuild(Build):
    """A build as one run had it."""

    run: str = ""

    @classmethod
    def of(cls, run: str, build: Build) -> Self:
        return cls(run=run, **{each.name: getattr(build, each.name) for each in fields(build)})


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


@dataclass(frozen=True)
class Comparison:
    """All that a report, a screen or a script needs.

    `answer` has each subject except controls, `cells` one entry per cell and step, `folders` the folder of each run;
    `pairs` is the largest number of pairs behind any ratio, `kernels` the releases under which the runs were made;
    `findings` are sentences. `units` say what a step's rate counts (`rows/s`, `queries/s`), or `s` if its primary
    metric is a time. `design` says what is interleaved: `cells`, or `slices of 20 ms` in steps that allow it. `route`
    is how clients connect; `published` are tables of the preset's publication. `attributions` explain each rate that
    differs. Of statements, `result_differences` are sentences about those that fail or return something else on one
    build, `plan_changes` those with another plan, `planning` their planning times. `functions` says of
    each step and subject that was sampled which functions cost more or less for certain.
    """

    base: str
    runs: tuple[str, ...]
    margin: float
    subjects: tuple[ComparedSubject, ...]  # the base first
    steps: tuple[str, ...]
    metrics: tuple[Metric, ...]
    cells: tuple[CellStep, ...]
    ratios: tuple[Ratio, ...]
    left_out: tuple[LeftOutCell, ...]
    findings: tuple[str, ...]
    folders: dict[str, str]
    pairs: int
    kernels: tuple[str, ...]
    workload: WorkloadSummary
    builds: tuple[RunBuild, ...]
    spreads: tuple[Spread, ...]
    comparability: tuple[Check, ...]
    answer: tuple[Answer, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    design: str = "cells"
    route: str = "the Unix socket"
    sweeps: tuple[Sweep, ...] = ()
    published: tuple[PublishedTable, ...] = ()
    attributions: tuple[Attribution, ...] = ()
    settings: tuple[SettingDifference, ...] = ()
    result_differences: tuple[str, ...] = ()
    plan_changes: tuple[PlanChange, ...] = ()
    planning: tuple[PlanningRatio, ...] = ()
    functions: tuple[FunctionCosts, ...] = ()
    groups: tuple[StepGroup, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(subject.name for subject in self.subjects)

    @property
    def others(self) -> tuple[ComparedSubject, ...]:
        """Subjects compared with the base, controls last."""
        rest = [subject for subject in self.subjects if subject.name != self.base]
        return tuple(sorted(rest, key=lambda subject: subject.control != ""))

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
        """The figure to show beside a ratio: the baseline's mean times that ratio; without one, the mean of cells."""
        known = self.ratio(subject, step, metric)
        if known is not None and known.ratio and (base := self.figure(self.baseline_of(subject), step, metric)):
            return base * known.ratio
        return mean(self.values(subject, step, metric))

    def ratio(self, subject: str, step: str, metric: str) -> Ratio | None:
        return self._by_metric.get((subject, step, metric))

    def spread(self, subject: str, step: str, metric: str) -> Spread | None:
        wanted = (subject, step, metric)
        return next((each for each in self.spreads if (each.subject, each.step, each.metric) == wanted), None)

    def checks(self, subject: str) -> list[Check]:
        """The checks of a subject, those that failed first."""
        return [check for check in self.comparability if check.subject == subject]

    def sliced(self, subject: str, step: str) -> bool:
        return any(cell.slices for cell in self.of(subject, step))

    def primary_metric(self, step: str) -> str:
        return TIME if step in self._timed else RATE

    def answer_for(self, subject: str) -> tuple[str, ...]:
        return next((answer.lines for answer in self.answer if answer.subject == subject), ())

    def attribution(self, subject: str, step: str) -> Attribution | None:
        """What makes the difference in time per operation, if the rates differ."""
        return next((each for each in self.attributions if (each.subject, each.step) == (subject, step)), None)

    def function_costs(self, subject: str, step: str) -> FunctionCosts | None:
        return next((each for each in self.functions if (each.subject, each.step) == (subject, step)), None)

    def changed_plans(self, subject: str, step: str | None = None) -> tuple[PlanChange, ...]:
        """The statements of a step, or of all, whose plan is another than the baseline's."""
        return tuple(each for each in self.plan_changes if each.subject == subject and step in (None, each.step))

    def causes(self, rate: Ratio, most: int = 3) -> list[Ratio]:
        """Flagged causes of a primary metric that differs, the largest ratios first."""
        if rate.verdict == "same":
            return []
        found = [
            ratio
            for ratio in self.ratios
            if (ratio.step, ratio.subject) == (rate.step, rate.subject)
            and (ratio.flagged or (ratio.metric in (*COSTS, DELETE_PLAN) and ratio.verdict in CHANGED))
        ]
        return sorted(found, key=lambda ratio: abs(math.log(ratio.ratio or 1.0)), reverse=True)[:most]

    def in_pairs(self, subject: str, step: str) -> list[tuple[CellStep, CellStep]]:
        """Cells of one repeat of one run, the baseline's first."""
        ours = {(cell.run, cell.repeat): cell for cell in self.of(self.baseline_of(subject), step)}
        found = ((ours.get((cell.run, cell.repeat)), cell) for cell in self.of(subject, step))
        return [(base, other) for base, other in found if base is not None]

    @cached_property
    def _timed(self) -> frozenset[str]:
        return frozenset(cell.step for cell in self.cells if cell.time_s is not None)

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], list[CellStep]]:
        found: dict[tuple[str, str], list[CellStep]] = {}
        for cell in sorted(self.cells, key=lambda cell: (self.runs.index(cell.run), cell.ordinal)):
            found.setdefault((cell.subject, cell.step), []).append(cell)
        return found

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str, str], Ratio]:
        return {(ratio.subject, ratio.step, ratio.metric): ratio for ratio in self.ratios}
