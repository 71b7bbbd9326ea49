"""Waits for a server and for its programs: each has a limit, is reported while it lasts, and ends when the run does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

PATIENCE_S = 2.0  # between progress reports
POLL_S = 0.02

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The parties that are concerned when something waits.

    `progress` is called with waits of more than two seconds; `check` may raise to end a wait; `left_s` is the time
    in which everything must have ended: infinite until the run is asked to stop.
    """

    progress: Progress = lambda _: None
    check: Callable[[], None] = lambda: None
    left_s: Callable[[], float] = lambda: math.inf


NOBODY = Waiting()


class LimitedWait:
    """One wait for `what`, which begins now."""

    def __init__(self, what: str, limit_s: float, waiting: Waiting = NOBODY) -> None:
        self._what, self._limit_s, self._waiting = what, limit_s, waiting
        self._begun_s = self._reported_s = time.monotonic()

    def goes_on(self) -> bool:
        """Report and check; False once its time is over."""
        now_s = time.monotonic()
        if now_s - self._begun_s > self._limit_s:
            return False
        if now_s - self._reported_s > PATIENCE_S:
            self._reported_s = now_s
            self._waiting.progress(f"{self._what} ({now_s - self._begun_s:.0f} s)")
        self._waiting.check()
        return True


def wait_until(done: Callable[[], bool], limit_s: float, what: str = "", waiting: Waiting = NOBODY) -> bool:
    """Wait until `done`, or return False after `limit_s`."""
    wait = LimitedWait(what, limit_s, waiting)
    while not done():
        if not wait.goes_on():
            return False
        time.sleep(POLL_S)
    return True
