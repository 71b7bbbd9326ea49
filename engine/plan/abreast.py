"""What servers side by side need: memory for each, settings that know of the pauses, and steps for slices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from engine.core.errors import UserError
from engine.core.format import size_bytes
from engine.core.model import Config
from engine.core.request import Request
from engine.host.environment import Machine
from engine.postgres.configs import ConfigSpec
from workloads.base import Step

Change = tuple[str, str]
MOST = 4  # servers side by side
MOST_MEMORY = 0.8  # of the machine's, for all shared_buffers together
INSTEAD = "use --interleave cells"
# Wall time goes on in a pause. What a server does at intervals it does at as many of them as by itself.
# setting: the server's default, the unit of a bare number, the most that the server takes in ms
INTERVALS = {
    "checkpoint_timeout": ("5min", "s", 86_400_000),
    "autovacuum_naptime": ("1min", "s", 2_147_483_000),
    "bgwriter_delay": ("200ms", "ms", 10_000),
    "wal_writer_delay": ("200ms", "ms", 10_000),
    "deadlock_timeout": ("1s", "ms", 2_147_483_647),
}
UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
TIMEOUTS = frozenset(
    {"statement_timeout", "lock_timeout", "transaction_timeout", "idle_session_timeout",
     "idle_in_transaction_session_timeout"}
)  # fmt: skip


def check(request: Request, steps: Sequence[Step]) -> None:
    """Raises UserError where cells cannot be driven in slices, and says why."""
    if not any(step.sliced for step in steps):
        raise UserError(f"none of these steps can be driven in slices: {INSTEAD}")
    if len(request.configs) > 1:
        raise UserError(f"--interleave slices compares builds under one config, not several configs: {INSTEAD}")
    count = request.subjects
    if not 2 <= count <= MOST:
        raise UserError(
            f"--interleave slices takes 2 to {MOST} builds side by side (--aa adds one), not {count}: {INSTEAD}"
        )


def share(machine: Machine, request: Request) -> Machine:
    """What each server may count on: cells abreast share the machine."""
    count = request.subjects if request.interleave == "slices" else 1
    return Machine(machine.memory_bytes // count, machine.free_disk_bytes // count)


def stretched(spec: ConfigSpec, changes: Sequence[Change], count: int) -> tuple[Change, ...]:
    """The changes of a config, with intervals as many times as long as there are servers.

    Raises UserError for a time-out, which would go on while its server is paused.
    """
    own = {name.lower(): value for name, value in changes}
    settings = {name.lower(): value for name, value, _ in spec.settings} | own
    for name in sorted(TIMEOUTS & settings.keys()):
        if not re.fullmatch(r"\s*0+\s*\D*", settings[name]):
            raise UserError(f"{name}={settings[name]} would end statements of a server that is paused: {INSTEAD}")
    for name, (usual, unit, most_ms) in INTERVALS.items():
        found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]*)\s*", settings.get(name, usual))
        if found and (found.group(2) or unit) in UNITS_MS:
            longer_ms = float(found.group(1)) * UNITS_MS[found.group(2) or unit] * count
            own[name] = f"{round(min(longer_ms, most_ms))}ms"
    return tuple(own.items())


def check_memory(configs: Iterable[Config], request: Request, memory_bytes: int) -> None:
    """Raises UserError where the servers' shared_buffers do not fit beside each other, with the number that does."""
    largest = max(size_bytes(dict(config.settings).get("shared_buffers", "128MB"), "8kB") for config in configs)
    fits = int(MOST_MEMORY * memory_bytes / largest)
    if request.subjects > fits:
        raise UserError(
            f"{request.subjects} servers with shared_buffers of {largest >> 20} MB each do not fit into "
            f"{memory_bytes >> 20} MB of memory side by side, {fits} would: give them less (--set), or {INSTEAD}"
        )
