"""Rows of the journal as its readers give them. `schema.sql` describes tables and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from engine.core.record import converted
from engine.journal.totals import StepTotals, ops, time_s
from workloads.api.base import PrimaryMetric, role_kind

Seconds = Annotated[float, Meta(ge=0, le=1e9)]


@dataclass(frozen=True, slots=True)
class EngineStart:
    """One start of the engine on a run, with its clock anchor. Wall times are Unix nanoseconds."""

    id: int
    boot_id: str
    monotonic_ns: int
    wall_ns: int
    pid: int

    def wall(self, t_ns: int) -> int:
        return self.wall_ns + t_ns - self.monotonic_ns


@dataclass(frozen=True, slots=True)
class Attempt:
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
        recorded = self.plan.get("primary_metric")
        return converted(recorded, PrimaryMetric, "journal.db: table step") if recorded else None

    @property
    def group(self) -> str:
        """See `workloads.api.base.Step`. Earlier versions recorded only that a query is one of `point` or `range`."""
        return str(self.plan.get("group") or self.plan.get("query") or self.kind)

    @property
    def planned_s(self) -> float:
        """The length that was planned; 0 if its work was instead. Raises UserError if it is damaged."""
        where = f"journal.db: step {self.name}: plan: seconds"
        return converted(self.plan.get("seconds") or 0, Seconds, where)

    @property
    def rate_per_s(self) -> float | None:
        """Operations per second over the whole step; None before its end, or if a time is the primary metric."""
        totals = self.totals
        if totals is None or totals.seconds <= 0 or self.time_s is not None:
            return None
        return ops(self.kind, totals) / totals.seconds

    @property
    def time_s(self) -> float | None:
        """Mean time, if that is the primary metric; None before the step's end."""
        return time_s(self.kind, self.totals) if self.totals is not None else None


@dataclass(frozen=True, slots=True)
class RoleRow:
    id: int
    step_id: int
    client: int
    name: str
    backend_pid: int
    client_pid: int

    @property
    def kind(self) -> str:
        """The role without its number: `query` for `query2`."""
        return role_kind(self.name)


class RoleSecond(NamedTuple):
    """The work of one connection in one interval, see table `role_second`."""

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
    """Wait events of a role's server processes when sampled, see table `wait_second`."""

    step_id: int
    role: str
    t_ns: int
    dt_ns: int
    samples: int
    data: dict[str, int]


class ChartSecond(NamedTuple):
    """The part of a `RoleSecond` that charts need."""

    role_id: int
    t_ns: int
    dt_ns: int
    statements: int
    rows: int
    in_flight_ns: int
    max_us: int


@dataclass(frozen=True, slots=True)
class ProbeFrame:
    """Counts of a probe for one role in one frame, see table `probe_frame`."""

    step_id: int
    t_ns: int
    dt_ns: int
    probe: str
    role: str
    data: dict[str, Any]
    quality: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SliceRow:
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
    """An event; `ended_ns` is None while it lasts."""

    id: int
    attempt_id: int | None
    step_id: int | None
    kind: str
    started_ns: int
    ended_ns: int | None
    role: str | None
    data: dict[str, Any]
