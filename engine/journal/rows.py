"""The rows of the journal as its readers give them. The tables, and what their columns mean, are in `schema.sql`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.core.record import converted
from engine.journal.totals import StepTotals, ops, time_s
from workloads.base import PrimaryMetric, role_kind


@dataclass(frozen=True, slots=True)
class EngineStart:
    """One start of the engine on a run: its clock anchor. Wall times are Unix nanoseconds."""

    id: int
    boot_id: str
    monotonic_ns: int
    wall_ns: int
    pid: int

    def wall(self, t_ns: int) -> int:
        """The wall-clock time of a monotonic time of this session."""
        return self.wall_ns + t_ns - self.monotonic_ns


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a cell, see table `attempt`."""

    id: int
    session_id: int
    cell: str
    state: str
    started_ns: int
    ended_ns: int | None
    reason: str | None
    origin: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of an attempt, see table `step`."""

    id: int
    attempt_id: int
    ordinal: int
    name: str
    kind: str
    state: str
    started_ns: int
    ended_ns: int | None
    work: int
    plan: dict[str, Any]
    totals: StepTotals | None

    @property
    def primary_metric(self) -> PrimaryMetric | None:
        """The role and unit that verdicts are given for; None for a step without any."""
        recorded = self.plan.get("primary_metric")
        return converted(recorded, PrimaryMetric, "journal.db: table step") if recorded else None

    @property
    def further(self) -> tuple[str, ...]:
        """The roles of background workloads."""
        found = self.plan.get("background")
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def rate_per_s(self) -> float | None:
        """Operations per second over the whole step; None before its end."""
        totals = self.totals
        if totals is None or totals.seconds <= 0 or self.time_s is not None:
            return None
        return ops(self.kind, totals) / totals.seconds

    @property
    def time_s(self) -> float | None:
        """The mean time, if that is the primary metric; None before the step's end."""
        return time_s(self.kind, self.totals) if self.totals is not None else None


@dataclass(frozen=True, slots=True)
class RoleRow:
    """One connection of a step, see table `role`."""

    id: int
    step_id: int
    client: int
    name: str
    backend_pid: int
    client_pid: int

    @property
    def kind(self) -> str:
        """What it does: `query` for `query2`."""
        return role_kind(self.name)


class RoleSecond(NamedTuple):
    """What one connection did in one interval, see table `role_second`; fields carry the columns' names."""

    role_id: int
    t_ns: int
    dt_ns: int
    statements: int
    rows: int
    in_flight_ns: int
    max_us: int
    service: bytes
    response: bytes | None = None
    backend_cpu_ns: int | None = None
    backend_runq_ns: int | None = None
    backend_switches: int | None = None
    backend_read_bytes: int | None = None
    backend_write_bytes: int | None = None
    client_cpu_ns: int | None = None
    client_runq_ns: int | None = None
    client_switches: int | None = None
    wait_event: str | None = None


@dataclass(frozen=True, slots=True)
class WaitSecond:
    """What a role's server processes were seen waiting for in one interval, see table `wait_second`."""

    step_id: int
    role: str
    t_ns: int
    dt_ns: int
    samples: int
    data: dict[str, int]


class Transaction(NamedTuple):
    """A transaction of a step that times each: its client, its end, its duration."""

    client: int
    ended_ns: int
    time_ns: int


class Count(NamedTuple):
    """The part of a `RoleSecond` that a chart needs."""

    role_id: int
    t_ns: int
    dt_ns: int
    statements: int
    rows: int
    in_flight_ns: int
    max_us: int


@dataclass(frozen=True, slots=True)
class ProbeFrame:
    """What a probe counted of one role in one frame, see table `probe_frame`; fields carry the columns' names."""

    step_id: int
    t_ns: int
    dt_ns: int
    probe: str
    role: str
    data: dict[str, Any]
    quality: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice of a step, see table `slice`."""

    step_id: int
    block: int
    place: int
    opened_ns: int
    counted_from_ns: int
    counted_ns: int
    ops: int
    rows: int
    cpu_ns: int
    cpu_ops: int
    runq_ns: int
    spill_over_ns: int
    stopped: int
    switch_ns: int
    imbalance_ns: int
    early_ns: int
    early_ops: int


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event, see table `event`; `ended_ns` is None while it lasts."""

    id: int
    attempt_id: int | None
    step_id: int | None
    kind: str
    started_ns: int
    ended_ns: int | None
    role: str | None
    data: dict[str, Any]
