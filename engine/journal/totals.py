"""Totals of a step, by role and overall, and figures derived from them: operations, times, the SLA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.core.perf_events import EventCount
from workloads.api.base import COUNTED_IN_ROWS, PrimaryMetric, role_kind

SLA_FRACTION = 0.95
SLA_ALLOWANCE_S = 0.1  # for the last burst and for noticing the step's end
ROLE_ORDER = ("insert", "delete", "query", "index")
# With too few statements for a distribution; of a server that is only watched, no response times are known.
LUMPED_ROLES = ("index", "task", "server")


@dataclass(frozen=True, slots=True)
class RoleTotals:
    """Totals of one role (all its connections) in one step. Times in ns; the server side is its backends.

    `histogram` is of service times, `response` of times since the intended start (empty for closed loops): sparse pairs
    (bucket, count) of `workloads.client.histogram`. `buckets` are the reference client's ten counters. `backend_*` are
    None if the server's processes cannot be seen. `short_deletes` deleted a different number of rows than requested;
    `min_lookups` of the lowest key took `min_lookup_ns` in total, `max_lookups` are point queries' for the highest key.
    `connect_ns` is total connection time, `late_max_ns` the longest response, `paired` how many connections are bound
    to their backend's CPU. `waits` counts backends by wait event over `wait_samples` samples, each of all backends.
    """

    connections: int
    statements: int
    rows: int
    rows_actual: int
    service_ns: int
    max_ns: int
    backend_cpu_ns: int | None
    backend_runq_ns: int | None
    backend_switches: int | None
    backend_involuntary: int | None
    backend_read_bytes: int | None
    backend_write_bytes: int | None
    client_cpu_ns: int
    client_runq_ns: int
    client_switches: int
    short_deletes: int = 0
    min_lookups: int = 0
    min_lookup_ns: int = 0
    max_lookups: int = 0
    connect_ns: int = 0
    late_max_ns: int = 0
    paired: int = 0
    limited_ns: int = 0
    coupled_ns: int = 0
    saturated: bool = False
    histogram: tuple[tuple[int, int], ...] = ()
    response: tuple[tuple[int, int], ...] = ()
    buckets: tuple[int, ...] = (0,) * 10
    outcomes: dict[str, int] = field(default_factory=dict)  # of transactions, by `counter_page.OUTCOMES`; no zeros
    waits: dict[str, int] = field(default_factory=dict)  # by `type:event`; '' counts backends that were not waiting
    wait_samples: int = 0


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Everything counted over one step, before any division. Times in ns, sizes in bytes.

    `server_*` counts all server processes, including those that ended in the step; its bytes are those of
    `engine.host.procfs.Task`: read from the device, but written to the page cache. `host` and `device` are differences
    of kernel counters, with the keys of `engine.host.machine_counters`. `observers` are the probes active in any part
    of the step, `probes` their counts by role, see `probes.figures`. `seconds` excludes the pauses of a sliced step,
    and whatever is between statements that its clients timed one by one; `wall_seconds` includes pauses: 0 for a step
    without any. In a step `apart` the server took no part. An external server has no `server_*`, host, device, cluster
    or memory. `counters` are perf events
    by role, where `server` is all server processes without a connection, see `engine.core.perf_events`;
    `counters_note` names events not counted, and why. `spill_over_ns` is CPU time used in the step by servers up
    beside this one, 0 if they stood still; None if there are no others, or in
    slices, each of which has its own. `pages_read` are of 8 kB, by pg_stat_io from the page cache or the device,
    `reads` the calls to the kernel for them (from 18 on), and `read_ms` is the time that this took, if it was tracked
    (track_io_timing).
    """

    seconds: float
    roles: dict[str, RoleTotals]
    server_cpu_ns: int | None
    server_runq_ns: int | None
    server_switches: int | None
    server_read_bytes: int | None
    server_write_bytes: int | None
    client_cpu_ns: int
    engine_cpu_ns: int
    wal_bytes: int | None
    rows_indexed: int = 0
    rows_expected: int = 0
    rate_target_per_s: float = 0.0
    heap_bytes: int = 0
    index_bytes: int = 0
    database_bytes: int = 0
    cluster_bytes: int | None = 0
    rss_bytes: int | None = 0
    host: dict[str, int] = field(default_factory=dict)
    device: dict[str, int] = field(default_factory=dict)
    observers: tuple[str, ...] = ()
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    primary_metric: PrimaryMetric | None = None  # None for a step without a rate or time
    report: dict[str, Any] = field(default_factory=dict)  # see `workloads.api.report.Report`
    wall_seconds: float = 0.0
    apart: bool = False
    counters: dict[str, dict[str, EventCount]] = field(default_factory=dict)
    counters_note: str = ""
    spill_over_ns: int | None = None
    reads: int | None = None
    pages_read: int | None = None
    read_ms: float | None = None
    features: dict[str, Any] = field(default_factory=dict)  # figures of features, by name

    @property
    def paused(self) -> bool:
        """Whether there were pauses, in which other servers worked: host and device counted their work, too."""
        return self.wall_seconds > 0

    def of_kind(self, kind: str) -> list[RoleTotals]:
        """Totals of all roles of a kind: `query` includes `query2`."""
        return [role for name, role in self.roles.items() if role_kind(name) == kind]


class RoleCounts(Protocol):
    """Counts of a role: its totals, or one of its intervals."""

    @property
    def statements(self) -> int: ...

    @property
    def rows(self) -> int: ...


def role_place(name: str) -> tuple[int, str]:
    """Sort key of a role in a list: `ROLE_ORDER` first, others by name."""
    kind = role_kind(name)
    return ROLE_ORDER.index(kind) if kind in ROLE_ORDER else len(ROLE_ORDER), name


def progress(role: str, of: RoleCounts) -> int:
    """The amount that a role's rate counts: rows, or statements for roles such as query."""
    return of.rows if role_kind(role) in COUNTED_IN_ROWS else of.statements


def progress_unit(role: str, unit: str) -> str:
    """A word for the things that a role's rate counts, in the plural; `unit` is the unit of the step's rate."""
    kind = role_kind(role)
    if kind in COUNTED_IN_ROWS or kind == "query":
        return "queries" if kind == "query" else "rows"
    return unit.removesuffix("/s") if unit.endswith("/s") else "statements"


def ops(kind: str, totals: StepTotals) -> int:
    """Operations of a step: rows inserted or indexed, queries, or statements of the primary role."""
    if kind == "index":
        return totals.rows_indexed
    primary = totals.primary_metric
    if primary is not None and primary.by == "time":
        return sum(role.statements for role in totals.of_kind(primary.role))
    return sum(progress(primary.role, role) for role in totals.of_kind(primary.role)) if primary else 0


def time_s(kind: str, totals: StepTotals) -> float | None:
    """Mean statement time, if that is the step's primary metric, else None."""
    primary = totals.primary_metric
    if primary is None or primary.by != "time":
        return None
    roles, count = totals.of_kind(primary.role), ops(kind, totals)
    return sum(role.service_ns for role in roles) / 1e9 / count if count else None


def rows(kind: str, totals: StepTotals) -> int:
    return totals.rows_indexed if kind == "index" else sum(role.rows for role in totals.of_kind("insert"))


@dataclass(frozen=True, slots=True)
class Sla:
    """The insert rate of a query step against its target. Rates are per second, over all clients.

    `passed`, which verdicts use: rows / exact seconds >= round(0.95 x target), with a tenth of a second allowed for.
    Rate limiters lose no second: the last round is due when the nominal time has passed. Where the delete stream may
    end the insert stream before its last statements, as in g24a, the deletes show how far the limiter got, as the queue
    between them is bounded. `reference_passed` is the published rule: inserted rows over whole seconds rounded up,
    which a short step may fail because of the rounding and the queue alone.
    """

    passed: bool
    reference_passed: bool
    achieved_per_s: float
    target_per_s: float
    required_per_s: float


def sla(kind: str, totals: StepTotals) -> Sla | None:
    """The 95% rule on the insert rate; None for a step without a target rate."""
    target = totals.rate_target_per_s
    if kind != "query" or target <= 0 or totals.seconds <= 0:
        return None
    inserted = rows(kind, totals)
    written_rows = max(inserted, sum(role.rows for role in totals.of_kind("delete")))
    required = round(SLA_FRACTION * target)
    whole_s = max(1, int(totals.seconds + 0.999999))  # the reference client notices the end at its next one-second tick
    counted_s = max(totals.seconds - SLA_ALLOWANCE_S, 0.9 * totals.seconds)
    return Sla(
        passed=written_rows / counted_s >= required,
        reference_passed=inserted / whole_s >= required,
        achieved_per_s=written_rows / totals.seconds,
        target_per_s=target,
        required_per_s=required,
    )
