"""The totals of a step: the counts of its sampler, of the server and of features, and the work that was planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from engine.core.record import converted
from engine.features import MeasuredStep, with_parts
from engine.host import disk
from engine.journal.totals import StepTotals
from engine.observe.sampler import StepSampler
from engine.postgres import pgstat
from engine.postgres.cellserver import Inside
from engine.postgres.pgstat import Size
from engine.postgres.server_processes import ServerProcesses
from engine.postgres.waiting import Waiting
from engine.run.watched_server import WatchedServer
from engine.slices.hold import used_ns
from engine.tracing import planstats
from workloads.api.base import Step
from workloads.api.report import Report
from workloads.client.counter_page import Page

PAGE_BYTES = 8192
READS_SINCE = 18


class StepCounts(ExitStack):
    """Counts from a step's beginning to its end: of statistics views, WAL and features, and CPU time of idle servers.

    The stack has the hooks of features, which see the error of a step that fails.
    """

    def __init__(
        self, watched: WatchedServer, parts: Mapping[str, Any], idle: Sequence[ServerProcesses], waiting: Waiting
    ) -> None:
        super().__init__()
        self._watched, self._parts, self._idle, self._waiting = watched, parts, idle, waiting
        self._spill_over_ns: int | None = None

    def begin(self, step: Step, page: Page | None) -> int:
        """Take the first snapshots, with all clients connected and idle; return the position of the WAL."""
        with self._watched.patient(self._waiting) as monitor:
            inside = self._watched.server.inside
            self._measured = MeasuredStep(step, page, inside.pid if inside else 0, monitor.backend_pid)
            for feature, part in with_parts(self._parts):
                self.enter_context(feature.around_step(part, self._measured))
            self._before = pgstat.snapshot(monitor, self._watched.views)
            self._wal_first = pgstat.wal_lsn(monitor)
        return self._wal_first

    def start_spill_over(self) -> None:
        self._spill_over_ns = used_ns(self._idle, 0)

    def end_spill_over(self) -> None:
        self._spill_over_ns = used_ns(self._idle, self._spill_over_ns)

    def finish(self, sampler: StepSampler, ended_ns: int) -> None:
        """Take the last samples with the clients still connected: disconnecting is not part of the step."""
        self.close()
        sampler.finish(ended_ns)
        with self._watched.patient(self._waiting) as monitor:
            self._wal_last = pgstat.wal_lsn(monitor)

    def totals(self, step: Step, sampler: StepSampler, report: dict[str, Any]) -> StepTotals:
        """The totals of the step that has finished, whose differences and sizes are recorded."""
        watched = self._watched
        with watched.patient(self._waiting) as monitor:
            pgstat.settle(monitor)
            differences = pgstat.difference(self._before, pgstat.snapshot(monitor, watched.views))
            watched.journal.add_differences(sampler.step, differences)
            probed, observers = watched.probing.finish_step(sampler.ended_ns, step.name)
            if watched.counts_plans:
                counted = planstats.record(differences[planstats.PROBE].values(), sampler.seconds)
                probed[planstats.ROLE] = {planstats.PROBE: counted}
                observers = (*observers, planstats.PROBE)
            sizes = pgstat.sizes(monitor)
            watched.journal.add_sizes(sampler.step, sizes)
            return replace(
                totals_of(step, sampler, watched.server.inside, sizes, self._wal_last - self._wal_first),
                **timed(step, report),
                database_bytes=pgstat.database_bytes(monitor),
                observers=tuple(sorted((*observers, *self._measured.observers))),
                probes=probed,
                report=report,
                spill_over_ns=self._spill_over_ns,
                **self._measured.totals,
                features=self._measured.figures,
                **reads_of(differences, watched.server.build.major),
            )


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
