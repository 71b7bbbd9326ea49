"""Tunables of the kernel's scheduler: which kernels have them, and where they are."""

from __future__ import annotations

from pathlib import Path

from engine.core.kernel import EEVDF_SINCE, version_of

SYSCTL, DEBUG = "/proc/sys/kernel/sched_", "/sys/kernel/debug/sched/"
FIRST, MOVED, LAST = (0, 1), (5, 13), (1000, 0)  # moved from sysctl to debugfs
AUTOGROUP = "autogroup_enabled"  # did not move

# The first version with a tunable, and the first without it.
VERSIONS = {
    "base_slice_ns": (EEVDF_SINCE, LAST),
    "latency_ns": (FIRST, EEVDF_SINCE),
    "min_granularity_ns": (FIRST, EEVDF_SINCE),
    "wakeup_granularity_ns": (FIRST, EEVDF_SINCE),
    "migration_cost_ns": (FIRST, LAST),
    "nr_migrate": (FIRST, LAST),
    AUTOGROUP: (FIRST, LAST),
}


def known(release: str) -> dict[str, Path]:
    """The tunables of a kernel and their files."""
    version = version_of(release)
    return {
        name: Path(f"{SYSCTL if version < MOVED or name == AUTOGROUP else DEBUG}{name}")
        for name, (since, until) in VERSIONS.items()
        if since <= version < until
    }
