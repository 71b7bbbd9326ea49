"""What a screen shows of one moment of a run: one value that nothing changes afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.journal import EventRow, ProbeFrame, RoleRow, RoleSecond, StepRow, service_quantiles_us
from engine.model import HEADLINE, Cell, progress
from tui.live.film import SECOND_NS, Film

UNITS = {"insert": "ins/s", "delete": "del/s", "query": "q/s", "index": "rows/s"}


@dataclass(frozen=True, slots=True)
class RoleLine:
    """One role in its last second, all its connections together. Times are those of their server processes.

    `cpu_us_per_op` divides by what the step counts, `rate_per_s` is the role's own: queries, or rows.
    """

    name: str
    connections: int
    backend_pid: int | None  # where there is one connection
    rate_per_s: float
    cpu_percent: float | None
    cpu_us_per_op: float | None
    runq_us_per_s: float | None
    client_cpu_percent: float | None
    wait: str
    p50_us: int | None
    p99_us: int | None
    max_us: int
    in_flight_s: float
    stalled: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """The server as a whole and the machine, in the last second; None where it was not sampled. Rates per second."""

    dbms_cpu_percent: float | None = None
    dbms_cpu_us_per_op: float | None = None
    dbms_runq_us_per_s: float | None = None
    dbms_processes: int | None = None
    host_busy_percent: float | None = None
    io_stalled_percent: float | None = None  # pressure: some task waited for I/O
    read_kb_per_s: float | None = None
    written_kb_per_s: float | None = None
    dirty_bytes: int | None = None
    engine_cpu_percent: float | None = None
    workers: tuple[tuple[str, float], ...] = ()  # other server processes: their kind and CPU in percent


@dataclass(frozen=True, slots=True)
class Sla:
    """How much of the wanted insert rate a query step has kept up so far, and whether that is enough."""

    fraction: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """A moment. Without a step the engine is starting a server, or has none to run."""

    run: str
    state: str  # running, finished, stopped, failed, replay
    cells: int
    cells_done: int
    cells_failed: int
    cell: Cell | None = None
    repeats: int = 0
    doing: str = ""
    at_ns: int = 0
    wall_ns: int = 0
    step: StepRow | None = None
    film: Film | None = None
    length_s: float = 0.0  # of the step so far
    fraction: float | None = None
    eta_s: float | None = None
    silent_s: float | None = None  # since the last interval, where the next is overdue: nothing is known of now
    headline: str = "insert"
    rate_per_s: float | None = None
    median_per_s: float | None = None
    base: str = ""
    base_per_s: float | None = None
    relative: float | None = None
    sla: Sla | None = None
    roles: tuple[RoleLine, ...] = ()
    machine: Machine = Machine()
    frames: tuple[ProbeFrame, ...] = ()  # of probes, the newest of each and of each role among them
    stalls: tuple[EventRow, ...] = ()
    events: tuple[EventRow, ...] = ()
    speed: int | None = None  # of a replay; None live
    playing: bool = True

    @property
    def stalled(self) -> tuple[EventRow, ...]:
        """The stalls that last at this moment."""
        return tuple(stall for stall in self.stalls if lasts(stall, self.at_ns))

    @property
    def unit(self) -> str:
        """What the headline's rate counts."""
        return UNITS.get(self.headline, "ops/s")


def lasts(event: EventRow, at_ns: int) -> bool:
    """Whether an event that lasts had not ended at a time."""
    return event.ended_ns is None or event.ended_ns > at_ns


def headline(step: StepRow) -> str:
    """The kind of role whose progress is the step's; inserts in a step without one of its own."""
    return HEADLINE.get(step.kind, "insert")


def role_lines(
    roles: Mapping[int, RoleRow], seconds: Sequence[RoleSecond], stalls: Sequence[EventRow], counted: str
) -> tuple[RoleLine, ...]:
    """The roles in one tick: `seconds` are its intervals, `counted` the kind of role whose progress is the step's."""
    grouped: dict[str, list[RoleSecond]] = {}
    for second in seconds:
        grouped.setdefault(roles[second.role_id].name, []).append(second)
    ops = sum(
        progress(roles[second.role_id].name, second) for second in seconds if roles[second.role_id].kind == counted
    )
    stalled = {stall.role for stall in stalls}
    return tuple(_role_line(name, grouped[name], roles, ops, name in stalled) for name in sorted(grouped, key=_place))


def _place(name: str) -> tuple[int, str]:
    order = ("insert", "delete", "query")
    kind = name.rstrip("0123456789")
    return (order.index(kind) if kind in order else len(order), name)


def _role_line(
    name: str, seconds: Sequence[RoleSecond], roles: Mapping[int, RoleRow], ops: int, stalled: bool
) -> RoleLine:
    length_ns = max(second.dt_ns for second in seconds)
    max_us = max(second.max_us for second in seconds)
    # A quantile is told by its bucket's bound, which may lie above the longest there was.
    p50, p99 = (None if q is None else min(q, max_us) for q in service_quantiles_us(seconds, 0.5, 0.99))
    cpu_ns = _sum(second.backend_cpu_ns for second in seconds)
    runq_ns = _sum(second.backend_runq_ns for second in seconds)
    client_ns = _sum(second.client_cpu_ns for second in seconds)
    waits = Counter(second.wait_event for second in seconds if second.wait_event)
    return RoleLine(
        name,
        len(seconds),
        roles[seconds[0].role_id].backend_pid if len(seconds) == 1 else None,
        sum(progress(name, second) for second in seconds) * SECOND_NS / length_ns,
        _percent(cpu_ns, length_ns),
        cpu_ns / 1000 / ops if cpu_ns is not None and ops else None,
        runq_ns / 1000 * SECOND_NS / length_ns if runq_ns is not None else None,
        _percent(client_ns, length_ns),
        waits.most_common(1)[0][0].partition(":")[2] if waits else "",
        p50,
        p99,
        max_us,
        max(second.in_flight_ns for second in seconds) / 1e9,
        stalled,
    )


def machine(samples: Mapping[str, tuple[int, Mapping[str, Any]]], ops_per_s: float) -> Machine:
    """The machine from the samples of one tick: source, length in ns and counters."""

    def of(source: str, key: str) -> tuple[float | None, int]:
        length_ns, data = samples.get(source, (SECOND_NS, {}))
        return data.get(key), max(1, length_ns)

    def per_s(source: str, key: str) -> float | None:
        value, length_ns = of(source, key)
        return None if value is None else value * SECOND_NS / length_ns

    def percent(source: str, key: str) -> float | None:
        return _percent(*of(source, key))

    cpu_ns_per_s, runq_ns_per_s = per_s("dbms", "cpu_ns"), per_s("dbms", "runq_ns")
    idle, all_ = _host_times(samples)
    workers = tuple(
        (source.removeprefix("process:"), share)
        for source in sorted(samples)
        if source.startswith("process:") and (share := percent(source, "cpu_ns")) is not None
    )
    return Machine(
        percent("dbms", "cpu_ns"),
        cpu_ns_per_s / 1000 / ops_per_s if cpu_ns_per_s is not None and ops_per_s > 0 else None,
        runq_ns_per_s / 1000 if runq_ns_per_s is not None else None,
        int(processes) if (processes := of("dbms", "processes_now")[0]) is not None else None,
        100 * (1 - idle / all_) if all_ else None,
        percent("host", "pressure_io_some_ns"),
        per_s("device", "read_kb"),
        per_s("device", "written_kb"),
        int(dirty) if (dirty := of("host", "dirty_bytes_now")[0]) is not None else None,
        percent("engine", "cpu_ns"),
        tuple(sorted(workers, key=lambda worker: -worker[1])),
    )


def _host_times(samples: Mapping[str, tuple[int, Mapping[str, Any]]]) -> tuple[float, float]:
    _, host = samples.get("host", (0, {}))
    names = ("user_ns", "nice_ns", "system_ns", "idle_ns", "iowait_ns", "irq_ns", "softirq_ns", "steal_ns")
    idle = host.get("idle_ns", 0) + host.get("iowait_ns", 0)
    return idle, sum(host.get(name, 0) for name in names)


def _percent(value: float | None, length_ns: int) -> float | None:
    return None if value is None else 100.0 * value / length_ns


def _sum(values: Any) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
