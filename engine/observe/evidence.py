"""Evidence for the causes of a stall: some seconds of each connection and the machine, and server events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.host.machine_counters import CPU_COLUMNS
from engine.postgres.activity import Vacuum, Wait
from engine.postgres.serverlog import LogEvent


@dataclass(frozen=True, slots=True)
class RoleEvidence:
    """One interval. `wait` is None without an answer from the server."""

    t_ns: int
    dt_ns: int
    in_flight_ns: int
    wait: Wait | None
    backend_cpu_ns: int
    backend_runq_ns: int
    backend_state: str
    client_cpu_ns: int
    client_state: str


@dataclass(frozen=True, slots=True)
class HostSecond:
    """The machine over one interval: CPU time stolen and device utilisation, each 0 to 1."""

    t_ns: int
    dt_ns: int
    steal: float
    device_busy: float

    @classmethod
    def of(cls, t_ns: int, dt_ns: int, host: Mapping[str, int], device: Mapping[str, int]) -> HostSecond:
        """Takes differences of `engine.host.machine_counters` over the interval."""
        total = sum(max(0, host.get(name, 0)) for name in CPU_COLUMNS)
        return cls(t_ns, dt_ns, share(host.get("steal_ns", 0), total), share(device.get("io_ns", 0), dt_ns))


@dataclass(frozen=True, slots=True)
class Partner:
    """Another connection: `in_flight_ns` is 0 without a statement."""

    role: str
    in_flight_ns: int
    seconds: Sequence[RoleEvidence] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence about one stall. Histories may be longer: only what overlaps the stall is used.

    `ended_ns` is now while it lasts (see `Stall.until_ns`). `names` labels pids ("delete role", "autovacuum worker").
    `partners` are other connections of the same client. `vacuums` are running now, `relations` are the stalled role's
    tables (a vacuum of another is not a cause).
    """

    role: str
    backend_pid: int
    client_pid: int
    started_ns: int
    ended_ns: int
    seconds: Sequence[RoleEvidence] = ()
    partners: Sequence[Partner] = ()
    host: Sequence[HostSecond] = ()
    events: Sequence[LogEvent] = ()
    vacuums: Sequence[Vacuum] = ()
    relations: frozenset[str] = frozenset()
    names: Mapping[int, str] = field(default_factory=dict)


def share(part: float, total: float) -> float:
    """A fraction clamped to 0 to 1; 0 if the whole is 0."""
    return min(1.0, max(0.0, part / total)) if total > 0 else 0.0
