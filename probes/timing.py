"""Times for probes: the sampling rate of stacks, and when a probe is attached that is not there all the time. Pure."""

from __future__ import annotations

STACKS_HZ = 99  # samples of whole stacks, per CPU
LEAVES_PER_STACK = 5  # samples of the function alone, which cost little: see `leaf_hz`
FEW_CPUS = 16
WINDOW_NS = 10_000_000_000
PERIOD_NS = 60_000_000_000
AFTER_STALL_NS = 5_000_000_000


def leaf_hz(cpus: int) -> int:
    """The sampling rate of the function that runs on a CPU: the output of each second must not grow on."""
    return STACKS_HZ * (LEAVES_PER_STACK if cpus <= FEW_CPUS else 1)


def in_window(t_ns: int, began_ns: int) -> bool:
    """Whether a probe with windows should be attached now. The first window begins with the step."""
    return t_ns >= began_ns and (t_ns - began_ns) % PERIOD_NS < WINDOW_NS


def around_stall(t_ns: int, stalled_ns: int | None) -> bool:
    """Whether a probe for stalls should be attached now; `stalled_ns` is the time of the latest stall, if any."""
    return stalled_ns is not None and t_ns - stalled_ns < AFTER_STALL_NS
