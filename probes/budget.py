"""The cost of a probe, whether it may start by default, and when it is attached if only in windows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from probes.table import BY_ID

LIMIT_PERCENT = 5.0
# CPU time of the first hit of a statement (a cold exception path), and of each further one.
FIRST_US = 3.0
MORE_US = 1.8
SLOW_US = 10.0  # extra cost of a hit that the kernel must single-step
STACKS_HZ = 99  # samples of whole stacks, per CPU
LEAVES_PER_STACK = 5  # samples of the function alone, which cost little: see `leaf_hz`
FEW_CPUS = 16
WINDOW_NS = 10_000_000_000
PERIOD_NS = 60_000_000_000
AFTER_STALL_NS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a probe: `percent` of the busy CPUs; `text` says so if that is too much."""

    percent: float
    admitted: bool
    text: str


def cost_percent(statements_per_s: float, hits_per_s: float, busy_cpus: float, slow_per_s: float = 0.0) -> float:
    """100 * (first * S + more * (H - S) + slow * W) / (1e6 * busy CPUs).

    For S statements and H hits per second, W of them where the kernel must single-step.
    """
    first = min(statements_per_s, hits_per_s)
    cost_us = FIRST_US * first + MORE_US * (hits_per_s - first) + SLOW_US * slow_per_s
    return 100 * cost_us / (1e6 * max(busy_cpus, 0.01))


def estimate(
    probe: str, statements_per_s: float, busy_cpus: float, *, slow_hits: int = 0, limit_percent: float = LIMIT_PERCENT
) -> Estimate:
    """Estimate a probe's cost at this statement rate; tiers 0 and 1 are always admitted.

    `statements_per_s` counts statements that pass the attach points: planned ones for planner and endpoint.
    `slow_hits` are the hits per statement at slow entries: see `attach_points.slow_hits`.
    """
    entry = BY_ID[probe]
    if entry.tier < 2:
        return Estimate(0.0, True, "")
    hits_per_s, slow_per_s = statements_per_s * entry.hits, statements_per_s * slow_hits
    percent = cost_percent(statements_per_s, hits_per_s, busy_cpus, slow_per_s)
    if percent <= limit_percent:
        return Estimate(percent, True, "")
    slow = f", {slow_per_s:.0f}/s of them single-stepped" if slow_hits else ""
    text = f"probes: {probe} would cost about {percent:.0f} % of this run ({hits_per_s:.0f}/s{slow}); not started. "
    return Estimate(percent, False, text + "Raise --probe-budget to start it.")


def leaf_hz(cpus: int) -> int:
    """How often the function that runs on a CPU is sampled: what is printed and read each second must not grow on."""
    return STACKS_HZ * (LEAVES_PER_STACK if cpus <= FEW_CPUS else 1)


def in_window(t_ns: int, began_ns: int) -> bool:
    """Whether a probe with windows should be attached now. The first window begins with the step."""
    return t_ns >= began_ns and (t_ns - began_ns) % PERIOD_NS < WINDOW_NS


def around_stall(t_ns: int, stalled_ns: int | None) -> bool:
    """Whether a probe for stalls should be attached now; `stalled_ns` is the time of the latest stall, if any."""
    return stalled_ns is not None and t_ns - stalled_ns < AFTER_STALL_NS
