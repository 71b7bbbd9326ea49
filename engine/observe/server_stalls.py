"""Stalls of a server that is only watched. Pure: no clocks, no I/O.

Nobody knows here what its clients want, so that little is called a stall:

- connections of a **role** wait for a lock, one of them for `LONG_NS` at least;
- the **server** executes less than it did (see `engine.observe.stalls`), and a statement in flight began before:
  if none is, its clients want less, and the level begins anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from engine.observe.evidence import Evidence, RoleSecond
from engine.observe.stalls import SECOND_NS, Change, Detector, Stall, StallRule
from engine.postgres.activity import Doing, Wait
from engine.postgres.server_activity import TOTAL, LockWaiter, RoleActivity, Seen
from engine.postgres.serverlog import LogEvent

LONG_NS = 2 * SECOND_NS
CLIENT = 1  # of all: stalls that overlap are one incident
HISTORY = 600  # samples of waits kept, at most `SAMPLED` of a look
SAMPLED = 10


@dataclass(slots=True)
class LockStall:
    """The stall of a role whose connections wait for locks: `pid` did first, for what the `holders` have."""

    stall: Stall
    pid: int
    event: str
    holders: tuple[tuple[int, Doing], ...] = ()
    intervals: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=HISTORY))  # end, length in ns

    @property
    def seconds(self) -> list[RoleSecond]:
        pids = tuple(pid for pid, _ in self.holders)
        return [_sample(t_ns, dt_ns, self.event, pids) for t_ns, dt_ns in self.intervals]


class Found(NamedTuple):
    """A stall that began, went on or ended; with what is known of the lock if it is that of a role."""

    change: Change
    lock: LockStall | None


class ServerStalls:
    """Detects the stalls of one server: `look` as often as it is looked at, `tick` when statements are counted."""

    def __init__(self, rule: StallRule, started_ns: int) -> None:
        self._rule = rule
        self._detector = Detector(rule, TOTAL, CLIENT, started_ns)
        self._since_ns: dict[int, int] = {}  # by pid: since when it waits for a lock
        self._samples: deque[RoleSecond] = deque(maxlen=HISTORY)
        self._locks: dict[str, LockStall] = {}  # by role

    def look(self, t_ns: int, dt_ns: int, seen: Seen) -> list[Found]:
        """Take one look; returns the stalls of roles that began, went on or ended."""
        self._samples.extend(samples_of(t_ns, dt_ns, seen.total))
        self._since_ns = {waiter.pid: self._waits_since(waiter, t_ns) for waiter in seen.waiters}
        longest: dict[str, LockWaiter] = {}
        for waiter in sorted(seen.waiters, key=lambda waiter: self._since_ns[waiter.pid]):
            if t_ns - self._since_ns[waiter.pid] >= LONG_NS:
                longest.setdefault(waiter.role, waiter)
        found = [self._end(role, t_ns) for role in self._locks.keys() - longest.keys()]
        return found + [self._wait(waiter, t_ns, dt_ns) for waiter in longest.values()]

    def tick(self, t_ns: int, dt_ns: int, statements: int, seen: Seen) -> list[Found]:
        """Take what was executed in an interval; returns the stall of the server if it began, went on or ended."""
        changes = self._detector.tick(t_ns, dt_ns, statements, statements, 0, lambda _: None)
        if any(change.kind == "began" for change in changes) and not self._is_stuck(seen):
            self._detector = Detector(self._rule, TOTAL, CLIENT, t_ns)
            return []
        return [Found(change, None) for change in changes]

    def finish(self, t_ns: int) -> list[Found]:
        """End what still lasts, as nobody is looking any more."""
        found = [Found(change, None) for change in self._detector.finish(t_ns)]
        found += [self._end(role, t_ns) for role in list(self._locks)]
        self._detector = Detector(self._rule, TOTAL, CLIENT, t_ns)
        self._since_ns = {}
        return found

    def evidence(self, found: Found, seen: Seen, events: Sequence[LogEvent], now_ns: int) -> Evidence:
        stall, lock = found.change.stall, found.lock
        return Evidence(
            role=stall.role,
            backend_pid=lock.pid if lock is not None else 0,
            client_pid=0,
            started_ns=stall.started_ns,
            ended_ns=stall.until_ns(now_ns),
            seconds=lock.seconds if lock is not None else list(self._samples),
            events=events,
            vacuums=seen.vacuums,
            names={pid: doing.what for pid, doing in lock.holders if doing.what} if lock is not None else {},
        )

    def _waits_since(self, waiter: LockWaiter, t_ns: int) -> int:
        """From the first look that showed it, but not from before its statement: short waits of many are not one."""
        known_ns = self._since_ns.get(waiter.pid, t_ns)
        return max(known_ns, t_ns - waiter.age_ns) if waiter.age_ns else known_ns  # 0 is unknown

    def _is_stuck(self, seen: Seen) -> bool:
        return seen.total.oldest_ns >= self._rule.enter_s * SECOND_NS

    def _wait(self, waiter: LockWaiter, t_ns: int, dt_ns: int) -> Found:
        since_ns, lock = self._since_ns[waiter.pid], self._locks.get(waiter.role)
        kind: Literal["began", "went_on"] = "went_on" if lock is not None else "began"
        if lock is None:
            stall = Stall(waiter.role, CLIENT, since_ns, None, "in_flight", 0.0, 0.0, 0, 0, 0.0)
            lock = self._locks[waiter.role] = LockStall(stall, waiter.pid, waiter.event)
            lock.intervals.append((t_ns, t_ns - since_ns))
        else:
            lock.intervals.append((t_ns, dt_ns))
        lock.stall = replace(
            lock.stall,
            duration_s=(t_ns - lock.stall.started_ns) / SECOND_NS,
            max_in_flight_ns=max(lock.stall.max_in_flight_ns, waiter.age_ns),
        )
        return Found(Change(kind, lock.stall), lock)

    def _end(self, role: str, t_ns: int) -> Found:
        lock = self._locks.pop(role)
        duration_s = (t_ns - lock.stall.started_ns) / SECOND_NS
        return Found(Change("ended", replace(lock.stall, ended_ns=t_ns, duration_s=duration_s)), lock)


def samples_of(t_ns: int, dt_ns: int, total: RoleActivity) -> list[RoleSecond]:
    """The waits of one look, each as often as its share of the active connections."""
    most = max(1, total.active)
    return [
        _sample(t_ns, dt_ns, event)
        for event, count in sorted(total.waits.items())
        for _ in range(round(count * min(SAMPLED, most) / most))
    ]


def _sample(t_ns: int, dt_ns: int, event: str, blocked_by: tuple[int, ...] = ()) -> RoleSecond:
    return RoleSecond(t_ns, dt_ns, dt_ns, Wait(event, "active", blocked_by), 0, 0, "", 0, "")
