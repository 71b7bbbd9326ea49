"""One step of one cell as a comparison has it: its figures, response times, stalls and SLA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.journal.totals import Sla
from engine.results.incidents import incidents, ranked
from workloads.api.report import ScriptTimes, StatementTime

STALLS, SLA = "stalls", "sla"  # figures of a cell that are counted, not judged


@dataclass(frozen=True, slots=True)
class Cause:
    """A likely cause of a stall: `score` is the part of the stall that it explains."""

    name: str = ""
    text: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class StallRecord:
    """A stall that has ended: see `engine.observe.stalls.Stall`.

    `snapshot` is a record of `engine.observe.stall_snapshot.StallSnapshot`, and `where` the same in words.
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
        """The likeliest cause in words; empty if none was found."""
        return (self.causes[0].text or self.causes[0].name) if self.causes else ""


@dataclass(frozen=True, slots=True)
class Incident:
    stalls: tuple[StallRecord, ...]

    @property
    def seconds(self) -> float:
        """Seconds from the beginning of the first to the end of the last."""
        began_ns = min(stall.started_ns for stall in self.stalls)
        return (max(stall.ended_ns for stall in self.stalls) - began_ns) / 1e9

    @property
    def roles(self) -> str:
        return ", ".join(dict.fromkeys(stall.role for stall in self._ranked))

    @property
    def where(self) -> tuple[str, ...]:
        """The place where the backend of the most telling stall hung, or else that of another."""
        return self.main.where or next((stall.where for stall in self.stalls if stall.where), ())

    @property
    def main(self) -> StallRecord:
        return self._ranked[0]

    @property
    def _ranked(self) -> list[StallRecord]:
        def likeliest(stall: StallRecord) -> tuple[str, str, float]:
            cause = stall.causes[0] if stall.causes else Cause()
            return stall.role, cause.name, cause.score or 0.0

        return ranked(self.stalls, likeliest)


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a statement, with its planning apart.

    `by` is EXPLAIN, which counted one before the step, or pg_stat_statements, for the mean of all in the step.
    `chosen` is the plan that the server chose, custom or generic; empty without parameters. Buffers (`hit`, `read`) are
    pages of 8 kB. Null where nothing was executed.
    """

    statement: str
    by: str = "EXPLAIN"
    shape: str = ""
    chosen: str = ""
    planning_ms: float | None = None
    execution_ms: float | None = None
    rows: float | None = None
    hit: float | None = None
    read: float | None = None
    wal_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class TransactionTimes:
    """The times of a step's transactions; `count` is the number of those timed.

    `total_s` is their sum over all clients; `stddev_ms` of a single one is null. `each_ms` has every transaction.
    """

    count: int
    total_s: float
    mean_ms: float
    median_ms: float
    min_ms: float
    max_ms: float
    stddev_ms: float | None
    each_ms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class CellStep:
    """One step of one cell. Its figures come from `analysis.statistics.metrics.summary`.

    `ordinal` is the cell's place in time. Steps of one `group` do alike work. `ops` are rows, in query steps queries;
    `rows` those inserted or indexed.

    `time_s` replaces `rate_per_s` where the primary metric is a time; `user_s`, `system_s` and `memory_bytes` (the
    peak) are of the timed programs, which take `floor_s` to do nothing. For several runs in a cell these are means, and
    `times_s` has the time of each run, or of each repetition of an index build in slices. `work` has amounts done, by
    name.

    `latency_*` are quantiles of the response time of the statements that the primary metric counts, and the longest,
    from the intended start where they are rate-limited; null for too few statements.

    `pages_read` (of 8 kB) and their time `read_us` are the server's, from the page cache or the device (by pg_stat_io,
    from 16 on); `reads` are the calls for them, each of one page or many (from 18 on). `read_kb` is read from the
    device, `written_kb` made dirty in the page cache by server processes, `device_written_kb` written by the device,
    for any process. `delete_plan_us` is the planning time of a DELETE. `phases_by` is "exact" or "sampled". `probes`
    are {role: {figure: value}} (roles: the connections' server processes; client:ROLE, client, server, monitor,
    observer); `coverage` {probe: share of the step in good frames}; `probe_notes` are reasons for plan_* to be null in
    spite of a probe.

    `buckets` are {role: {bucket: percent}}, `bucket_counts` the statements in each; `slices` the number of slices, 0
    for an uninterrupted step. `transactions` is set if each transaction was timed. `waits` are {role: {wait event:
    share of the time}}, an event being TYPE:EVENT of pg_stat_activity, or "" for no wait, from the role's
    `wait_samples`. `counters` are {role: {event: count per operation}}, by the keys of `engine.core.perf_events`; role
    `server` is every server process without a connection; `instructions_per_op` covers all. `counters_notes` are events
    that could not be counted, with the reasons. `spill_over_share` is the CPU time of other servers that were up, as a
    share of this server's: 0 if they were stopped, null without any and when interleaved (then see `compare --slices`).
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
    control: str = ""
    rate_per_s: float | None = None
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
    reads_per_op: float | None = None
    pages_read_per_op: float | None = None
    read_us_per_op: float | None = None
    written_kb_per_op: float | None = None
    device_written_kb_per_op: float | None = None
    heap_bytes: int | None = None
    index_bytes: int | None = None
    database_bytes: int = 0
    cluster_bytes: int | None = 0
    latency_p50_us: float | None = None
    latency_p95_us: float | None = None
    latency_p99_us: float | None = None
    latency_max_us: float | None = None
    max_s: float | None = None
    plan_us_per_op: float | None = None
    delete_plan_us: float | None = None
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
    scripts: tuple[ScriptTimes, ...] = ()
    work: dict[str, float] = field(default_factory=dict)
    spill_over_share: float | None = None
    transactions: TransactionTimes | None = None
    waits: dict[str, dict[str, float]] = field(default_factory=dict)
    wait_samples: dict[str, int] = field(default_factory=dict)
    counters: dict[str, dict[str, float]] = field(default_factory=dict)
    counters_notes: tuple[str, ...] = ()
    features: dict[str, Any] = field(default_factory=dict)  # figures of features, by name
    executions: tuple[Execution, ...] = ()
    group: str = ""

    @property
    def incidents(self) -> list[Incident]:
        """Its stalls, overlapping ones of one client together."""
        groups = incidents(self.stalls, lambda stall: (stall.client, stall.started_ns, stall.ended_ns))
        return [Incident(group) for group in groups]

    def figure(self, metric: str) -> float | None:
        """A metric of ratios, `stalls` in seconds, or `sla` as share of the target."""
        if metric == STALLS:
            return self.stall_s
        if metric == SLA:
            return self.sla.achieved_per_s / self.sla.target_per_s if self.sla else None
        value = getattr(self, metric, None)
        return float(value) if isinstance(value, int | float) else None
