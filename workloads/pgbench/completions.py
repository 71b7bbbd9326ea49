"""The end of each client in a step of fixed transactions, and how many transactions were done by the first end.

After the first end, fewer clients work than the step says. The log comes in blocks, thread by thread, so a client's
lines may come long after later ones of another: points are kept until no earlier end is possible. If not every
transaction is logged, ends and numbers are interpolated.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

# This many lines of a sampled log are surely among the last 40 times as many transactions: all but one in 10^17.
SURELY = 40


class _Point(NamedTuple):
    """A transaction that ended: its number within its client, and the client's successful ones by then."""

    ended_ns: int
    number: int
    done: float


@dataclass(eq=False)
class Ends:
    """Clients of a step begun at `began_ns`, with `transactions` each; a line of the log stands for `every`."""

    clients: int
    transactions: int
    began_ns: int
    every: int
    _points: list[deque[_Point]] = field(init=False)
    _first: list[_Point | None] = field(init=False)  # the first one logged of each client
    _over_ns: int = 0  # the first end, once it is certain

    def __post_init__(self) -> None:
        self._points = [deque([_Point(self.began_ns, 0, 0)]) for _ in range(self.clients)]
        self._first = [None] * self.clients

    def add(self, client: int, ended_ns: int, number: int, done: int) -> None:
        """Record the end of a client's transaction `number`, with `done` successful ones; calls come in order."""
        point = _Point(ended_ns, number, done)
        self._first[client] = self._first[client] or point
        points = self._points[client]
        if self._over_ns and self.every == 1 and points[-1].ended_ns > self._over_ns:
            points.pop()  # after the first end, only each client's own is needed
        points.append(point)

    def settle(self, logged_ns: int) -> None:
        """The log is complete up to a time: drop points that no end can need any more."""
        ends = [points[-1].ended_ns for points in self._points if points[-1].number >= self.transactions]
        if ends and min(ends) <= logged_ns:
            self._over_ns = min(ends)
        unsure = SURELY * self.every if self.every > 1 else 0
        if any(points[-1].number >= self.transactions - unsure for points in self._points):
            return
        for points in self._points:
            while len(points) > 1 and points[1].ended_ns <= logged_ns:
                points.popleft()

    def close(self, ended_ns: int) -> int:
        """The log is complete and pgbench has ended. Returns when the last client had done its work."""
        for points, first in zip(self._points, self._first, strict=True):
            last = points[-1]
            missing = self.transactions - last.number
            if missing > 0:
                known = last.number - first.number if first is not None else 0
                each_ns = (last.ended_ns - first.ended_ns) / known if first is not None and known else 0.0
                end_ns = last.ended_ns + round(missing * each_ns) if each_ns else ended_ns
                points.append(_Point(min(end_ns, ended_ns), self.transactions, last.done + missing))
        return min(ended_ns, max(points[-1].ended_ns for points in self._points))

    def first(self) -> dict[str, float]:
        """The first end, once all is known: `seconds` into the step, and the `transactions` of all clients by then.

        Empty for a single client, whose end is that of the step, and if a client has no logged transaction: it may have
        finished before the step began.
        """
        end_ns = min(points[-1].ended_ns for points in self._points)
        if self.clients == 1 or None in self._first or end_ns <= self.began_ns:
            return {}
        done = sum(self._done_by(points, end_ns) for points in self._points)
        return {"seconds": (end_ns - self.began_ns) / 1e9, "transactions": done}

    def _done_by(self, points: deque[_Point], t_ns: int) -> float:
        earlier = points[0]
        for point in points:
            if point.ended_ns > t_ns:
                length_ns = point.ended_ns - earlier.ended_ns
                part = (t_ns - earlier.ended_ns) / length_ns if self.every > 1 and length_ns else 0.0
                return earlier.done + part * (point.done - earlier.done)
            earlier = point
        return earlier.done
