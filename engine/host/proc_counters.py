"""Counters that the kernel keeps per process anyway, read from /proc at start and stop: free in between.

They are perf's kernel events (`engine.core.perf_events`), for machines without a PMU, where perf counts only these and
adds a cost to every context switch. Only a process's first thread is counted: PostgreSQL's have no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.perf_events import EventCount
from engine.host.procfs import GONE, children, number_after, parse_schedstat, parse_stat

REAPED = ("task-clock", "minor-faults", "major-faults")  # kept per process for its reaped children


@dataclass(frozen=True, slots=True)
class Look:
    """A process at one moment: its counters and those of its reaped children, by event."""

    start_ticks: int
    own: Mapping[str, int]
    reaped: Mapping[str, int]


def look(pid: int) -> Look | None:
    """A process now; None if it is gone. Events that this kernel does not count are absent."""
    folder = Path(f"/proc/{pid}")
    try:
        stat, status = (folder / "stat").read_bytes(), (folder / "status").read_bytes()
        schedstat, sched = _read(folder / "schedstat"), _read(folder / "sched")
    except OSError:
        return None
    times, fields = parse_stat(stat), stat[stat.rindex(b")") + 2 :].split()
    minor, reaped_minor, major, reaped_major = (int(value) for value in fields[7:11])
    switches = sum(number_after(status, b"\n%svoluntary_ctxt_switches:" % kind) for kind in (b"", b"non"))
    own = {
        "task-clock": parse_schedstat(schedstat)[0] if schedstat else times.cpu_ns,
        "context-switches": switches,
        "minor-faults": minor,
        "major-faults": major,
    }
    if b"\nse.nr_migrations" in sched:
        own["cpu-migrations"] = int(sched.partition(b"\nse.nr_migrations")[2].partition(b"\n")[0].rpartition(b":")[2])
    return Look(
        times.start_ticks, own, dict(zip(REAPED, (times.reaped_cpu_ns, reaped_minor, reaped_major), strict=True))
    )


def _read(path: Path) -> bytes:
    """Empty if the kernel was built without this file."""
    try:
        return path.read_bytes()
    except GONE:
        return b""


class ProcCounting:
    """Like `perf.Counting`, but never raises; of children that have ended, only CPU time (in ticks) and faults."""

    user_only = False

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._before: dict[int, Look] = {}
        self._known: set[int] = set()
        self._counts: dict[int, dict[str, int]] = {}

    def start(self) -> None:
        self._before = {pid: reading for pid in self._pids if (reading := look(pid))}
        self._known = {child for pid in self._before for child in children(pid)}

    def stop(self) -> None:
        after = {pid: reading for pid in self._before if (reading := look(pid))}
        after = {pid: reading for pid, reading in after.items() if reading.start_ticks == self._before[pid].start_ticks}
        gone = [self._before[pid].own for pid in self._before.keys() - after.keys()]
        for pid, last in after.items():
            first = self._before[pid]
            counts = {event: count - first.own.get(event, 0) for event, count in last.own.items()}
            born = [reading.own for child in set(children(pid)) - self._known if (reading := look(child))]
            for event in counts:
                counts[event] += sum(each.get(event, 0) for each in born)
            for event in REAPED:
                reaped = last.reaped[event] - first.reaped[event]
                # Includes what its children did before the start.
                earlier = sum(each[event] for each in gone) if reaped else 0
                counts[event] += max(0, reaped - earlier)
            self._counts[pid] = counts

    def end(self) -> dict[int, dict[str, EventCount]]:
        """Counts by process, then by event; each event was counted during all of the CPU time."""
        found = {}
        for pid, counts in self._counts.items():
            cpu_ns = counts["task-clock"]
            found[pid] = {event: EventCount(count, cpu_ns, cpu_ns) for event, count in counts.items()}
        return found

    def close(self) -> None:
        pass
