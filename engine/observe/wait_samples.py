"""Wait events of connections, sampled several times a second: their shares of time.

Sampling times are random, so that periodic activity, such as slices, is not always seen at the same phase. Samples of a
server outside its slice are dropped, as they say nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from engine.journal.rows import WaitSecond
from engine.postgres.activity import Activity, Observed
from engine.postgres.pgstat import MonitorError
from workloads.client.counter_page import Control, Page

SECOND_NS = 1_000_000_000
NEVER_NS = 2**63 - 1
OFTEN_NS = SECOND_NS // 2
LOOKS_PER_S = 10.0
# The cost of a sample grows with connections (200: 0.7 ms of server CPU), but so does its information.
CONNECTIONS_PER_S = 500.0


def looks_per_s(connections: int) -> float:
    """Samples per second: ten for up to 50 connections, one every 0.4 s for 200."""
    return min(LOOKS_PER_S, CONNECTIONS_PER_S / max(1, connections))


class WaitLooks:
    """Samples connections; `look` is called often, and reports states older than `least_age_s`, unless that is 0."""

    def __init__(
        self, activity: Activity, backends: Sequence[tuple[str, int]], page: Page | None, least_age_s: float = 0.0
    ) -> None:
        """`backends` are (role, pid) of connections with a known server process."""
        self.least_age_s = least_age_s
        self.names = list(dict.fromkeys(name for name, _ in backends))
        self.looks = 0
        self.seen: dict[str, Counter[str]] = {name: Counter() for name in self.names}  # since the start of the step
        self._activity, self._page = activity, page
        self._pids = [pid for _, pid in backends]
        self._roles = [self.names.index(name) for name, _ in backends]
        self._interval_ns = SECOND_NS / looks_per_s(len(backends))
        self.due_ns = 0 if self.names else NEVER_NS  # of the next look
        self._fresh_looks = 0
        self._fresh: dict[str, Counter[str]] = {name: Counter() for name in self.names}

    @property
    def often(self) -> bool:
        return bool(self.names) and self._interval_ns <= OFTEN_NS

    def look(self, t_ns: int) -> Observed | None:
        """Take a sample if due; return the connections whose state has lasted, or None without a sample."""
        if t_ns < self.due_ns:
            return None
        # From when it was due, as the caller is always a bit late. Missed samples are not made up for.
        since_ns = self.due_ns if t_ns - self.due_ns < self._interval_ns else t_ns
        self.due_ns = since_ns + round(self._interval_ns * random.uniform(0.5, 1.5))
        pauses = self._pauses()
        if pauses[1]:
            return None
        try:
            waits = self._activity.waits(self._pids, self._roles, self.least_age_s)
        except MonitorError:  # skip this sample
            return None
        if self._pauses() != pauses:
            return None
        self._fresh_looks += 1
        for (role, event), count in waits.counts.items():
            self._fresh[self.names[role]][event] += count
        return waits.old

    def take(self, step: int, t_ns: int, dt_ns: int) -> list[WaitSecond]:
        """Samples of the interval that ends now, by role; empty if there are none."""
        looks, fresh = self._fresh_looks, self._fresh
        self._fresh_looks, self._fresh = 0, {name: Counter() for name in self.names}
        self.looks += looks
        for name, counts in fresh.items():
            self.seen[name].update(counts)
        return [WaitSecond(step, name, t_ns, dt_ns, looks, dict(counts)) for name, counts in fresh.items() if looks]

    def _pauses(self) -> tuple[int, int]:
        """Time paused before, and since when the server is paused; a pause changes one of them."""
        return (
            (0, 0)
            if self._page is None
            else (self._page.words[Control.PAUSED_NS], self._page.words[Control.PAUSED_SINCE_NS])
        )
