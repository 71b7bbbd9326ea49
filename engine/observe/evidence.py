"""The evidence for the causes of a stall: a few seconds of each connection, of the machine, and the server's events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.host.machine_counters import CPU_COLUMNS
from engine.postgres.activity import Vacuum, Wait
from engine.postgres.serverlog import LogEvent


@dataclass(frozen=True, slots=True)
class RoleSecond:
    """One connection over one interval that ended at `t_ns`. `wait` is None when the server was not asked or silent.

    `limited_ns` is the sleep of the client's limiter.
    """

    t_ns: int
    dt_ns: int
    in_flight_ns: int
    wait: Wait | None
    backend_cpu_ns: int
    backend_runq_ns: int
    backend_state: str
    client_cpu_ns: int
    client_state: str
    limited_ns: int


@dataclass(frozen=True, slots=True)
class HostSecond:
    """The machine over one interval: how much CPU time was stolen, and how busy the device was, each 0 to 1."""

    t_ns: int
    dt_ns: int
    steal: float
    device_busy: float

    @classmethod
    def of(cls, t_ns: int, dt_ns: int, host: Mapping[str, int], device: Mapping[str, int]) -> HostSecond:
        """From the differences of `engine.host.machine_counters` over the interval."""
        total = sum(max(0, host.get(name, 0)) for name in CPU_COLUMNS)
        return cls(t_ns, dt_ns, share(host.get("steal_ns", 0), total), share(device.get("io_ns", 0), dt_ns))


@dataclass(frozen=True, slots=True)
class Partner:
    """Another connection: `in_flight_ns` is the age of its statement now, 0 when it has none."""

    role: str
    in_flight_ns: int
    seconds: Sequence[RoleSecond] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about one stall. Whole histories may be given: only what overlaps the stall is used.

    `ended_ns` is now while it lasts. `names` says who a pid is ("delete role", "autovacuum worker").
    `partners` are the other connections of the same client, `others` those of other loads that run at the same time.
    `vacuums` are those at work now, `relations` the tables of the stalled role (a vacuum of another is no cause).
    """

    role: str
    backend_pid: int
    client_pid: int
    started_ns: int
    ended_ns: int
    seconds: Sequence[RoleSecond] = ()
    partners: Sequence[Partner] = ()
    others: Sequence[Partner] = ()
    host: Sequence[HostSecond] = ()
    events: Sequence[LogEvent] = ()
    vacuums: Sequence[Vacuum] = ()
    relations: frozenset[str] = frozenset()
    names: Mapping[int, str] = field(default_factory=dict)


def share(part: float, whole: float) -> float:
    """A part of a whole, cut to 0 to 1; 0 of nothing."""
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
