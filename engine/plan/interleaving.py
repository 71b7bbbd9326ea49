"""Requirements of interleaved servers: memory for each, settings that allow for pauses, and steps for slices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from engine.core.errors import UserError
from engine.core.format import size, size_bytes
from engine.host.environment import Machine
from engine.plan.request import Request
from engine.postgres.configs import ALL, ConfigSpec
from workloads.api.base import Step

Change = tuple[str, str]
MOST = 4  # servers side by side
MOST_MEMORY = 0.8  # of the machine's, for the buffers and the data of all
# The usual length of a slice. Most disturbances of a server last for less than 50 ms: with 20 ms intervals within a
# pair are 0.6 times as wide (tests/perf/cost.py). Stopping processes in the middle of a statement takes longer, and
# clients that know no gate lose the transaction.
SLICE_MS, SLICE_MS_STOPPED = 20.0, 50.0
# Wall time continues during a pause: intervals are lengthened, so that a server does as much in its own time as alone.
# setting: the server's default, the unit of a bare number, the most that the server takes in ms
INTERVALS = {
    "checkpoint_timeout": ("5min", "s", 86_400_000),
    "autovacuum_naptime": ("1min", "s", 2_147_483_000),
    "bgwriter_delay": ("200ms", "ms", 10_000),
    "wal_writer_delay": ("200ms", "ms", 10_000),
    "deadlock_timeout": ("1s", "ms", 2_147_483_647),
}
UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
MACHINE_WIDE = {"huge_pages": "try", "huge_page_size": "0"}  # and their defaults
TIMEOUTS = frozenset(
    {"statement_timeout", "lock_timeout", "transaction_timeout", "idle_session_timeout",
     "idle_in_transaction_session_timeout"}
)  # fmt: skip


class CannotBeSliced(UserError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; use --interleave cells")
        self.reason = reason


def check(request: Request, steps: Sequence[Step]) -> None:
    """Raise CannotBeSliced if no step can be sliced, or the subjects cannot be interleaved."""
    count = request.subjects
    if request.route.client_host:
        raise CannotBeSliced(
            "clients on another host cannot be interleaved in slices: the gate between two slices is a word of this "
            "machine's memory"
        )
    if count < 2:
        raise CannotBeSliced(f"slices need 2 to {MOST} servers side by side, and there is only one")
    if not any(step.sliced for step in steps):
        raise CannotBeSliced("none of these steps can be sliced")
    if request.in_guests:
        raise CannotBeSliced("a cell under another kernel has a guest to itself")
    if count > MOST:
        added = "one for each config" if request.config_count > 1 else "one"
        raise CannotBeSliced(f"slices take 2 to {MOST} servers side by side (--aa adds {added}), not {count}")


def check_configs(changes: Mapping[ConfigSpec, Sequence[Change]]) -> None:
    """Raise CannotBeSliced if configs differ in settings of the whole machine, which servers side by side share."""
    devices = {spec.device for spec in changes}
    if len(devices) > 1:
        spec, (name, _) = next((spec, spec.device[0]) for spec in changes if spec.device)
        raise CannotBeSliced(f"config '{spec.name}' sets {name} of this machine, which servers side by side share")
    for name, usual in MACHINE_WIDE.items():
        values = {spec.name: (spec.values | dict(added)).get(name, usual) for spec, added in changes.items()}
        if len(set(values.values())) > 1:
            said = ", ".join(f"{config}: {value}" for config, value in values.items())
            raise CannotBeSliced(
                f"{name} acts on the memory of the whole machine, which servers side by side share ({said})"
            )


def reason(request: Request, steps: Sequence[Step]) -> str:
    sliced = sum(bool(step.sliced) for step in steps)
    return f"{request.subjects} servers fit side by side, {sliced} of {len(steps)} steps can be sliced"


def slice_ms(request: Request, steps: Sequence[Step]) -> float:
    """Length of a slice: as asked for, or what suits the steps."""
    stopped = any(step.cut or not step.gated for step in steps if step.sliced)
    return request.slice_ms or (SLICE_MS_STOPPED if stopped else SLICE_MS)


def share(machine: Machine, request: Request) -> Machine:
    count = request.subjects if request.sliced else 1
    return Machine(machine.memory_bytes // count, machine.free_disk_bytes // count)


def stretched(spec: ConfigSpec, changes: Sequence[Change], count: int) -> tuple[Change, ...]:
    """Multiply a config's intervals by the number of servers. CannotBeSliced for timeouts, which do not pause."""
    changed = {name.lower(): value for name, value in changes}
    settings = spec.values | changed
    same_for_all = TIMEOUTS | INTERVALS.keys() | MACHINE_WIDE.keys()
    for setting in spec.settings:
        if setting.name in same_for_all and setting.name not in changed and (setting.first, setting.last) != ALL:
            raise CannotBeSliced(f"config '{spec.name}' sets {setting.name} for some versions only")
    for name in sorted(TIMEOUTS & settings.keys()):
        if not re.fullmatch(r"\s*0+\s*\D*", settings[name]):
            whose = "" if name in changed else f"config '{spec.name}': "
            raise CannotBeSliced(f"{whose}{name}={settings[name]} would end statements of a server that is paused")
    for name, (usual, unit, most_ms) in INTERVALS.items():
        interval = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]*)\s*", settings.get(name, usual))
        if interval and (interval.group(2) or unit) in UNITS_MS:
            longer_ms = float(interval.group(1)) * UNITS_MS[interval.group(2) or unit] * count
            changed[name] = f"{round(min(longer_ms, most_ms))}ms"
    return tuple(changed.items())


def buffer_bytes(settings: Mapping[str, str]) -> int:
    """The size of a server's shared buffers."""
    return size_bytes(settings.get("shared_buffers", "128MB"), "8kB")


def check_memory(settings: Iterable[Mapping[str, str]], data_bytes: int, request: Request, memory_bytes: int) -> None:
    """Raise CannotBeSliced if the servers do not fit into memory together; the error says how many do.

    `settings` are those of each config, `data_bytes` is the size of a cluster without its WAL. If memory held one
    server's data but not two servers', slices would measure the device.
    """
    buffers = sorted(map(buffer_bytes, settings))
    servers = [buffer for buffer in buffers for _ in range(request.subjects // len(buffers))]
    needed = accumulate(buffer + data_bytes for buffer in servers)
    fits = sum(bytes_ <= MOST_MEMORY * memory_bytes for bytes_ in needed)
    if fits < len(servers):
        sizes = " to ".join(dict.fromkeys((size(buffers[0]), size(buffers[-1]))))
        raise CannotBeSliced(
            f"{len(servers)} servers with shared_buffers of {sizes} and {size(data_bytes)} of data each do "
            f"not fit into {size(memory_bytes)} of memory side by side, {fits} would"
        )
