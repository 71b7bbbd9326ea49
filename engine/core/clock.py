"""The journal's clock: CLOCK_MONOTONIC in ns, and the corresponding wall clock."""

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
        return self.monotonic_ns + wall_ns - self.wall_ns

    def wall(self, monotonic_ns: int) -> int:
        return self.wall_ns + monotonic_ns - self.monotonic_ns

    def step_ns(self, later: Anchor) -> int:
        """Seconds by which the wall clock was set forward (negative: back) between two anchors."""
        return (later.wall_ns - self.wall_ns) - (later.monotonic_ns - self.monotonic_ns)

    def suspended_ns(self, later: Anchor) -> int:
        return (later.boot_ns - self.boot_ns) - (later.monotonic_ns - self.monotonic_ns)


def patient(seconds: float) -> float:
    """A timeout multiplied by PGBED_PATIENCE, if set: everything is slow in an emulated guest."""
    return seconds * float(os.environ.get("PGBED_PATIENCE", "1"))


@dataclass(frozen=True, slots=True)
class Clock:
    """Both clocks in ns, replaceable by a test."""

    monotonic_ns: Callable[[], int] = time.monotonic_ns
    wall_ns: Callable[[], int] = time.time_ns
