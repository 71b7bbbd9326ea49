"""One step in memory, as far as its charts need it: a film that grows while the engine records.

Everything is read once and kept in plain columns, so that any moment of it can be shown; what only the moment itself
needs (histograms, samples) is read for that moment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from statistics import median

from engine.journal import Count, EventRow, JournalReader, RoleRow, StepRow
from engine.model import progress

SECOND_NS = 1_000_000_000


class Series:
    """A rate over a step: each value held from `until - length` to `until`, in ns. Only ever added to."""

    def __init__(self) -> None:
        self.until: list[int] = []
        self.length: list[int] = []
        self.value: list[float] = []

    def add(self, until: int, length: int, value: float) -> None:
        """One more value, after those that are there."""
        self.until.append(until)
        self.length.append(length)
        self.value.append(value)

    def at(self, t_ns: int) -> float | None:
        """The value of the newest interval that had ended by a time."""
        index = bisect_right(self.until, t_ns)
        return self.value[index - 1] if index else None

    def median(self, from_ns: int, until_ns: int) -> float | None:
        """The median of the intervals that ended within a time."""
        values = self.value[bisect_right(self.until, from_ns) : bisect_right(self.until, until_ns)]
        return median(values) if values else None


class Film:
    """A step as recorded so far. `catch_up` takes in what was committed since."""

    def __init__(self, reader: JournalReader, step: StepRow) -> None:
        self._reader = reader
        self.step = step
        self.roles: dict[int, RoleRow] = {}
        self.rates: dict[str, Series] = {}  # kind of role: what it does per second, all connections together
        self.slowest: dict[str, Series] = {}  # kind of role: longest service time that ended, in ms
        self.events: list[EventRow] = []
        self._done: dict[str, tuple[list[int], list[int]]] = {}  # kind: ends of intervals, rows and statements so far
        self._ends: list[int] = []  # of ticks
        self._event_id = 0
        self._lasting: dict[int, int] = {}  # events that had not ended, and where they stand

    @property
    def newest_ns(self) -> int:
        """The end of the last tick that is known, or the step's start."""
        return self._ends[-1] if self._ends else self.step.started_ns

    def catch_up(self) -> None:
        """Reads what is new: intervals, events, and whether the step has ended."""
        if self.step.state == "running":
            known = {step.id: step for step in self._reader.steps(self.step.attempt_id)}
            self.step = known[self.step.id]
        counts = self._reader.counts(self.step.id, self._ends[-1] if self._ends else 0)
        if any(count.role_id not in self.roles for count in counts):
            self.roles = {role.id: role for role in self._reader.roles(self.step.id)}
        for tick in _ticks(counts):
            self._take(tick)
        self.catch_up_events()

    def catch_up_events(self) -> bool:
        """Reads new events, and those that lasted; whether there was any change."""
        changed = False
        for id, place in list(self._lasting.items()):
            now = self._reader.event(id)
            if now.ended_ns is not None:
                del self._lasting[id]
            if now != self.events[place]:
                self.events[place] = now
                changed = True
        for event in self._reader.events(self.step.id, self._event_id):
            self._event_id = event.id
            if event.ended_ns is None:
                self._lasting[event.id] = len(self.events)
            self.events.append(event)
            changed = True
        return changed

    def tick_ns(self, t_ns: int) -> int:
        """The end of the last tick that had ended by a time; the step's start before the first."""
        index = bisect_right(self._ends, t_ns)
        return self._ends[index - 1] if index else self.step.started_ns

    def done(self, kind: str, t_ns: int) -> int:
        """What the roles of a kind had done by a time: rows, or queries."""
        ends, counts = self._done.get(kind, ([], []))
        index = bisect_right(ends, t_ns)
        return counts[index - 1] if index else 0

    def _take(self, tick: list[Count]) -> None:
        until, length = tick[0].t_ns, max(count.dt_ns for count in tick)
        self._ends.append(until)
        counted: dict[str, int] = {}
        slowest_us: dict[str, int] = {}
        for count in tick:
            role = self.roles[count.role_id]
            counted[role.kind] = counted.get(role.kind, 0) + progress(role.name, count)
            slowest_us[role.kind] = max(slowest_us.get(role.kind, 0), count.max_us)
        for kind, number in counted.items():
            ends, counts = self._done.setdefault(kind, ([], []))
            ends.append(until)
            counts.append((counts[-1] if counts else 0) + number)
            self.rates.setdefault(kind, Series()).add(until, length, number * SECOND_NS / length)
            self.slowest.setdefault(kind, Series()).add(until, length, slowest_us[kind] / 1000)


def _ticks(counts: list[Count]) -> Iterator[list[Count]]:
    """The intervals of all connections that end together, since the engine reads them in one go."""
    tick: list[Count] = []
    for count in counts:
        if tick and count.t_ns != tick[0].t_ns:
            yield tick
            tick = []
        tick.append(count)
    if tick:
        yield tick
