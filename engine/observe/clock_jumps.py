"""What happened to the clocks between two ticks: the wall clock was set, or the machine suspended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.core.clock import Anchor

CLOCK_STEP_NS = 100_000_000  # a wall clock that moves this far between two ticks was set


def clock_events(before: Anchor, now: Anchor) -> Iterator[tuple[str, dict[str, Any]]]:
    """What happened to the clocks between two ticks: events' kinds and data.

    A wall clock that went on while the machine was suspended is right: nobody set it.
    """
    suspended_ns = before.suspended_ns(now)
    if suspended_ns >= CLOCK_STEP_NS:
        yield "suspended", {"text": f"the machine was suspended for {suspended_ns / 1e9:.1f} s"}
    else:
        suspended_ns = 0
    step_ns = before.step_ns(now) - suspended_ns
    if abs(step_ns) >= CLOCK_STEP_NS:
        yield "clock_step", {"text": f"the wall clock was set by {step_ns / 1e9:+.1f} s", "step_ns": step_ns}
