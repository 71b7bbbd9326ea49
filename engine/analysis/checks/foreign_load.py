"""Foreign load while a step ran: the machine's CPU time less the run's own.

The processes that drive slices and start clients (conductor, launchers) are not sampled, so their little is included.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from engine.analysis.statistics.metrics import SLIVER_NS
from engine.core.record import converted
from engine.host.machine_counters import cpu_busy_ns
from engine.journal.reader import JournalReader

OWN_SOURCES = ("server", "monitor")  # samples of a step whose CPU time is its cell's alone


class CpuInterval(NamedTuple):
    """CPU time used between two times, in ns; assumed uniform in between."""

    from_ns: int
    until_ns: int
    cpu_ns: float

    def within(self, from_ns: float, until_ns: float) -> float:
        overlap_ns = min(self.until_ns, until_ns) - max(self.from_ns, from_ns)
        length_ns = self.until_ns - self.from_ns
        return self.cpu_ns * overlap_ns / length_ns if overlap_ns > 0 and length_ns > 0 else 0.0


class MachineInterval(NamedTuple):
    """About a second of the machine, in CPUs: busy, busy with work not of the run, stolen."""

    from_ns: int
    until_ns: int
    busy: float
    others: float
    stolen: float


def machine(reader: JournalReader, step: int, interleaved: Sequence[int]) -> list[MachineInterval]:
    """The seconds of `step`, one of the `interleaved` ones; empty if the host was not sampled.

    The sliver at the end is left out: its counters are read later than it ends. The run's own are the servers, clients
    and monitors of all these steps, and the engine, which is one process.
    """
    used = [interval for one in interleaved for interval in _of_cell(reader, one)]
    used += _used(_samples(reader, step, ("engine",)))
    host = [
        (from_ns, until_ns, busy_ns, data.get("steal_ns", 0))
        for from_ns, until_ns, data in _samples(reader, step, ("host",))
        if (busy_ns := cpu_busy_ns(data)) is not None and until_ns - from_ns >= SLIVER_NS
    ]
    own_ns = [0.0] * len(host)
    for cpu_interval in used:
        place = bisect_right(host, cpu_interval.from_ns, key=itemgetter(1))
        while place < len(host) and host[place][0] < cpu_interval.until_ns:
            own_ns[place] += cpu_interval.within(*host[place][:2])
            place += 1
    return [_interval(*second, used_ns) for second, used_ns in zip(host, own_ns, strict=True)]


def mean(intervals: Sequence[MachineInterval], from_ns: float, until_ns: float) -> tuple[float, float] | None:
    """The mean CPUs foreign and stolen between two times, from ordered `intervals`; None if unknown."""
    covered_ns = others = stolen = 0.0
    first = bisect_right(intervals, from_ns, key=attrgetter("until_ns"))
    for interval in islice(intervals, first, None):
        overlap_ns = min(interval.until_ns, until_ns) - max(interval.from_ns, from_ns)
        if overlap_ns <= 0:
            break
        covered_ns += overlap_ns
        others += interval.others * overlap_ns
        stolen += interval.stolen * overlap_ns
    return (others / covered_ns, stolen / covered_ns) if covered_ns > 0 else None


def _interval(from_ns: int, until_ns: int, busy_ns: int, steal_ns: int, own_ns: float) -> MachineInterval:
    length_ns = until_ns - from_ns
    # The kernel counts the machine in ticks of 10 ms, and processes exactly: the difference may be negative.
    return MachineInterval(
        from_ns, until_ns, busy_ns / length_ns, max(0.0, busy_ns - own_ns) / length_ns, steal_ns / length_ns
    )


def _of_cell(reader: JournalReader, step: int) -> Iterable[CpuInterval]:
    """The CPU use of one cell's processes: its server, the engine's connection to it, its clients."""
    yield from _used(_samples(reader, step, OWN_SOURCES))
    from_ns = reader.step(step).started_ns
    for t_ns, cpu_ns in reader.clients_cpu(step):
        yield CpuInterval(from_ns, t_ns, cpu_ns)
        from_ns = t_ns


def _samples(reader: JournalReader, step: int, sources: Sequence[str]) -> Iterable[tuple[int, int, dict[str, int]]]:
    """The samples of some sources: start, end, counters. Raises UserError for malformed counters."""
    where = f"{reader.run / 'journal.db'}: table sample: data"
    for t_ns, dt_ns, source, data in reader.samples(step):
        if source in sources:
            yield t_ns - dt_ns, t_ns, converted(data, dict[str, int], where)


def _used(samples: Iterable[tuple[int, int, dict[str, int]]]) -> Iterable[CpuInterval]:
    return (CpuInterval(from_ns, until_ns, data.get("cpu_ns", 0)) for from_ns, until_ns, data in samples)
