"""Figures of a step, computed from its totals: pure arithmetic, one formula a line.

The op of a step is a row inserted in l.i0, l.i1 and l.i2, a row indexed in l.x, and a query in query steps; every
figure "per op" divides by that. Elapsed time is sub-second where the reference client has whole seconds. A figure that
is not available (no block device, a step without ops) is None, never NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core import wait_kinds
from engine.core.perf_events import per_op
from engine.journal.totals import StepTotals, ops, rows, sla, time_s
from engine.results.cell_step import Execution
from probes import figures
from workloads.api.base import role_kind
from workloads.api.plan_tree import StatementPlan
from workloads.api.report import Report, Timing
from workloads.client import histogram

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
LATENCY_QUANTILES = (0.5, 0.95, 0.99)  # of `engine.results.ratio.LATENCIES`
LEAST_BEYOND = 10
OF_SERVER = (  # counts of the cell's server
    "ctx_switches_per_op", "runq_us_per_op", "wal_bytes_per_op", "reads_per_op", "pages_read_per_op",
    "read_us_per_op", "read_kb_per_op", "written_kb_per_op", "heap_bytes", "index_bytes", "instructions_per_op",
)  # fmt: skip
SLIVER_NS = 500_000_000  # a shorter interval, such as a step's last one, has no rate of its own
NO_REPORT = Report()


def step_figures(kind: str, totals: StepTotals, report: Report = NO_REPORT) -> dict[str, Any]:
    """The figures that are compared between builds, and others of the step.

    rate_per_s is ops per second, replaced by time_s (and related figures) if the primary metric is a time.

    CPU, run-queue wait and switches cover all server processes; client_cpu all client processes. read_kb is what the
    server's processes read from the device. written_kb are pages dirtied in the page cache, less those removed
    before being written: the device sees them later, once for many changes. device_written_kb counts writes of
    the database's device by any process; None when interleaved, as it then includes others' work. plan_*, phases,
    coverage and notes are the probes', for the roles' own server processes: see `probes.figures.step_figures`.
    """
    count, device = ops(kind, totals), {} if totals.paused else totals.device
    primary = totals.primary_metric
    return {
        "rate_per_s": per(count, totals.seconds) if primary and primary.by == "rate" else None,
        "instructions_per_op": _instructions(totals, count),
        "server_cpu_us_per_op": _part(totals.server_cpu_ns, 1000, count),
        "client_cpu_us_per_op": _part(totals.client_cpu_ns, 1000, count),
        "ctx_switches_per_op": _part(totals.server_switches, 1, count),
        "runq_us_per_op": _part(totals.server_runq_ns, 1000, count),
        "wal_bytes_per_op": _part(totals.wal_bytes, 1, count),
        "read_kb_per_op": _part(totals.server_read_bytes, 1024, count),
        "reads_per_op": _part(totals.reads, 1, count),
        "pages_read_per_op": _part(totals.pages_read, 1, count),
        "read_us_per_op": None if totals.read_ms is None else per(totals.read_ms * 1000, count),
        "written_kb_per_op": _written_kb(totals, count),
        "device_written_kb_per_op": counter_per(device, "written_kb", count),
        "heap_bytes": totals.heap_bytes or None,
        "index_bytes": totals.index_bytes or None,
        "max_s": max_op_s(totals),
        **_latencies(totals),
        **_timed(kind, totals, report.timing),
        **figures.step_figures(totals.probes, list(totals.roles), count, totals.wall_seconds or totals.seconds),
        "delete_plan_us": _planning_us(totals, "delete"),
    }


def _latencies(totals: StepTotals) -> dict[str, float | None]:
    """Response times of the statements that the primary metric counts, if it is a rate: quantiles, and the longest.

    None for a quantile beyond which fewer than `LEAST_BEYOND` statements lie, and if a role has no histogram.
    """
    primary = totals.primary_metric
    roles = totals.of_kind(primary.role) if primary and primary.by == "rate" else []
    counts = [role.response or role.histogram for role in roles]
    merged = histogram.merge(dict(pairs) for pairs in counts) if all(counts) else {}
    beyond = {q: (1 - q) * sum(merged.values()) for q in LATENCY_QUANTILES}
    quantiles = {
        f"latency_{quantile_name(q)}_us": histogram.point_us(merged, q) if count >= LEAST_BEYOND else None
        for q, count in beyond.items()
    }
    longest_ns = max((role.late_max_ns or role.max_ns for role in roles), default=0)
    return quantiles | {"latency_max_us": longest_ns / 1000 if beyond[0.5] >= LEAST_BEYOND else None}


def _planning_us(totals: StepTotals, kind: str) -> float | None:
    """Planning time per statement in the roles of a kind; None unless counted for all of the step."""
    names = [name for name in totals.roles if role_kind(name) == kind]
    seconds = totals.wall_seconds or totals.seconds
    plans = [figures.planning(totals.probes.get(name, {}), seconds) for name in names]
    if any(plan is None or plan["withheld"] for plan in plans):
        return None
    return per(sum(plan["step_us"] for plan in plans if plan), sum(totals.roles[name].statements for name in names))


def _instructions(totals: StepTotals, count: float) -> float | None:
    """Instructions per operation over the same processes as server CPU."""
    counted = [counts["instructions"].count for counts in totals.counters.values() if "instructions" in counts]
    return per(sum(counted), count) if counted else None


def _timed(kind: str, totals: StepTotals, timing: Timing) -> dict[str, Any]:
    """The time of a step whose primary metric is a time, and the usage of its programs (its clients or servers).

    If the cell's server had no part, its counts are left out; otherwise only its CPU time is known. Sizes of the
    database are not a result of such steps.
    """
    mean_s = time_s(kind, totals)
    if mean_s is None:
        return dict.fromkeys(("time_s", "user_s", "system_s", "memory_bytes", "floor_s")) | {"times_s": timing.times_s}
    used_us = None if timing.user_s is None else 1e6 * (timing.user_s + (timing.system_s or 0.0))
    figures: dict[str, Any] = {
        "time_s": mean_s,
        "user_s": timing.user_s,
        "system_s": timing.system_s,
        "memory_bytes": timing.memory_bytes,
        "floor_s": timing.floor_s,
        "times_s": timing.times_s,
        "client_cpu_us_per_op": used_us,
    }
    if totals.apart:
        figures |= dict.fromkeys(OF_SERVER)
        if len(timing.times_s) > 1:  # preparation between its runs was written, too
            figures["device_written_kb_per_op"] = None
        figures["server_cpu_us_per_op"] = None if timing.server_cpu_s is None else 1e6 * timing.server_cpu_s
        figures["client_cpu_us_per_op"] = None
    return figures


def max_op_s(totals: StepTotals) -> float | None:
    """The longest insert (query steps: query) over all clients, in seconds; in l.x the longest index build."""
    primary = totals.primary_metric
    roles = (totals.of_kind(primary.role) if primary else []) or totals.of_kind("insert")
    return max((role.max_ns for role in roles), default=0) / 1e9 if roles else None


def role_figures(kind: str, totals: StepTotals, name: str) -> dict[str, float | None]:
    """One role's figures: CPU of its backends per op of the step and per statement, waits, service-time quantiles.

    `service_*` runs from sending to the last row; `response_*` from the intended start (rate-limited roles only).
    `short_deletes` deleted a different number of rows than requested; `min_lookups` are the insert role's for the least
    key, `max_lookups` point queries' for the greatest; `connect_ms` is the mean over the role's `connections`, of
    which `paired` are bound to their backend's CPU. Transactions are counted by
    `workloads.client.counter_page.OUTCOMES`.
    """
    role = totals.roles[name]
    count = ops(kind, totals)
    figures: dict[str, float | None] = {
        "statements": role.statements,
        "rows": role.rows,
        "cpu_s": _part(role.backend_cpu_ns, 1e9, 1),
        "cpu_us_per_op": _part(role.backend_cpu_ns, 1000, count),
        "cpu_us_per_statement": _part(role.backend_cpu_ns, 1000, role.statements),
        "runq_us_per_statement": _part(role.backend_runq_ns, 1000, role.statements),
        "ctx_switches_per_statement": _part(role.backend_switches, 1, role.statements),
        "client_cpu_us_per_statement": per(role.client_cpu_ns / 1000, role.statements),
        "mean_us": per(role.service_ns / 1000, role.statements),
        "max_s": role.max_ns / 1e9,
        "limited_s": role.limited_ns / 1e9,
        "coupled_s": role.coupled_ns / 1e9,
        "short_deletes": role.short_deletes,
        "min_lookups": role.min_lookups,
        "min_lookup_ms": per(role.min_lookup_ns / 1e6, role.min_lookups),
        "max_lookups": role.max_lookups,
        "late_max_s": role.late_max_ns / 1e9 if role.late_max_ns else None,
        "connections": role.connections,
        "connect_ms": role.connect_ns / 1e6 / role.connections if role.connect_ns else None,
        "paired": role.paired,
        **role.outcomes,
    }
    for title, pairs in (("service", role.histogram), ("response", role.response)):
        for q, value in zip(QUANTILES, histogram.quantiles_us(dict(pairs), QUANTILES), strict=True) if pairs else ():
            figures[f"{title}_{quantile_name(q)}_us"] = value
    return figures


def quantile_name(q: float) -> str:
    return f"p{q * 100:g}".replace(".", "")


def bucket_percent(counts: Sequence[int]) -> dict[str, float]:
    """The reference's ten response-time buckets as percentages of their sum; empty if nothing was counted."""
    total = sum(counts)
    if total == 0:
        return {}
    labels = (label for label, _ in histogram.REFERENCE_BUCKETS)
    return {label: 100.0 * count / total for label, count in zip(labels, counts, strict=True)}


def bucket_text(percent: float) -> str:
    """Three decimals as the reference prints them; `nonzero` for a positive value that would print as 0.000."""
    if percent == 0:
        return ""
    text = f"{percent:.3f}"
    return "nonzero" if text == "0.000" else text


def saturated(totals: StepTotals) -> tuple[str, ...]:
    """The roles whose client process was CPU-bound: their rate is the client's, not the server's."""
    return tuple(name for name, role in sorted(totals.roles.items()) if role.saturated)


def spill_over_share(totals: StepTotals) -> float | None:
    """CPU time of other servers that were up, as a share of the step's own server's; None without any."""
    return _part(totals.spill_over_ns, 1, totals.server_cpu_ns or 0)


def summary(kind: str, totals: StepTotals, report: Report = NO_REPORT) -> dict[str, Any]:
    """All figures of a step, by the field names of `engine.results.cell_step.CellStep`."""
    return {
        "seconds": totals.seconds,
        "rows": rows(kind, totals),
        "ops": ops(kind, totals),
        **step_figures(kind, totals, report),
        "database_bytes": totals.database_bytes,
        "cluster_bytes": totals.cluster_bytes,
        "probes": {
            role: figures.role_figures(
                record,
                totals.roles[role].statements if role in totals.roles else 0,
                totals.wall_seconds or totals.seconds,
            )
            for role, record in totals.probes.items()
        },
        "observers": totals.observers,
        "counters": {name: per_op(counts, ops(kind, totals)) for name, counts in totals.counters.items()},
        "counters_notes": (totals.counters_note,) if totals.counters_note else (),
        "features": totals.features,
        "buckets": {name: bucket_percent(role.buckets) for name, role in totals.roles.items()},
        "bucket_counts": {name: role.buckets for name, role in totals.roles.items()},
        "roles": {name: role_figures(kind, totals, name) for name in totals.roles},
        "waits": {name: wait_kinds.shares(role.waits) for name, role in totals.roles.items() if role.waits},
        "wait_samples": {name: role.wait_samples for name, role in totals.roles.items() if role.waits},
        "work": report.work,
        "sla": sla(kind, totals),
        "saturated": saturated(totals),
        "spill_over_share": spill_over_share(totals),
        "executions": _executions(totals, report.plans),
        "statements": report.statements,
        "scripts": report.scripts,
    }


def _executions(totals: StepTotals, plans: Sequence[StatementPlan]) -> tuple[Execution, ...]:
    """The executions of a step, for a single statement also their mean, if pg_stat_statements counted them."""
    executed = tuple(
        Execution(plan.statement, "EXPLAIN", plan.shape, plan.chosen, plan.planning_ms, plan.execution_ms, plan.rows,
                  plan.hit, plan.read, plan.wal_bytes)
        for plan in plans
    )  # fmt: skip
    counted = totals.probes.get("statements", {}).get("planstats", {})  # see `engine.tracing.planstats`
    calls, planned = counted.get("calls", 0), counted.get("plans", 0)
    if len(executed) != 1 or not calls or "rows" not in counted:
        return executed
    mean = Execution(
        executed[0].statement,
        by="pg_stat_statements",
        planning_ms=counted["plan_us"] / 1000 / planned if planned else None,
        execution_ms=counted["exec_us"] / 1000 / calls,
        rows=counted["rows"] / calls,
        hit=counted["hit"] / calls,
        read=counted["read"] / calls,
        wal_bytes=counted["wal_bytes"] / calls,
    )
    return (*executed, mean)


def per(value: float, divisor: float) -> float | None:
    return value / divisor if divisor > 0 else None


def _written_kb(totals: StepTotals, count: float) -> float | None:
    """kB that server processes made dirty; the kernel takes back truncated pages, which a step may not have made."""
    written = totals.server_write_bytes
    return None if written is None else per(max(0, written) / 1024, count)


def _part(value: int | None, unit: float, count: float) -> float | None:
    return None if value is None else per(value / unit, count)


def counter_per(counters: Mapping[str, int], key: str, divisor: float) -> float | None:
    return per(counters[key], divisor) if key in counters else None
