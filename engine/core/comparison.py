"""A comparison of builds, configs and kernels: the values of `bench compare --json`, and the questions put to them.

`engine.analysis.comparison` makes one. Reports print it and the terminal shows it; `bench schema compare` prints its
JSON Schema. Keys are only ever added. Null stands where there is no value; NaN and infinity never occur.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, Literal

from engine.core.attribution import Attribution
from engine.core.incidents import incidents, most_telling
from engine.core.model import Build, Sla, Subject, baseline
from engine.core.published import PublishedTable
from engine.core.sweep import Sweep

Verdict = Literal["faster", "slower", "same", "inconclusive", "withheld", "none"]
CHANGED: tuple[Verdict, ...] = ("faster", "slower")
# How a verdict is shown: as an arrow (better, worse), or by its sign.
SIGNS: dict[Verdict, str] = {
    "faster": "better", "slower": "worse", "same": "=", "inconclusive": "~", "withheld": "?", "none": " ",
}  # fmt: skip
RATE, TIME = "rate_per_s", "time_s"
FULL_RATE = "full_rate_per_s"  # while all clients worked, where each does a fixed amount
HEADLINES = (RATE, TIME)  # a step is judged by one of them
# These, too, have verdicts; all other metrics are causes. The p99 is that of further loads only.
CPU, P99 = "server_cpu_us_per_op", "p99_us"
INSTRUCTIONS = "instructions_per_op"
DURATIONS = frozenset({TIME, "user_s", "system_s", "floor_s"})  # figures that are shown with a unit of time
MIN_PAIRS = 3  # fewer give no verdict, though there may be an interval
STALLS, SLA = "stalls", "sla"  # figures of a cell that are counted, not judged


@dataclass(frozen=True, slots=True)
class ComparedSubject:
    """What is compared: a build under a config, a kernel and a workload, by the name that the tables use for it.

    `arm` is `aa` for the base's own double, `probed` for the double that bears the probes whose cost is asked for.
    `workload` is empty where all subjects have the same.
    """

    name: str
    build: str
    config: str
    kernel: str = "host"
    arm: str = ""
    workload: str = ""

    @property
    def subject(self) -> Subject:
        """What it is in the plan."""
        return Subject(self.build, self.config, self.kernel, self.arm, self.workload)


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that is compared, and which way is better."""

    name: str
    title: str
    better: Literal["more", "less"] = "more"


@dataclass(frozen=True, slots=True)
class Cause:
    """A likely cause of a stall: `score` is the part of the stall that it explains."""

    name: str = ""
    text: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class StallRecord:
    """A stall with both its ends: see `engine.observe.stalls.Stall`.

    `snapshot` is `engine.observe.stall_snapshot.StallSnapshot.record`, `where` the same in words.
    """

    role: str
    started_ns: int
    ended_ns: int
    duration_s: float
    client: int = 1
    trigger: str = ""
    depth: float = 0.0
    max_in_flight_ns: int = 0
    missed_rows: int = 0
    median_per_s: float = 0.0
    causes: tuple[Cause, ...] = ()
    snapshot: dict[str, Any] | None = None
    where: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """The likeliest cause in words; empty when none was found."""
        return (self.causes[0].text or self.causes[0].name) if self.causes else ""


@dataclass(frozen=True, slots=True)
class Incident:
    """Stalls of one client that overlap."""

    stalls: tuple[StallRecord, ...]

    @property
    def seconds(self) -> float:
        """From the beginning of the first to the end of the last."""
        began_ns = min(stall.started_ns for stall in self.stalls)
        return (max(stall.ended_ns for stall in self.stalls) - began_ns) / 1e9

    @property
    def roles(self) -> str:
        """Who stalled, in order."""
        return ", ".join(dict.fromkeys(stall.role for stall in self.stalls))

    @property
    def where(self) -> tuple[str, ...]:
        """Where the backend of the most telling stall hung, or that of another."""
        return self.main.where or next((stall.where for stall in self.stalls if stall.where), ())

    @property
    def main(self) -> StallRecord:
        """The stall that tells most about it."""
        return most_telling(
            self.stalls,
            lambda stall: (stall.causes[0].name, stall.causes[0].score or 0.0) if stall.causes else ("", 0.0),
        )


@dataclass(frozen=True, slots=True)
class StatementTime:
    """A statement of a script (they count from 1), and its mean time as the client that ran it says.

    The mean may be too long by `stop_ms`, because the client was stopped for a while. In slices it was so often that
    its stops are taken off: then `error_ms` is the standard error of the mean.
    """

    script: int
    statement: str
    mean_ms: float
    stop_ms: float = 0.0
    error_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class TransactionTimes:
    """The times of a step's transactions, of which each loads a file; `count` are those that were timed.

    `total_s` is their sum, over all clients; `stddev_ms` of a single one is null. MB are 10^6 bytes of the file, and
    rates those of the step. `each` is every one of them: [client, seconds since the step began at its end, ms].
    """

    count: int
    total_s: float
    mean_ms: float
    median_ms: float
    min_ms: float
    max_ms: float
    stddev_ms: float | None
    mb_per_s: float
    rows_per_s: float
    file_bytes: int
    file_rows: int
    file_sha256: str
    each: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class CellStep:
    """One step of one cell. Figures are `engine.analysis.metrics.summary`'s.

    `ordinal` is the cell's place in time. `ops` are rows, in query steps queries; `rows` those inserted or indexed.
    Where each client does a fixed amount, `first_end_s` is when the first had done its, and `full_rate_per_s` the rate
    until then, while all worked.
    `time_s` is there in place of `rate_per_s` where a step is judged by the time that something takes; `user_s`,
    `system_s` and `memory_bytes` (the peak) are of the programs that did it, which take `floor_s` to do nothing; of
    several runs in a cell `time_s` and these are the means, and `times_s` each run's. `work` are amounts that were
    done, by their names.
    `read_kb` is read from the device, `written_kb` made dirty in the page cache by server processes,
    `device_written_kb` written by the device, for whomever. `phases_by` is "exact" or "sampled". `probes` are {role:
    {figure: value}} (roles: the connections' server processes; client:ROLE, client, server, monitor, observer);
    `coverage` {probe: share of the step in good frames}; `probe_notes` say why plan_* is null though a probe was there.
    `buckets` are {role: {bucket: percent}}, `bucket_counts` the statements in each; `slices` how many turns it was
    driven in, 0 where it ran through. `transactions` are of steps of which each is timed by itself. `beside` are
    {further load: {figure: value}}: see `engine.analysis.metrics.beside_figures`. `waits` are {role: {wait event: share
    of the time}}, the event as TYPE:EVENT of pg_stat_activity, "" where its server processes waited for nothing, from
    so many `wait_looks` at all of the role's. `counters` are {role: {event: count per operation}}, by the
    keys of `engine.core.counters`; `server` is all server processes that are no connection's; `instructions_per_op` is
    of all together. `counters_notes` say what was not counted, and why.
    """

    run: str
    cell: str
    ordinal: int
    subject: str
    build: str
    config: str
    repeat: int
    step: str
    kind: str
    seconds: float
    rows: int
    ops: int
    kernel: str = "host"
    arm: str = ""
    rate_per_s: float | None = None
    first_end_s: float | None = None
    full_rate_per_s: float | None = None
    time_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    memory_bytes: float | None = None
    floor_s: float | None = None
    times_s: tuple[float, ...] = ()
    server_cpu_us_per_op: float | None = None
    instructions_per_op: float | None = None
    client_cpu_us_per_op: float | None = None
    ctx_switches_per_op: float | None = None
    runq_us_per_op: float | None = None
    wal_bytes_per_op: float | None = None
    read_kb_per_op: float | None = None
    written_kb_per_op: float | None = None
    device_written_kb_per_op: float | None = None
    heap_bytes: int | None = None
    index_bytes: int | None = None
    database_bytes: int = 0
    cluster_bytes: int | None = 0
    max_s: float | None = None
    plan_us_per_op: float | None = None
    wakeups_per_op: float | None = None
    migrations_per_op: float | None = None
    plan_p99_us: float | None = None
    phases: dict[str, float] | None = None
    phases_by: str | None = None
    phases_sampled: dict[str, float] | None = None
    coverage: dict[str, float] = field(default_factory=dict)
    probe_notes: tuple[str, ...] = ()
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    observers: tuple[str, ...] = ()
    buckets: dict[str, dict[str, float]] = field(default_factory=dict)
    bucket_counts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    roles: dict[str, dict[str, float | None]] = field(default_factory=dict)
    sla: Sla | None = None
    saturated: tuple[str, ...] = ()
    stall_s: float = 0.0
    stalls: tuple[StallRecord, ...] = ()
    slices: int = 0
    statements: tuple[StatementTime, ...] = ()
    work: dict[str, float] = field(default_factory=dict)
    transactions: TransactionTimes | None = None
    workload: str = ""
    beside: dict[str, dict[str, float | None]] = field(default_factory=dict)
    waits: dict[str, dict[str, float]] = field(default_factory=dict)
    wait_looks: dict[str, int] = field(default_factory=dict)
    counters: dict[str, dict[str, float]] = field(default_factory=dict)
    counters_notes: tuple[str, ...] = ()

    @property
    def incidents(self) -> list[Incident]:
        """Its stalls, those of one client that overlap together."""
        groups = incidents(self.stalls, lambda stall: (stall.client, stall.started_ns, stall.ended_ns))
        return [Incident(group) for group in groups]

    def figure(self, metric: str) -> float | None:
        """One of its figures: a metric of ratios, `stalls` (seconds) or `sla` (the share of the target).

        Of a further load as LOAD.FIGURE.
        """
        load, _, name = metric.rpartition(".")
        if load:
            return self.beside.get(load, {}).get(name)
        if metric == STALLS:
            return self.stall_s
        if metric == SLA:
            return self.sla.achieved_per_s / self.sla.target_per_s if self.sla else None
        value = getattr(self, metric, None)
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class MachineEffect:
    """How machines differ in a ratio whose pairs were measured on several.

    `ratios` are each machine's mean; `tau` is how far machines' log ratios scatter beyond what their pairs do;
    `heterogeneity_p` is how probable that is if machines are alike, None where no machine has two pairs; `disagrees`
    names who differs certainly from the others, by the margin or more.
    """

    ratios: dict[str, float]
    tau: float
    heterogeneity_p: float | None = None
    disagrees: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ratio:
    """One subject against its baseline (a double against what it doubles) in one metric of one step.

    `low` and `high` bound it with 95 % confidence. `verdict` is meant as the user feels it: `slower` for less
    throughput and for more CPU per operation, too; `none`: a single pair, nothing to judge, or a cause, which has no
    verdict. `stands_out` marks a cause that differs by the margin or more, tested among all causes. `reasons` say why
    the verdict was withheld, why there is no ratio, or why an interval that excludes 1 is inconclusive. `more_pairs`
    goes with `inconclusive`.
    `visible_effect` is the smallest effect, as a fraction, that these pairs would show four times in five.
    `noise_floor` is how far the base against itself strays in this step and metric, when A/A was run. `left_out` says
    which pairs are not part of it and why; `pairs_without_figure` is how many of those lack the figure in a cell.
    `machines` is of pairs from several: then the interval covers machines, and more of them would narrow it, not pairs.
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
    arm: str = ""
    reasons: tuple[str, ...] = ()
    more_pairs: int | None = None
    better: bool | None = None  # which side of 1 the ratio is on, as the user feels it
    noise_floor: float | None = None
    left_out: tuple[str, ...] = ()
    pairs_without_figure: int = 0
    stands_out: bool = False
    visible_effect: float | None = None
    workload: str = ""
    machines: MachineEffect | None = None

    @property
    def sign(self) -> str:
        """`better` or `worse`, which are shown as arrows, or what stands for the verdict: see `SIGNS`."""
        if self.stands_out:
            return "better" if self.better else "worse"
        return SIGNS[self.verdict]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks: why the verdict was withheld, and which pairs are left out."""
        return (*self.reasons, *self.left_out)

    @property
    def verdict_text(self) -> str:
        """The verdict in words: `slower`, `inconclusive, +3 pairs`, `stands out`; empty where none was given."""
        if self.stands_out:
            return "stands out"
        if self.verdict == "inconclusive" and self.more_pairs is not None:
            return f"inconclusive, +{self.more_pairs} pair{'s' if self.more_pairs != 1 else ''}"
        return "" if self.verdict == "none" else self.verdict


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked of a subject, answered in a sentence or two: see `engine.analysis.answer`."""

    subject: str
    text: str


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
        """One line for people."""
        why = f": {self.reason}" if self.reason else ""
        return f"left out: {self.name} repeat {self.repeat} ({self.run} {self.cell}) {self.state}{why}"


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a subject's cells in one metric of a step: see `engine.analysis.statistics.Scatter`."""

    step: str
    subject: str
    metric: str
    cv: float
    gap: float
    gap_ratio: float | None
    wide: bool
    bimodal: bool


@dataclass(frozen=True, slots=True)
class Check:
    """One check of whether the cells of a subject and of its baseline are comparable, and what was found."""

    subject: str
    what: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class RunBuild(Build):
    """A build as one run had it."""

    run: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """The workload of all runs; `non_default` are its options that are not as its published form has them, in words.

    Where workloads are compared, `arms` are what they are called, and it is the first.
    """

    name: str
    title: str = ""
    generation: str = ""
    scale: str = ""
    clients: int = 1
    non_default: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Its name and what it is in a few words: `insert g24b quick`."""
        return f"{', '.join(self.arms) or self.name} {self.title or f'{self.generation} {self.scale}'}".strip()


@dataclass(frozen=True)
class Comparison:
    """All that a report, a screen or a script needs.

    `answer` is for each subject that is no double, `cells` one entry per cell and step, `folders` the folder of each
    run; `pairs` is the largest number of pairs that any ratio rests on, `kernels` the releases under which the runs
    were made; `findings` are sentences. `units` say what the rate of a step counts: `rows/s`, `queries/s`; `s` where it
    is judged by a time; `design` what takes turns: `cells`, or `slices of 50 ms` in steps that can be driven so.
    `route` is how clients connect; `published` are tables of the publication that a preset is of. `attributions` say of
    each rate that is not the same what makes the difference.
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

    @property
    def names(self) -> tuple[str, ...]:
        """The subjects' names, the base's first."""
        return tuple(subject.name for subject in self.subjects)

    @property
    def others(self) -> tuple[ComparedSubject, ...]:
        """Those that are compared with the base, its own doubles last."""
        rest = [subject for subject in self.subjects if subject.name != self.base]
        return tuple(sorted(rest, key=lambda subject: subject.arm != ""))

    def subject(self, name: str) -> ComparedSubject:
        """The subject of a name."""
        return next(subject for subject in self.subjects if subject.name == name)

    def baseline_of(self, name: str) -> str:
        """What a subject is compared with: see `engine.core.model.baseline`."""
        names = {other.subject: other.name for other in self.subjects}
        return names.get(baseline(self.subject(name).subject, self.subject(self.base).subject, names), self.base)

    def of(self, subject: str, step: str) -> list[CellStep]:
        """A step in all cells of a subject, in order of time."""
        return self._by_place.get((subject, step), [])

    def values(self, subject: str, step: str, metric: str) -> list[float]:
        """One figure in all cells of a subject that have it."""
        return [value for cell in self.of(subject, step) if (value := cell.figure(metric)) is not None]

    def median(self, subject: str, step: str, metric: str) -> float | None:
        """The median of these; None of nothing."""
        return middle(self.values(subject, step, metric))

    def ratio(self, subject: str, step: str, metric: str) -> Ratio | None:
        """The ratio of a subject's figure to its baseline's, where there is one."""
        return self._by_metric.get((subject, step, metric))

    def spread(self, subject: str, step: str, metric: str) -> Spread | None:
        """The spread of the cells, where there are enough."""
        wanted = (subject, step, metric)
        return next((each for each in self.spreads if (each.subject, each.step, each.metric) == wanted), None)

    def checks(self, subject: str) -> list[Check]:
        """The checks of a subject, those that failed first."""
        return [check for check in self.comparability if check.subject == subject]

    def sliced(self, subject: str, step: str) -> bool:
        """Whether a subject was driven in slices in a step."""
        return any(cell.slices for cell in self.of(subject, step))

    def judged_by(self, step: str) -> str:
        """The metric that a step is judged by: its rate, or its time."""
        return TIME if step in self._timed else RATE

    def kind(self, step: str) -> str:
        """The kind of a step: load, index, write, query; empty when no cell has it."""
        return next((cell.kind for cell in self.cells if cell.step == step), "")

    def answer_for(self, subject: str) -> str:
        """The answer for a subject; empty for the base and for doubles."""
        return next((answer.text for answer in self.answer if answer.subject == subject), "")

    def attribution(self, subject: str, step: str) -> Attribution | None:
        """What makes the difference in time per operation, where the rates are not the same."""
        return next((each for each in self.attributions if (each.subject, each.step) == (subject, step)), None)

    def causes(self, rate: Ratio, most: int = 3) -> list[Ratio]:
        """What stands out beside a rate that is not the same, the largest ratios first."""
        if rate.verdict == "same":
            return []
        found = [
            ratio
            for ratio in self.ratios
            if (ratio.step, ratio.subject) == (rate.step, rate.subject)
            and (ratio.stands_out or (ratio.metric in (CPU, INSTRUCTIONS) and ratio.verdict in CHANGED))
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


def middle(values: list[float]) -> float | None:
    """The median; None of nothing."""
    return median(values) if values else None
