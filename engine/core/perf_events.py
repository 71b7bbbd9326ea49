"""Events counted of server processes: their names for perf and in tables, and their counts.

Hardware events need a PMU, which most virtual machines do not have. The others are the kernel's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OTHERS = "server"  # role of server processes without a connection


@dataclass(frozen=True, slots=True)
class Event:
    """An event by perf's name. `key` is its name in records of figures, in `unit`s of the count."""

    name: str
    key: str
    title: str
    hardware: bool = True
    unit: float = 1.0


# Four hardware events need a general-purpose counter, and every PMU has four: they are never multiplexed.
EVENTS = (
    Event("instructions", "instructions", "instruc-\ntions"),
    Event("cycles", "cycles", "cycles"),
    Event("branches", "branches", "branches"),
    Event("branch-misses", "branch_misses", "branch\nmisses"),
    Event("LLC-load-misses", "llc_misses", "LLC\nmisses"),
    Event("dTLB-load-misses", "dtlb_misses", "dTLB\nmisses"),
    Event("task-clock", "cpu_us", "CPU us", hardware=False, unit=1000.0),
    Event("context-switches", "context_switches", "switches", hardware=False),
    Event("cpu-migrations", "migrations", "migra-\ntions", hardware=False),
    Event("minor-faults", "minor_faults", "minor\nfaults", hardware=False),
    Event("major-faults", "major_faults", "major\nfaults", hardware=False),
)
BY_NAME = {event.name: event for event in EVENTS}
IPC = "instructions_per_cycle"


@dataclass(frozen=True, slots=True)
class EventCount:
    """Count of an event; for `task-clock`, ns.

    If there are more events than hardware counters, perf multiplexes them: this one was counted for `running_ns` of the
    `enabled_ns` that its processes were on a CPU, and `count` is scaled up to all of that time.
    """

    count: float
    enabled_ns: int
    running_ns: int

    def __add__(self, other: EventCount) -> EventCount:
        return EventCount(
            self.count + other.count, self.enabled_ns + other.enabled_ns, self.running_ns + other.running_ns
        )


Counts = Mapping[str, EventCount]  # by event


def per_op(counts: Counts, ops: float) -> dict[str, float]:
    """A role's figures by key: each event per operation, and instructions per cycle."""
    if ops <= 0:
        return {}
    figures = {BY_NAME[name].key: count.count / BY_NAME[name].unit / ops for name, count in counts.items()
             if name in BY_NAME}  # fmt: skip
    if counts.get("instructions") and "cycles" in counts and counts["cycles"].count > 0:
        figures[IPC] = counts["instructions"].count / counts["cycles"].count
    return figures
