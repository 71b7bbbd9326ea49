"""One step in memory, as far as its charts need it: a series that grows while the engine records.

Everything is read once and kept in plain columns, so that any moment can be shown; histograms and samples are read only
for that moment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter, mul
from statistics import median

from engine.journal.reader import JournalReader
from engine.journal.rows import ChartSecond, EventRow, RoleRow, StepRow
from engine.journal.totals import progress

SECOND_NS = 1_000_000_000
SLIVER = 0.5  # fraction of the interval before it, or of a second


def is_sliver(length_ns: float, before_ns: float = SECOND_NS) -> bool:
    """Whether an interval is a remainder at the end of a step: too short for a rate of its own."""
    return length_ns < SLIVER * min(before_ns, SECOND_NS)


class Series:
    """A rate over a step: each value held from `until - length` to `until`, in ns. Appended to at its end."""

    def __init__(self) -> None:
        self.until: list[int] = []
        self.length: list[int] = []
        self.value: list[float] = []

    def add(self, until: int, length: int, value: float) -> None:
        self.until.append(until)
        self.length.append(length)
        self.value.append(value)

    def drop(self) -> None:
        for column in (self.until, self.length, self.value):
            column.pop()

    def halve(self) -> None:
        """Merge pairs of neighbours, with their time-weighted mean; an odd last one stays."""
        pairs = range(0, len(self.until) - 1, 2)
        odd = slice(2 * len(pairs), None)
        lengths = [self.length[at] + self.length[at + 1] for at in pairs]
        values = [
            (self.value[at] * self.length[at] + self.value[at + 1] * self.length[at + 1]) / length
            for at, length in zip(pairs, lengths, strict=True)
        ]
        self.until = [*self.until[1 : odd.start : 2], *self.until[odd]]
        self.value = [*values, *self.value[odd]]
        self.length = [*lengths, *self.length[odd]]

    def at(self, t_ns: int) -> float | None:
        index = bisect_right(self.until, t_ns)
        return self.value[index - 1] if index else None

    def median(self, from_ns: int, until_ns: int) -> float | None:
        """Median of the intervals that ended in (from_ns, until_ns]."""
        values = self.value[bisect_right(self.until, from_ns) : bisect_right(self.until, until_ns)]
        return median(values) if values else None

    def mean(self, from_ns: int, until_ns: int) -> float | None:
        """Time-weighted mean of the intervals that ended in (from_ns, until_ns]."""
        part = slice(bisect_right(self.until, from_ns), bisect_right(self.until, until_ns))
        length = sum(self.length[part])
        return sum(map(mul, self.value[part], self.length[part])) / length if length else None


def by_statements(points: Series) -> Series:
    """The rate of statements that last longer than intervals: one in which none ended joins the next that has some."""
    joined, begun = Series(), 0
    for until, length, value in zip(points.until, points.length, points.value, strict=True):
        if value:
            span = max(1, until - begun)
            joined.add(until, span, value * length / span)
            begun = until
    return joined


class StepSeries:
    """A step as recorded so far; `catch_up` adds newly committed rows."""

    def __init__(self, reader: JournalReader, step: StepRow) -> None:
        self._reader = reader
        self.step = step
        self.roles: dict[int, RoleRow] = {}
        self.rates: dict[str, Series] = {}  # kind of role: rate per second over all connections
        # Kind of role: longest completed service time in ms; if a server is only watched, age of the oldest statement.
        self.slowest: dict[str, Series] = {}
        self.events: list[EventRow] = []
        self.active: dict[str, Series] = {}  # `rates` over active time from 0 instead of the clock
        self._done: dict[str, Series] = {}  # kind of role: rows or statements so far
        self._ends: list[int] = [step.started_ns]  # of ticks, after the step's start
        self._worked_ns: list[int] = [0]  # up to each tick
        self._last: list[ChartSecond] = []  # the newest tick
        self._short: list[ChartSecond] = []  # the next one if too short: another follows, or the step ended
        self._joined = False  # the two were merged

    @property
    def newest_ns(self) -> int:
        return self._ends[-1]

    def catch_up(self) -> None:
        """Read new intervals and events; a sliver at the step's end is merged with the interval before."""
        if self.step.state == "running":
            self.step = self._reader.step(self.step.id)
        known_ns = self._short[0].t_ns if self._short else self._ends[-1]
        counts = self._reader.counts(self.step.id, known_ns)
        if any(count.role_id not in self.roles for count in counts):
            self.roles = {role.id: role for role in self._reader.roles(self.step.id)}
        for _, tick in groupby(counts, attrgetter("t_ns")):  # intervals that end together were read together
            self._take_short()
            self._short = list(tick)
            if not is_sliver(_length(self._short), _length(self._last)):
                self._take_short()
        if self._short and self.step.ended_ns is not None and not self._joined:
            self._join()
        self.catch_up_events()

    def catch_up_events(self) -> bool:
        """Read new events, and those that lasted; return whether anything changed."""
        changed = False
        for place, known in enumerate(self.events):
            if known.ended_ns is None and (now := self._reader.event(known.id)) != known:
                self.events[place] = now
                changed = True
        new = self._reader.events(self.step.id, self.events[-1].id if self.events else 0)
        self.events += new
        return changed or bool(new)

    def tick_ns(self, t_ns: int) -> int:
        """End of the last tick that had ended by a time; the step's start before the first."""
        return self._ends[self._place(t_ns)]

    def tick_started_ns(self, t_ns: int) -> int:
        """Start of that tick, a merged sliver included."""
        return self._ends[self._begin(self._place(t_ns))]

    def worked_s(self, t_ns: int) -> float:
        """Length of the ticks that had ended by a time, without a sliced server's pauses."""
        return self._worked_ns[self._place(t_ns)] / 1e9

    def active_share(self, t_ns: int) -> float:
        """Fraction of the last tick that was not paused; 1 before the first."""
        place = self._place(t_ns)
        begin = self._begin(place)
        length_ns = self._ends[place] - self._ends[begin]
        return min(1.0, (self._worked_ns[place] - self._worked_ns[begin]) / max(1, length_ns)) if place else 1.0

    def _place(self, t_ns: int) -> int:
        """Index of the last tick that had ended by a time; 0 before the first."""
        return max(0, bisect_right(self._ends, t_ns) - 1)

    def _begin(self, place: int) -> int:
        """Index of the end before a tick's."""
        return max(0, place - 1 - (self._joined and place == len(self._ends) - 1))

    def done(self, kind: str, t_ns: int) -> int:
        """Rows or queries done by roles of a kind up to a time."""
        return int(self._done.get(kind, Series()).at(t_ns) or 0)

    def mean_rate(self, t_ns: int) -> float | None:
        """Operations per second of work up to a time; after the step, the figure that is compared between builds."""
        primary = self.step.primary_metric
        if primary is None or primary.by == "time":
            return None
        if self.step.totals is not None and self.step.ended_ns is not None and t_ns >= self.step.ended_ns:
            return self.step.rate_per_s
        done, worked_s = self.done(primary.role, t_ns), self.worked_s(t_ns)
        if not primary.live and primary.role in self.active:  # the work of its statement under way is unknown
            ended = by_statements(self.active[primary.role]).until
            place = bisect_right(ended, round(worked_s * SECOND_NS))
            worked_s = ended[place - 1] / SECOND_NS if place else 0.0
        return done / worked_s if done and worked_s else None

    def done_after(self, kind: str, worked_s: float) -> float | None:
        """Work of roles of a kind after so much active time; None if the step was shorter."""
        done, active = self._done.get(kind), self.active.get(kind)
        return _between(active.until, done.value, worked_s * 1e9) if done and active else None

    def worked_for(self, kind: str, amount: float) -> float | None:
        """Active time in s in which roles of a kind had done an amount; None if they never did."""
        done, active = self._done.get(kind), self.active.get(kind)
        worked_ns = _between(done.value, active.until, amount) if done and active else None
        return None if worked_ns is None else worked_ns / 1e9

    def _take_short(self) -> None:
        if self._short:
            self._last, self._short = self._short, []
            self.take(self._last)

    def _join(self) -> None:
        """Merge the newest tick and the sliver after it."""
        for kind in {self.roles[count.role_id].kind for count in self._last}:
            for series in (self.rates, self.slowest, self.active, self._done):
                series[kind].drop()
        before, now = ({count.role_id: count for count in counts} for counts in (self._last, self._short))
        together = [_added(before[role], now[role]) for role in before.keys() & now.keys()]
        alone = [(before | now)[role]._replace(t_ns=self._short[0].t_ns) for role in before.keys() ^ now.keys()]
        self._joined = True
        self.take(together + alone, _length(self._short))

    def take(self, tick: list[ChartSecond], worked_ns: int | None = None) -> None:
        """Add the counts of all roles of one tick; `worked_ns` is its active time if that is not its length."""
        until, length = tick[0].t_ns, _length(tick)
        self._ends.append(until)
        self._worked_ns.append((length if worked_ns is None else worked_ns) + self._worked_ns[-1])
        counted: dict[str, int] = {}
        slowest_us: dict[str, int] = {}
        for count in tick:
            role = self.roles[count.role_id]
            counted[role.kind] = counted.get(role.kind, 0) + progress(role.name, count)
            slowest_us[role.kind] = max(slowest_us.get(role.kind, 0), count.max_us)
        for kind, number in counted.items():
            done = self._done.setdefault(kind, Series())
            done.add(until, length, number + (done.value[-1] if done.value else 0))
            self.rates.setdefault(kind, Series()).add(until, length, number * SECOND_NS / length)
            self.active.setdefault(kind, Series()).add(self._worked_ns[-1], length, number * SECOND_NS / length)
            self.slowest.setdefault(kind, Series()).add(until, length, slowest_us[kind] / 1000)


def _length(tick: Iterable[ChartSecond]) -> int:
    return max((count.dt_ns for count in tick), default=0)


def _added(one: ChartSecond, other: ChartSecond) -> ChartSecond:
    return other._replace(
        dt_ns=one.dt_ns + other.dt_ns,
        statements=one.statements + other.statements,
        rows=one.rows + other.rows,
        max_us=max(one.max_us, other.max_us),
    )


def _between(known: Sequence[float], values: Sequence[float], at: float) -> float | None:
    """Interpolate the value at `at` between neighbours in `known`; both rise from 0."""
    index = bisect_left(known, at)
    if index == len(known):
        return None
    low, value = (known[index - 1], values[index - 1]) if index else (0.0, 0.0)
    return value + (values[index] - value) * (at - low) / (known[index] - low) if known[index] > low else value
