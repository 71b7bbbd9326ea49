"""The journal's clock: CLOCK_MONOTONIC nanoseconds, and the wall clock that goes with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Anchor:
    """One instant on both clocks in ns, and on CLOCK_BOOTTIME, which advances while the machine is suspended."""

    monotonic_ns: int
    wall_ns: int
    boot_ns: int = 0

    @classmethod
    def now(cls) -> Anchor:
        return cls(time.monotonic_ns(), time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    def monotonic(self, wall_ns: int) -> int:
        """The monotonic time of a wall-clock time."""
        return self.monotonic_ns + wall_ns - self.wall_ns

    def wall(self, monotonic_ns: int) -> int:
        """The wall-clock time of a monotonic time."""
        return self.wall_ns + monotonic_ns - self.monotonic_ns

    def step_ns(self, later: Anchor) -> int:
        """How far the wall clock was set forward (or back, if negative) between two anchors."""
        return (later.wall_ns - self.wall_ns) - (later.monotonic_ns - self.monotonic_ns)

    def suspended_ns(self, later: Anchor) -> int:
        """How long the machine was suspended between two anchors."""
        return (later.boot_ns - self.boot_ns) - (later.monotonic_ns - self.monotonic_ns)


def patient(seconds: float) -> float:
    """The timeout in seconds, multiplied by PGBED_PATIENCE if set: everything is slow in an emulated guest."""
    return seconds * float(os.environ.get("PGBED_PATIENCE", "1"))


@dataclass(frozen=True, slots=True)
class Clock:
    """The time for readers: both clocks, in ns; a test can replace it."""

    monotonic_ns: Callable[[], int] = time.monotonic_ns
    wall_ns: Callable[[], int] = time.time_ns
