"""The age of a statement in active time, which stands still while its server is stopped for another server's slice."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

REMEMBERED = 4096  # at up to ten per second, some minutes


class ActiveAges:
    """Active time at past moments, interpolated in between: slices are shorter than that."""

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=REMEMBERED)
        self._active: deque[int] = deque(maxlen=REMEMBERED)

    def remember(self, t_ns: int, active_ns: int) -> None:
        self._times.append(t_ns)
        self._active.append(active_ns)

    def of(self, age_ns: int) -> int:
        """The active part of the last `age_ns`; at most since the first remembered moment."""
        times, active = self._times, self._active
        since_ns = max(times[0], times[-1] - age_ns)
        place = min(bisect_right(times, since_ns), len(times) - 1)
        begun_ns = active[place]
        if times[place] > since_ns:
            whole_ns = times[place] - times[place - 1]
            begun_ns -= (active[place] - active[place - 1]) * (times[place] - since_ns) // whole_ns
        return min(age_ns, active[-1] - begun_ns)
