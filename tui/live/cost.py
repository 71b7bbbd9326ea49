"""What watching costs: the CPU of this very process."""

import time

LEAST_S = 0.5  # over a shorter time a share says nothing
SETTLED = 3  # shares from which on they are shown: the first ones are those of starting
WEIGHT = 0.2  # of the newest share in what is shown


class Cost:
    """A share of one core, smoothed over some seconds; `percent` is None until it has settled."""

    def __init__(self) -> None:
        self._before = (time.monotonic(), time.process_time())
        self._shares = 0
        self._smoothed = 0.0

    @property
    def percent(self) -> float | None:
        return self._smoothed if self._shares > SETTLED else None

    def measure(self) -> None:
        """Takes in the time since it was called last."""
        now = (time.monotonic(), time.process_time())
        clock_s, cpu_s = (new - old for new, old in zip(now, self._before, strict=True))
        if clock_s < LEAST_S:
            return
        self._before = now
        self._shares += 1
        share = 100 * cpu_s / clock_s
        self._smoothed = share if self._shares <= SETTLED else self._smoothed + WEIGHT * (share - self._smoothed)
