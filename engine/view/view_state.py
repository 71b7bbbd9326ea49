"""The state of one moment of a run as a screen shows it: an immutable value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.core.model import Cell, Subject
from engine.host.machine_counters import CPU_COLUMNS
from engine.journal.outcome import Allocation
from engine.journal.reader import service_counts
from engine.journal.rows import Attempt, EventRow, ProbeFrame, RoleRow, RoleSecond, StepRow
from engine.journal.totals import progress, role_place
from engine.view.events import incidents_of, lasts
from engine.view.interleaved_step import InterleavedStep
from engine.view.step_series import SECOND_NS, StepSeries
from workloads.client import histogram

UNITS = {"insert": "ins/s", "delete": "del/s", "query": "q/s", "index": "rows/s"}


@dataclass(frozen=True, slots=True)
class RoleLine:
    """A role over all its connections; `cpu_us_per_op` is per operation of the step, `rate_per_s` the role's own."""

    name: str
    connections: int
    backend_pid: int | None  # if there is a single connection
    rate_per_s: float
    cpu_percent: float | None
    cpu_us_per_op: float | None
    runq_percent: float | None
    client_cpu_percent: float | None
    wait_event: str  # the most frequent one, as `IO:DataFileRead`
    p50_us: int | None
    p99_us: int | None
    max_us: int
    in_flight_s: float
    stalled: bool


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Server and machine in the last second or over a step; None if not sampled. Rates are per active second."""

    server_cpu_percent: float | None = None
    server_cpu_us_per_op: float | None = None
    server_runq_percent: float | None = None
    server_processes: int | None = None
    host_busy_percent: float | None = None
    io_stalled_percent: float | None = None  # pressure: some task waited for I/O
    read_kb_per_s: float | None = None
    written_kb_per_s: float | None = None
    dirty_bytes: int | None = None
    workers: tuple[tuple[str, float], ...] = ()  # other server processes: (kind, CPU in percent)


@dataclass(frozen=True, slots=True)
class SlaProgress:
    """Fraction of the target insert rate that a query step has kept up so far, and whether that is enough."""

    fraction: float
    passed: bool


@dataclass(frozen=True, slots=True)
class ViewState:
    run: str
    state: str  # running, finished, stopped, failed, replay
    cells: int
    cells_done: int
    cells_failed: int
    cell: Cell | None = None
    repeats: int = 0
    left: int = 0  # cells that are under way or to come; repeats, if interleaved
    left_s: float | None = None  # until the run ends; None until a cell has finished
    doing: str = ""
    at_ns: int = 0
    wall_ns: int = 0
    step: StepRow | None = None
    series: StepSeries | None = None
    length_s: float = 0.0  # of the step so far
    over: bool = False  # the step has ended: rate, roles and machine are over all of it
    fraction: float | None = None
    eta_s: float | None = None
    silent_s: float | None = None  # since the last interval if the next is overdue: the present is unknown
    primary_role: str = "insert"
    rate_per_s: float | None = None
    median_per_s: float | None = None
    timed: bool = False  # the primary metric is a time, known only at the end
    time_s: float | None = None
    base_s: float | None = None
    base: str = ""
    base_per_s: float | None = None
    relative: float | None = None  # to the base's cells at the same point of the step: median
    relatives: tuple[float, ...] = ()  # to each of the base's cells
    relative_before: float | None = None  # a minute ago, or at half the step so far
    sla: SlaProgress | None = None
    roles: tuple[RoleLine, ...] = ()
    machine: MachineLoad = MachineLoad()
    frames: tuple[ProbeFrame, ...] = ()  # newest by probe and role
    decisions: tuple[EventRow, ...] = ()  # on the number of repeats, with reasons
    allocation: Allocation | None = None  # of the time left, in an adaptive run
    failures: tuple[Attempt, ...] = ()  # of unfinished cells
    stalls: tuple[EventRow, ...] = ()
    events: tuple[EventRow, ...] = ()
    interleaved: InterleavedStep | None = None  # of a sliced step; all else here is of the chosen side
    external: bool = False  # an external server: it has only its own statistics
    stopping: bool = False  # a stop was requested
    speed: int | None = None  # of a replay; None if live
    playing: bool = True
    names: Mapping[Subject, str] = field(default_factory=dict)  # of all subjects, the base first

    @property
    def subject(self) -> str:
        """The name of the cell's subject, or of its build if the plan does not know it."""
        return self.names.get(self.cell.subject, self.cell.subject.name) if self.cell else ""

    @property
    def incidents(self) -> list[tuple[EventRow, ...]]:
        return incidents_of(self.stalls)

    @property
    def incidents_now(self) -> list[tuple[EventRow, ...]]:
        return [incident for incident in self.incidents if any(lasts(stall, self.at_ns) for stall in incident)]

    @property
    def unit(self) -> str:
        primary = self.step.primary_metric if self.step else None
        return UNITS.get(self.primary_role) or (primary.unit if primary else "ops/s")


def role_lines(
    roles: Mapping[int, RoleRow], seconds: Sequence[RoleSecond], stalls: Sequence[EventRow], counted: str
) -> tuple[RoleLine, ...]:
    """Roles in one tick: progress of roles `counted` is the step's."""
    grouped: dict[str, list[RoleSecond]] = {}
    ops = 0
    for second in seconds:
        role = roles[second.role_id]
        grouped.setdefault(role.name, []).append(second)
        ops += progress(role.name, second) if role.kind == counted else 0
    stalled = {stall.role for stall in stalls}
    return tuple(
        _role_line(name, grouped[name], roles, ops, name in stalled) for name in sorted(grouped, key=role_place)
    )


def _role_line(
    name: str, seconds: Sequence[RoleSecond], roles: Mapping[int, RoleRow], ops: int, stalled: bool
) -> RoleLine:
    length_ns = max(second.dt_ns for second in seconds)
    max_us = max(second.max_us for second in seconds)
    # A quantile is its bucket's upper bound, which may exceed the maximum.
    service = histogram.merge(map(service_counts, seconds))
    bounds = [histogram.quantile_us(service, q) for q in (0.5, 0.99)]
    p50, p99 = (None if bound is None else min(bound, max_us) for bound in bounds)
    cpu_ns = _sum(second.backend_cpu_ns for second in seconds)
    runq_ns = _sum(second.backend_runq_ns for second in seconds)
    client_ns = _sum(second.client_cpu_ns for second in seconds)
    waits = Counter(second.wait_event for second in seconds if second.wait_event)
    return RoleLine(
        name,
        len(seconds),
        roles[seconds[0].role_id].backend_pid if len(seconds) == 1 else None,
        sum(progress(name, second) for second in seconds) * SECOND_NS / length_ns,
        share_percent(cpu_ns, length_ns),
        cpu_ns / 1000 / ops if cpu_ns is not None and ops else None,
        share_percent(runq_ns, length_ns),
        share_percent(client_ns, length_ns),
        waits.most_common(1)[0][0] if waits else "",
        p50,
        p99,
        max_us,
        max(second.in_flight_ns for second in seconds) / 1e9,
        stalled,
    )


def machine(samples: Mapping[str, tuple[int, Mapping[str, Any]]], ops_per_s: float) -> MachineLoad:
    """The machine from the samples of one tick: source, length in ns (a server's without pauses) and counters."""

    def of(source: str, key: str) -> tuple[float | None, int]:
        length_ns, data = samples.get(source, (SECOND_NS, {}))
        return data.get(key), max(1, length_ns)

    def per_s(source: str, key: str) -> float | None:
        value, length_ns = of(source, key)
        return None if value is None else value * SECOND_NS / length_ns

    def percent(source: str, key: str) -> float | None:
        return share_percent(*of(source, key))

    cpu_ns_per_s = per_s("server", "cpu_ns")
    _, host = samples.get("host", (0, {}))
    idle = host.get("idle_ns", 0) + host.get("iowait_ns", 0)
    all_ = sum(host.get(name, 0) for name in CPU_COLUMNS)
    workers = tuple(
        (source.removeprefix("process:"), share)
        for source in sorted(samples)
        if source.startswith("process:") and (share := percent(source, "cpu_ns")) is not None
    )
    return MachineLoad(
        percent("server", "cpu_ns"),
        cpu_ns_per_s / 1000 / ops_per_s if cpu_ns_per_s is not None and ops_per_s > 0 else None,
        percent("server", "runq_ns"),
        int(processes) if (processes := of("server", "processes_now")[0]) is not None else None,
        100 * (1 - idle / all_) if all_ else None,
        percent("host", "pressure_io_some_ns"),
        per_s("device", "read_kb"),
        per_s("device", "written_kb"),
        int(dirty) if (dirty := of("host", "dirty_bytes_now")[0]) is not None else None,
        tuple(sorted(workers, key=lambda worker: -worker[1])),
    )


def share_percent(value: float | None, length_ns: int) -> float | None:
    return None if value is None else 100.0 * value / length_ns


def _sum(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
