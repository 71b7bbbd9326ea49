"""The cost of watching: this process's CPU time."""

import time

LEAST_S = 0.5  # a share over a shorter time says nothing
SETTLED = 3  # first shares, not shown because they include starting
WEIGHT = 0.2  # weight of the newest share in the moving average


class Cost:
    """A share of one core, smoothed over some seconds; `percent` is None at first."""

    def __init__(self) -> None:
        self._before = (time.monotonic(), time.process_time())
        self._shares = 0
        self._smoothed = 0.0

    @property
    def percent(self) -> float | None:
        return self._smoothed if self._shares > SETTLED else None

    def measure(self) -> None:
        now = (time.monotonic(), time.process_time())
        clock_s, cpu_s = (new - old for new, old in zip(now, self._before, strict=True))
        if clock_s < LEAST_S:
            return
        self._before = now
        self._shares += 1
        share = 100 * cpu_s / clock_s
        self._smoothed = share if self._shares <= SETTLED else self._smoothed + WEIGHT * (share - self._smoothed)
