"""Details of a step read only if there is room for them: service times, waits, figures of the machine.

Each is a series that grows while the engine records, over the clock or, for sliced servers, active time: the `active`
argument of each `read_...` maps to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import log2
from typing import Any, NamedTuple

from engine.host.machine_counters import CPU_COLUMNS
from engine.journal.reader import JournalReader
from engine.journal.rows import RoleRow
from engine.view.envelope import Sort
from engine.view.step_series import SECOND_NS, Series, is_sliver
from workloads.client import histogram

# With less active time in a tick, its figures are mostly background work between slices.
LEAST_ACTIVE_NS = 50_000_000
PER_OCTAVE = 2  # bands of service times: two for each doubling


class Weighed:
    """Points with weights by sort; each held from `until - length` to `until`, in ns."""

    def __init__(self) -> None:
        self.until: list[int] = []
        self.length: list[int] = []
        self.value: list[dict[Sort, float]] = []

    def add(self, until: int, length: int, weights: Mapping[Sort, float]) -> None:
        if not self.until or until > self.until[-1]:
            self.until.append(until)
            self.length.append(length)
            self.value.append({})
        known = self.value[-1]
        for key, weight in weights.items():
            known[key] = known.get(key, 0.0) + weight


class MachineFigure(NamedTuple):
    """A figure of the machine: name, unit, and its formula from a source's counters over an interval."""

    name: str
    unit: str
    source: str
    value: Callable[[Mapping[str, Any], int], float | None]


def _per_s(field: str, factor: float) -> Callable[[Mapping[str, Any], int], float | None]:
    return lambda data, dt_ns: data[field] * factor * SECOND_NS / dt_ns if field in data else None


def _busy(data: Mapping[str, Any], _: int) -> float | None:
    idle, every = data.get("idle_ns", 0) + data.get("iowait_ns", 0), sum(data.get(name, 0) for name in CPU_COLUMNS)
    return 100 * (1 - idle / every) if every else None


FIGURES = (
    MachineFigure("server CPU", "%", "server", _per_s("cpu_ns", 1e-7)),
    MachineFigure("run queue", "waiting", "server", _per_s("runq_ns", 1e-9)),
    MachineFigure("WAL", "MB/s", "wal", _per_s("bytes", 1 / (1 << 20))),
    MachineFigure("disk writes", "MB/s", "device", _per_s("written_kb", 1 / 1024)),
    MachineFigure("disk reads", "MB/s", "device", _per_s("read_kb", 1 / 1024)),
    MachineFigure("waiting for I/O", "%", "host", _per_s("pressure_io_some_ns", 1e-7)),
    MachineFigure("host busy", "%", "host", _busy),
)
OF_SERVER = ("server", "wal")  # nearly idle while the server is paused
SOURCES = tuple(dict.fromkeys(figure.source for figure in FIGURES))


class StepDetails:
    """Details of a step recorded so far. Each `read_...` adds newly committed rows."""

    def __init__(self, reader: JournalReader, step: int) -> None:
        self._reader = reader
        self._step = step
        self.figures = {figure.name: Series() for figure in FIGURES}
        self.services: dict[str, Weighed] = {}  # by kind of role: counts by service time band
        self.waits: dict[str, Weighed] = {}  # by role: ns by wait event, `` while running
        self._figures_ns = self._services_ns = self._waits_ns = 0
        self._looked = False  # whether waits were sampled; not before schema 1.6

    def read_figures(self, active: Callable[[int], tuple[int, float]]) -> dict[str, Series]:
        """`active` maps a tick to its place on the axis and its share of work."""
        newest_ns = self._figures_ns
        for t_ns, dt_ns, source, data in self._reader.samples(self._step, self._figures_ns, sources=SOURCES):
            newest_ns = max(newest_ns, t_ns)
            if dt_ns <= 0:
                continue
            at_ns, share = active(t_ns)
            length = max(1, round(dt_ns * share))
            of_server = source in OF_SERVER
            if of_server and share < 1 and length < LEAST_ACTIVE_NS:
                continue
            for figure in FIGURES:
                if figure.source == source:
                    points, value = self.figures[figure.name], figure.value(data, length if of_server else dt_ns)
                    if value is not None and not (points.value and is_sliver(dt_ns)):
                        points.add(at_ns, length, value)
        self._figures_ns = newest_ns
        return self.figures

    def read_services(self, roles: Mapping[int, RoleRow], active: Callable[[int], tuple[int, float]]) -> None:
        for role, t_ns, dt_ns, counts in self._reader.services(self._step, self._services_ns):
            self._services_ns = t_ns
            if role in roles:
                times: dict[Sort, float] = {}
                for bucket, count in counts.items():
                    key = band(bucket)
                    times[key] = times.get(key, 0) + count
                self.services.setdefault(roles[role].kind, Weighed()).add(active(t_ns)[0], dt_ns, times)

    def read_waits(self, roles: Mapping[int, RoleRow], active: Callable[[int], tuple[int, float]]) -> None:
        looks = self._reader.wait_seconds(self._step, self._waits_ns)
        self._looked = self._looked or bool(looks)
        for second in looks:
            self._waits_ns = second.t_ns
            part = second.dt_ns / max(1, sum(second.data.values()))
            of: dict[Sort, float] = {event: count * part for event, count in second.data.items()}
            self.waits.setdefault(second.role, Weighed()).add(active(second.t_ns)[0], second.dt_ns, of)
        if self._looked:
            return
        for role, t_ns, dt_ns, event in self._reader.waits(self._step, self._waits_ns):
            self._waits_ns = t_ns
            if role in roles:
                weights: dict[Sort, float] = {event or "": dt_ns}
                self.waits.setdefault(roles[role].name, Weighed()).add(active(t_ns)[0], dt_ns, weights)


@cache
def band(bucket: int) -> int:
    """The band of a histogram's bucket, by its lowest value: 0 for up to 1 us, 2 for 2 us, 4 for 4 us."""
    return int(PER_OCTAVE * log2(max(1, histogram.bounds(bucket)[0])))


def band_us(key: int) -> float:
    return float(2 ** (key / PER_OCTAVE))
