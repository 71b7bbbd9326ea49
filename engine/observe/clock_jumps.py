"""Jumps of the clocks between two ticks: the wall clock was set, or the machine was suspended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.core.clock import Anchor

CLOCK_STEP_NS = 100_000_000  # a larger jump between two ticks means that the clock was set


def clock_events(before: Anchor, now: Anchor) -> Iterator[tuple[str, dict[str, Any]]]:
    """A jump between two ticks. A wall clock that advanced during suspension was not set."""
    suspended_ns = before.suspended_ns(now)
    if suspended_ns >= CLOCK_STEP_NS:
        yield "suspended", {"text": f"the machine was suspended for {suspended_ns / 1e9:.1f} s"}
    else:
        suspended_ns = 0
    step_ns = before.step_ns(now) - suspended_ns
    if abs(step_ns) >= CLOCK_STEP_NS:
        yield "clock_step", {"text": f"the wall clock was set by {step_ns / 1e9:+.1f} s", "step_ns": step_ns}
