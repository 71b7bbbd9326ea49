"""A step of pgbench in slices: the work of each turn of its server by the log, and which transactions were cut.

pgbench and its backends are stopped between turns, wherever they are, so each client has a transaction in flight at
each stop. It counts in the turn in which it ends, and has no time of its own. The log comes in blocks, so the work by
the end of a turn is reported later: once each thread of pgbench has logged a later transaction. If not every
transaction is logged, numbers are interpolated over active time, in which turns adjoin: any excess of one turn is
missing from its neighbour.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.client import slice_times
from workloads.client.counter_page import Page

BY_LINE_NS = 100_000_000  # delay of a log that comes line by line
PATIENCE_NS = 1_000_000_000  # of active time, for a client without a later line


class _Point(NamedTuple):
    ended_ns: int
    done: int


@dataclass(slots=True)
class _Client:
    first: _Point
    last: _Point  # before the end of the turn that is reported next
    later: deque[_Point] = field(default_factory=deque)


class LoggedTurns:
    """The turns of one server. A line of the log stands for `every` transactions."""

    def __init__(self, page: Page, began_ns: int, every: int) -> None:
        self._page, self._every = page, every
        self._opened: list[int] = []
        self._closed: list[int] = []  # ends of all but the newest
        self._active: list[int] = []  # active time at the start of each turn, from the step's begin on
        self._told = self._done = 0
        self._clients = [_Client(_Point(began_ns, 0), _Point(began_ns, 0)) for _ in range(page.roles)]

    def look(self) -> None:
        """Read the turns so far. Call it after reading the log, so that none of its lines is ahead of them."""
        begun = slice_times.begun(self._page)
        while len(self._opened) < begun:
            number = len(self._opened)
            if number:
                self._closed.append(slice_times.slice_time(self._page, number - 1).closed_ns)
            opened_ns = slice_times.slice_time(self._page, number).opened_ns
            self._active.append(self._active[-1] + self._closed[-1] - self._opened[-1] if number else 0)
            self._opened.append(opened_ns)

    def active_ns(self, t_ns: int) -> int:
        """A time as active time from the step's begin on."""
        number = bisect_right(self._opened, t_ns) - 1
        if number < 0:
            return 0
        closed_ns = self._closed_at(number)
        return self._active[number] + (min(t_ns, closed_ns) if closed_ns else t_ns) - self._opened[number]

    def stops_ns(self, since_ns: int, halted_ns: int, continued_ns: int) -> tuple[int, ...]:
        """Lengths of pgbench's stops: before its first turn, between turns, and after the last one."""
        closed = [since_ns, *(self._closed_at(number) or halted_ns for number in range(len(self._opened)))]
        between = (opened_ns - closed_ns for closed_ns, opened_ns in zip(closed, self._opened, strict=False))
        return (*between, continued_ns - min(closed[-1], halted_ns))

    def cuts(self, begun_ns: int, ended_ns: int) -> bool:
        """Whether its server was stopped between these times."""
        number = bisect_left(self._closed, begun_ns)
        closed_ns = self._closed_at(number) if number < len(self._opened) else 0
        return bool(closed_ns) and begun_ns <= closed_ns < ended_ns

    def add(self, client: int, ended_ns: int, done: int) -> None:
        """Add the end of a transaction, with which its client has done `done`; calls come in order."""
        self._clients[client].later.append(_Point(ended_ns, done))

    def tell(self, logged_ns: int) -> None:
        """Report the work by the end of each turn that is fully logged: the log is complete up to a time."""
        while self._told + 1 < len(self._opened):
            until_ns, active_ns = self._opened[self._told + 1], self._active[self._told + 1]
            if logged_ns < until_ns:
                return
            self._advance(until_ns)
            waits = self._every > 1 and not all(client.later for client in self._clients)
            if waits and self.active_ns(logged_ns) < active_ns + PATIENCE_NS:
                return
            self._tell_next(active_ns)

    def finish(self) -> None:
        self.look()
        while self._told < len(self._opened) and (closed_ns := self._closed_at(self._told)):
            following = self._told + 1
            self._advance(self._opened[following] if following < len(self._opened) else closed_ns + 1)
            self._tell_next(self.active_ns(closed_ns))

    def _closed_at(self, number: int) -> int:
        return (
            self._closed[number] if number < len(self._closed) else slice_times.slice_time(self._page, number).closed_ns
        )

    def _advance(self, until_ns: int) -> None:
        for client in self._clients:
            while client.later and client.later[0].ended_ns < until_ns:
                client.last = client.later.popleft()
                if not client.first.done:
                    client.first = client.last

    def _tell_next(self, active_ns: int) -> None:
        done = sum(self._done_by(client, active_ns) for client in self._clients)
        self._done = max(self._done, round(done))
        slice_times.tell(self._page, self._told, self._done)
        self._told += 1

    def _done_by(self, client: _Client, active_ns: int) -> float:
        last = client.last
        if self._every == 1:
            return last.done
        since_ns = active_ns - self.active_ns(last.ended_ns)
        if client.later:
            following = client.later[0]
            length_ns = self.active_ns(following.ended_ns) - self.active_ns(last.ended_ns)
            more = (following.done - last.done) * since_ns / length_ns if length_ns > 0 else 0
            return last.done + max(0, min(more, following.done - last.done - 1))
        length_ns = self.active_ns(last.ended_ns) - self.active_ns(client.first.ended_ns)
        rate = (last.done - client.first.done) / length_ns if length_ns > 0 else 0
        return last.done + max(0, min(rate * since_ns, self._every - 1))


def logged_by_line(now_ns: int) -> int:
    """The time up to which a log that comes line by line is complete."""
    return now_ns - BY_LINE_NS
