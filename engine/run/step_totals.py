"""The totals of a step: its sampler's counts and the work that was planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.record import converted
from engine.host import disk
from engine.journal.totals import StepTotals
from engine.observe.sampler import StepSampler
from engine.postgres.cellserver import Inside
from engine.postgres.pgstat import Size
from workloads.api.base import Step
from workloads.api.report import Report

PAGE_BYTES = 8192
READS_SINCE = 18


def reads_of(differences: Mapping[str, Mapping[str, Mapping[str, Any]]], server_major: int) -> dict[str, Any]:
    """The pages that the server read, the number of reads and their time, by pg_stat_io; nothing before 16.

    Pages are of bytes, since a read of many pages counts as many up to 17, and as one from 18 on: there alone reads are
    told. No time if it was not tracked.
    """
    if "io" not in differences:
        return {}
    counters = differences["io"].values()
    read_bytes, read_ms = (sum(counts.get(name, 0) for counts in counters) for name in ("read_bytes", "read_ms"))
    return {
        "reads": sum(counts.get("reads", 0) for counts in counters) if server_major >= READS_SINCE else None,
        "pages_read": round(read_bytes / PAGE_BYTES),
        "read_ms": read_ms if read_ms or not read_bytes else None,
    }


def timed(step: Step, report: Mapping[str, Any]) -> dict[str, Any]:
    """The length of a step of given work that its clients timed, for its rate: pauses between are not part of it.

    A step by time keeps its own length, as clients tell the times of its first statements only.
    """
    times_s = converted(report, Report, "its report").timing.times_s
    by_rate = step.primary_metric is not None and step.primary_metric.by == "rate"
    return {"seconds": sum(times_s)} if times_s and by_rate and step.sliced != "time" else {}


def totals_of(
    step: Step, sampler: StepSampler, inside: Inside | None, sizes: Sequence[Size], wal_bytes: int
) -> StepTotals:
    """The totals of a finished step."""
    roles, server = sampler.role_totals, sampler.server_totals()
    host, device = sampler.host_totals()
    return StepTotals(
        seconds=sampler.seconds,
        roles=roles,
        server_cpu_ns=server.get("cpu_ns"),
        server_runq_ns=server.get("runq_ns"),
        server_switches=server.get("switches"),
        server_read_bytes=server.get("read_bytes"),
        server_write_bytes=server.get("write_bytes"),
        client_cpu_ns=sum(role.client_cpu_ns for role in roles.values()),
        engine_cpu_ns=sampler.engine_cpu_ns,
        wal_bytes=wal_bytes,
        rows_indexed=step.rows_indexed,
        rows_expected=step.work,
        rate_target_per_s=step.rate_per_s,
        heap_bytes=sum(size.bytes for size in sizes if size.kind in ("heap", "toast")),
        index_bytes=sum(size.bytes for size in sizes if size.kind == "index"),
        cluster_bytes=disk.folder_bytes(inside.data_dir) if inside else None,
        rss_bytes=sampler.largest_rss_bytes if inside else None,
        host=host,
        device=device,
        primary_metric=step.primary_metric,
        wall_seconds=sampler.wall_seconds,
        apart=step.apart,
    )
