"""What a probe would cost, whether it may start by itself, and when it is attached if only in windows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from probes.table import BY_ID

LIMIT_PERCENT = 5.0
# CPU time of the first hit of a statement (a cold exception path), and of each further one.
FIRST_US = 3.0
MORE_US = 1.8
SLOW_US = 10.0  # what a hit costs that the kernel must single-step
WINDOW_NS = 10_000_000_000
PERIOD_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a probe would cost: `percent` of the busy CPUs at `hits_per_s`. `text` says so when it is too much."""

    probe: str
    hits_per_s: float
    percent: float
    admitted: bool
    text: str


def cost_percent(
    statements_per_s: float,
    hits_per_s: float,
    busy_cpus: float,
    *,
    first_us: float = FIRST_US,
    more_us: float = MORE_US,
) -> float:
    """100 * (first * S + more * (H - S)) / (1e6 * busy CPUs), for S statements and H hits per second."""
    first = min(statements_per_s, hits_per_s)
    return 100 * (first_us * first + more_us * (hits_per_s - first)) / (1e6 * max(busy_cpus, 0.01))


def estimate(
    probe: str,
    statements_per_s: float,
    busy_cpus: float,
    *,
    slow_entry: bool = False,
    limit_percent: float = LIMIT_PERCENT,
) -> Estimate:
    """What a probe would cost in a run that does so many statements per second; tiers 0 and 1 are always admitted.

    `statements_per_s` counts those that pass where the probe attaches: planned ones for planner and endpoint.
    """
    entry = BY_ID[probe]
    if entry.tier < 2:
        return Estimate(probe, 0.0, 0.0, True, "")
    hits_per_s = statements_per_s * entry.hits
    one_us = {"first_us": SLOW_US, "more_us": SLOW_US} if slow_entry else {}
    percent = cost_percent(statements_per_s, hits_per_s, busy_cpus, **one_us)
    admitted = percent <= limit_percent
    text = (
        ""
        if admitted
        else f"probes: {probe} would cost about {percent:.0f} % of this run ({hits_per_s:.0f}/s); not started. "
        "--probe-budget to change."
    )
    return Estimate(probe, hits_per_s, percent, admitted, text)


def in_window(t_ns: int, began_ns: int, *, window_ns: int = WINDOW_NS, period_ns: int = PERIOD_NS) -> bool:
    """Whether a probe that is attached in windows should be now. The first window begins with the step."""
    return t_ns >= began_ns and (t_ns - began_ns) % period_ns < window_ns


def next_change_ns(t_ns: int, began_ns: int, *, window_ns: int = WINDOW_NS, period_ns: int = PERIOD_NS) -> int:
    """When `in_window` changes next."""
    if t_ns < began_ns:
        return began_ns
    place = (t_ns - began_ns) % period_ns
    return t_ns - place + (window_ns if place < window_ns else period_ns)


def unlike(one: Iterable[str], other: Iterable[str]) -> str:
    """Why figures with these probes active must not be compared; empty when they may.

    Only tier 2 counts: the others cost less than can be measured.
    """
    first, second = ({name for name in names if BY_ID[name].tier >= 2} for names in (one, other))
    if first == second:
        return ""
    return (
        f"probes: not compared, as one side ran with {', '.join(sorted(first)) or 'no costly probe'} "
        f"and the other with {', '.join(sorted(second)) or 'none'}; run both alike"
    )
