"""Events that are counted of server processes: which there are, what perf and tables call them, and their counts.

Events of the hardware are there where the machine shows its PMU; most virtual machines show none. The others are
the kernel's, and are in /proc, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# What is counted: nothing, all that the machine has, or only with a PMU.
Counters = Literal["off", "auto", "hardware"]

OBSERVER = "counters"  # what steps in which something was counted name among their observers
OTHERS = "server"  # the role of server processes that are no connection's


@dataclass(frozen=True, slots=True)
class Event:
    """An event by perf's name. `key` is its name in records of figures, which are in `unit`s of the count."""

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
    """How often an event was counted; for `task-clock`, its ns.

    If there are more events than hardware counters, perf multiplexes them: this one was counted for `running_ns` of the
    `enabled_ns` in which its processes were on a CPU, and `count` is scaled up to all of these.
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
    figures = {BY_NAME[name].key: each.count / BY_NAME[name].unit / ops for name, each in counts.items()
             if name in BY_NAME}  # fmt: skip
    if counts.get("instructions") and "cycles" in counts and counts["cycles"].count > 0:
        figures[IPC] = counts["instructions"].count / counts["cycles"].count
    return figures
