"""What the kernel counts of a task's scheduling beside what the samplers read anyway: moves between CPUs."""

from __future__ import annotations

import re
from pathlib import Path


def migrations(pid: int) -> int | None:
    """How often a process has been moved to another CPU; None when it is gone or the kernel does not say."""
    try:
        return parse_sched(Path(f"/proc/{pid}/sched").read_bytes())
    except OSError:
        return None


def parse_sched(data: bytes) -> int | None:
    """`nr_migrations` of `/proc/PID/sched`; None when it is not there."""
    match = re.search(rb"^se\.nr_migrations\s*:\s*(\d+)", data, re.MULTILINE)
    return int(match[1]) if match else None
