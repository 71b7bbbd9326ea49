"""The stall detector: a pure, online function of the counters. No clocks, no I/O.

A stall is an interval in which one connection makes (nearly) no progress. It begins on one of three signs:

- **rate**: rows per second below `enter_fraction` of the trailing median for `enter_s`;
- **in flight**: the statement in flight is older than max(`in_flight_floor_s`, `in_flight_p99_factor` x the
  99th percentile of service times so far). This is seen while the statement is still running;
- **blocked**: its backend has been stopped, or has waited for a lock, for `in_flight_floor_s`. This holds for
  statements of any length, of which a step may have only one, and from its start.

A role that a rate limiter holds, if only at some time of a second, has done all that was due by then, whatever its
rate: such a second is never slow, and ends a stall as soon as no statement is in flight for too long.

Otherwise it ends after `leave_s` above `leave_fraction` of the median that held when it began: stalled seconds never
enter the median, or a long stall would become its own yardstick. If work resumes at a slower pace, it ends with the
first of `slower_s` consecutive seconds above `enter_fraction`. A lower level that holds steadily for a whole window is
a new level, not an endless stall; a crawl below `crawl_fraction` is never a level.

Not a stall: the first `warm_up_s` of a step, unless something is blocked; a role whose typical statement takes so long
that a second counts fewer than `min_statements_per_tick` (its rate per second is meaningless, but the other signs still
hold: the in-flight one scales with its own percentile); a role that has finished its work. The same calls give the same
stalls, so they can be checked with the recorded series and the rule.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, NamedTuple

SECOND_NS = 1_000_000_000
# Ticks come at 1 Hz with scheduling jitter: two of them are "2 s" even if they add up to 1.95.
JITTER_S = 0.1

Trigger = Literal["rate", "in_flight", "blocked"]
Quantile = Callable[[float], int | None]  # upper bound in us of a quantile of service times


@dataclass(frozen=True, slots=True)
class StallRule:
    """The parameters, recorded in the manifest. Fractions are of the trailing median of rows per second."""

    enter_fraction: float = 0.30
    enter_s: float = 2.0
    leave_fraction: float = 0.70
    leave_s: float = 2.0
    slower_s: float = 5.0
    window_s: float = 60.0
    in_flight_floor_s: float = 1.0
    in_flight_p99_factor: float = 20.0
    min_statements: int = 10  # with fewer, a percentile is meaningless
    min_statements_per_tick: float = 2.0
    warm_up_s: float = 5.0
    crawl_fraction: float = 0.05


@dataclass(frozen=True, slots=True)
class Stall:
    """One stall of one connection, as known so far; `ended_ns` is None while it lasts.

    `started_ns` is when the statement in flight was sent, or the start of the first slow second, or of being blocked.
    `ending_ns` is its end if the working seconds since then are followed by more. `duration_s` runs to either, or to
    the latest call. `depth` is the lowest rate over the median, 0 (no progress) to 1. `missed_rows` is median x
    duration - the work done, both in units of the role's rate: rows, or statements of roles such as query. The
    engine fills `causes`, likeliest first.
    """

    role: str
    client: int
    started_ns: int
    ended_ns: int | None
    trigger: Trigger
    depth: float
    duration_s: float
    max_in_flight_ns: int
    missed_rows: int
    median_per_s: float
    causes: tuple[dict[str, Any], ...] = ()
    ending_ns: int | None = None

    def until_ns(self, now_ns: int) -> int:
        """Its end, or since when it seems to be over, or now: what comes later explains nothing of it."""
        return self.ended_ns or self.ending_ns or now_ns

    def record(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "causes": [dict(cause) for cause in self.causes]}


@dataclass(frozen=True, slots=True)
class StallChange:
    kind: Literal["began", "went_on", "ended"]
    stall: Stall


class _Tick(NamedTuple):
    start_ns: int
    end_ns: int
    rows: int
    rate_per_s: float


class _Window:
    """Consecutive seconds, the newest `most_s` of them, with their median: needed per connection each second."""

    def __init__(self, most_s: float) -> None:
        self.ticks: deque[_Tick] = deque()
        self._most_ns = (most_s + JITTER_S) * SECOND_NS
        self._ns = 0
        self._rates: list[float] = []  # sorted

    def add(self, tick: _Tick) -> None:
        self.ticks.append(tick)
        self._ns += tick.end_ns - tick.start_ns
        insort(self._rates, tick.rate_per_s)
        while self._ns >= self._most_ns and len(self.ticks) > 1:
            oldest = self.ticks.popleft()
            self._ns -= oldest.end_ns - oldest.start_ns
            del self._rates[bisect_left(self._rates, oldest.rate_per_s)]

    def clear(self) -> None:
        self.ticks.clear()
        self._rates.clear()
        self._ns = 0

    @property
    def seconds(self) -> float:
        return self._ns / SECOND_NS

    @property
    def median(self) -> float:
        """The median rate so far, or 0."""
        count = len(self._rates)
        return (self._rates[(count - 1) // 2] + self._rates[count // 2]) / 2 if count else 0.0

    @property
    def lowest(self) -> float:
        """Lowest of the rates, of which there must be one."""
        return self._rates[0]


class Detector:
    """Watches one connection through one step: `tick` each second, `look` in between, `finish` at its end."""

    def __init__(self, rule: StallRule, role: str, client: int, started_ns: int) -> None:
        self.rule = rule
        self.role = role
        self.client = client
        self.stall: Stall | None = None  # the current one
        self._floor_ns = int(rule.in_flight_floor_s * SECOND_NS)
        self._warm_ns = started_ns + int(rule.warm_up_s * SECOND_NS)
        self._last_ns = started_ns
        self._free_ns = started_ns  # end of the previous stall: the next one cannot start before it
        self._history = _Window(rule.window_s)  # normal seconds
        self._slow: list[_Tick] = []  # consecutive slow seconds, not a stall yet
        self._good: list[_Tick] = []  # consecutive seconds with progress during a stall
        self._stalled = _Window(rule.window_s)  # the stall's seconds
        self._stalled_rows = 0
        self._over_ns = 0  # when the in-flight age was last seen over its limit, or first below it again
        self._is_over = False
        self._statements = 0
        self._quantile_us: Quantile = lambda _: None
        self._asked = False  # whether the percentile was already used for this limit
        self._limit_ns: int | None = None
        self._carried_rows = 0
        self._finished = False

    def tick(
        self,
        t_ns: int,
        dt_ns: int,
        rows: int,
        statements: int,
        in_flight_ns: int = 0,
        quantile_us: Quantile = lambda _: None,
        *,
        held: bool = False,
        sent_ns: int = 0,
        blocked_ns: int = 0,
    ) -> tuple[StallChange, ...]:
        """Take in the second that ends at `t_ns`, in which `rows` (all that the rate counts) and `statements` finished.

        `in_flight_ns` is the age of the statement in flight at `t_ns` (0: none). `quantile_us` is of service times of
        the step so far, this second included, until the next call; called only if something is slow, as it is costly.
        `held`: at some time of the second the role waited for nothing but its rate limiter. `sent_ns` is when the
        statement in flight was sent if it is older than its age, which in slices is in the server's own time. Since
        `blocked_ns` the backend has been stopped, or has waited for a lock; 0: it is not blocked.
        """
        if self._finished:
            return ()
        self._statements += statements
        self._quantile_us, self._asked = quantile_us, False
        start_ns = self._last_ns  # in slices, a tick is longer than the server's time in it; overlaps count once
        if dt_ns <= 0 or start_ns >= t_ns:
            self._carried_rows += rows if dt_ns <= 0 else 0
            return ()
        rows += self._carried_rows
        self._carried_rows = 0
        self._last_ns = t_ns
        tick = _Tick(start_ns, t_ns, rows, rows * SECOND_NS / dt_ns)
        sent_ns = sent_ns or t_ns - in_flight_ns
        stuck = self._stuck(t_ns, in_flight_ns, sent_ns, blocked_ns)
        if self.stall is not None:
            return self._during(tick, in_flight_ns, dt_ns, held=held, over=stuck is not None)
        return self._before(tick, in_flight_ns, dt_ns, stuck, held=held, sent_ns=sent_ns)

    def look(self, t_ns: int, in_flight_ns: int, sent_ns: int = 0, blocked_ns: int = 0) -> tuple[StallChange, ...]:
        """Check between two ticks; reports at most the start of a stall."""
        if self._finished:
            return ()
        stuck = self._stuck(t_ns, in_flight_ns, sent_ns or t_ns - in_flight_ns, blocked_ns)
        if self.stall is not None:
            self._see(t_ns, in_flight_ns, over=stuck is not None)
            return ()
        return self._begin(*stuck, t_ns, in_flight_ns) if stuck is not None else ()

    def finish(self, t_ns: int) -> tuple[StallChange, ...]:
        """End the stall that still lasts, as the role's work or the step is over. Later calls do nothing."""
        if self._finished:
            return ()
        self._finished = True
        if self.stall is None:
            return ()
        if self._good:
            return self._end(self._ending_ns())
        blocked = self.stall.trigger == "blocked" and self.stall.median_per_s == 0
        return self._end(self._over_ns if blocked and not self._is_over else max(t_ns, self._last_ns))

    def _before(
        self, tick: _Tick, in_flight_ns: int, dt_ns: int, stuck: tuple[Trigger, int] | None, *, held: bool, sent_ns: int
    ) -> tuple[StallChange, ...]:
        level = self._history.median
        slow = level > 0 and tick.rate_per_s < self.rule.enter_fraction * level
        if slow and not held and not self._is_coarse(dt_ns):
            self._slow.append(tick)
        else:
            self._remember(self._slow)
            self._slow.clear()
            self._history.add(tick)
        if stuck is not None:
            return self._begin(*stuck, tick.end_ns, in_flight_ns)
        lasting = self._slow and _seconds(self._slow) + JITTER_S >= self.rule.enter_s
        if lasting and tick.end_ns > self._warm_ns:
            start_ns = min(self._slow[0].start_ns, sent_ns)
            return self._begin("rate", start_ns, tick.end_ns, in_flight_ns)
        return ()

    def _begin(self, trigger: Trigger, start_ns: int, t_ns: int, in_flight_ns: int) -> tuple[StallChange, ...]:
        level = self._history.median
        start_ns = min(max(start_ns, self._free_ns), t_ns)
        # A connection has one statement: while it is in flight nothing finishes, so the depth is 0.
        depth = 0.0 if trigger != "rate" else min(tick.rate_per_s for tick in self._slow) / level
        self.stall = Stall(
            self.role, self.client, start_ns, None, trigger, depth, (t_ns - start_ns) / SECOND_NS, 0, 0, level
        )
        self._stalled_rows = 0
        for tick in self._slow:
            self._count(tick)
        self._slow.clear()
        self._see(t_ns, in_flight_ns, over=trigger != "rate" or self._over_limit(t_ns, in_flight_ns))
        self._update(t_ns)
        return (StallChange("began", self.stall),)

    def _during(self, tick: _Tick, in_flight_ns: int, dt_ns: int, *, held: bool, over: bool) -> tuple[StallChange, ...]:
        assert self.stall is not None
        self._see(tick.end_ns, in_flight_ns, over=over)
        level = self.stall.median_per_s
        # Without a level (most seconds see no statement end), the stall is over when its statement is, or its block.
        works = held or level == 0 or tick.rate_per_s > self.rule.enter_fraction * level
        if not over and (works or self._is_coarse(dt_ns)):
            self._good.append(tick)
            if held:
                return self._end(self._ending_ns())
            least = self.rule.leave_fraction * level
            fast = takewhile(lambda second: level == 0 or second.rate_per_s > least, reversed(self._good))
            went_on = _seconds(fast) + JITTER_S >= self.rule.leave_s
            if went_on or _seconds(self._good) + JITTER_S >= self.rule.slower_s:
                return self._end(self._ending_ns())
        else:
            for second in self._good:
                self._count(second)
            self._good.clear()
            self._count(tick)
            if not over and self._settled():
                return self._end(tick.end_ns, new_level=True)
        ending_ns = self._ending_ns() if self._good else None
        self._update(tick.end_ns if ending_ns is None else ending_ns)
        self.stall = dataclasses.replace(self.stall, ending_ns=ending_ns)
        return (StallChange("went_on", self.stall),)

    def _ending_ns(self) -> int:
        """The time when work resumed, but not before the end of the slow statement."""
        assert self.stall is not None
        return max(self._good[0].start_ns, self._over_ns, self.stall.started_ns)

    def _end(self, ended_ns: int, new_level: bool = False) -> tuple[StallChange, ...]:
        assert self.stall is not None
        self._update(ended_ns)
        stall = dataclasses.replace(self.stall, ended_ns=ended_ns, ending_ns=None)
        if new_level:
            self._history.clear()
            self._remember(self._stalled.ticks)
        self._remember(self._good)
        self._good.clear()
        self._stalled.clear()
        self.stall = None
        self._free_ns = ended_ns
        self._over_ns, self._is_over = 0, False
        return (StallChange("ended", stall),)

    def _settled(self) -> bool:
        """Whether a whole window of the stall ran at one level that is more than a crawl."""
        assert self.stall is not None
        if self._stalled.seconds + JITTER_S < self.rule.window_s:
            return False
        level = self._stalled.median
        return (
            level >= self.rule.crawl_fraction * self.stall.median_per_s
            and level > 0
            and self._stalled.lowest > self.rule.enter_fraction * level
        )

    def _is_coarse(self, dt_ns: int) -> bool:
        """Whether a typical statement takes so long that the rate of one interval is meaningless."""
        p50_us = self._quantile_us(0.5)
        return p50_us is not None and p50_us * 1000 * self.rule.min_statements_per_tick > dt_ns

    def _stuck(self, t_ns: int, in_flight_ns: int, sent_ns: int, blocked_ns: int) -> tuple[Trigger, int] | None:
        """The sign that nothing is done now, and since when; None without one."""
        if self._over_limit(t_ns, in_flight_ns):
            return "in_flight", sent_ns
        return ("blocked", blocked_ns) if blocked_ns and t_ns - blocked_ns >= self._floor_ns else None

    def _over_limit(self, t_ns: int, in_flight_ns: int) -> bool:
        if in_flight_ns <= self._floor_ns or t_ns <= self._warm_ns:
            return False
        if not self._asked and self._statements >= self.rule.min_statements:
            self._asked, p99_us = True, self._quantile_us(0.99)
            if p99_us is not None:
                self._limit_ns = max(self._floor_ns, int(self.rule.in_flight_p99_factor * p99_us * 1000))
        # Without a percentile, only a low rate shows a stall, and then an old statement in it.
        is_slow = self.stall is not None and self.stall.trigger == "rate"
        limit_ns = self._floor_ns if self._limit_ns is None and is_slow else self._limit_ns
        return limit_ns is not None and in_flight_ns > limit_ns

    def _see(self, t_ns: int, in_flight_ns: int, *, over: bool) -> None:
        assert self.stall is not None
        if over:
            self._over_ns, self._is_over = t_ns, True
        elif self._is_over:
            self._over_ns, self._is_over = t_ns, False
        if in_flight_ns > self.stall.max_in_flight_ns:
            self.stall = dataclasses.replace(self.stall, max_in_flight_ns=in_flight_ns)

    def _count(self, tick: _Tick) -> None:
        """Add a second to the stall, without work done before the statement was sent."""
        assert self.stall is not None
        self._stalled.add(tick)
        if tick.start_ns >= self.stall.started_ns:
            self._stalled_rows += tick.rows
        if self.stall.median_per_s > 0:
            depth = min(self.stall.depth, tick.rate_per_s / self.stall.median_per_s)
            self.stall = dataclasses.replace(self.stall, depth=depth)

    def _update(self, t_ns: int) -> None:
        assert self.stall is not None
        duration_s = (t_ns - self.stall.started_ns) / SECOND_NS
        missing = max(0, round(self.stall.median_per_s * duration_s) - self._stalled_rows)
        self.stall = dataclasses.replace(self.stall, duration_s=duration_s, missed_rows=missing)

    def _remember(self, ticks: Iterable[_Tick]) -> None:
        for tick in ticks:
            self._history.add(tick)


def _seconds(ticks: Iterable[_Tick]) -> float:
    return sum(tick.end_ns - tick.start_ns for tick in ticks) / SECOND_NS
