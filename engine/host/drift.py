"""Changes of the machine between two records, with rules for how much change matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EnvironmentRecord = dict[str, Any]  # see engine.environment

# Settings that change only if a person changes them: (section, key, name in sentences).
SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("kernel", "release", "the kernel"),
    ("kernel", "build", "the kernel's build"),
    ("kernel", "command_line", "the kernel's command line"),
    ("kernel", "sched_ext", "the scheduler (sched_ext)"),
    ("kernel", "clock_source", "the clock source"),
    ("kernel", "mitigations", "the CPU mitigations"),
    ("cpu", "model", "the CPU"),
    ("cpu", "microcode", "the CPU's microcode"),
    ("cpu", "threads", "the number of CPUs"),
    ("cpu", "allowed", "the CPUs that this may run on"),
    ("cpu", "smt", "SMT"),
    ("cpu", "governor", "the CPU governor"),
    ("cpu", "preference", "the CPU's energy preference"),
    ("cpu", "boost", "CPU boost"),
    ("memory", "total_bytes", "the memory"),
    ("memory", "limit_bytes", "the memory limit"),
    ("memory", "swap_bytes", "the swap space"),
    ("memory", "huge_pages", "the number of huge pages"),
    ("memory", "transparent_huge_pages", "transparent huge pages"),
    ("memory", "numa_balancing", "NUMA balancing"),
    ("memory", "swappiness", "vm.swappiness"),
    ("memory", "dirty_ratio", "vm.dirty_ratio"),
    ("memory", "dirty_bytes", "vm.dirty_bytes"),
    ("memory", "dirty_background_ratio", "vm.dirty_background_ratio"),
    ("memory", "dirty_background_bytes", "vm.dirty_background_bytes"),
    ("storage", "filesystem", "the filesystem"),
    ("storage", "mount_options", "the mount options"),
    ("storage", "device", "the disk"),
    ("storage", "scheduler", "the disk's scheduler"),
    ("storage", "read_ahead_kb", "the disk's read-ahead"),
    ("storage", "wbt_lat_usec", "the disk's write-back throttling"),
    ("storage", "nr_requests", "the disk's queue length"),
    ("storage", "write_cache", "the disk's write cache"),
    ("state", "on_battery", "running on battery"),
)

CLIENT = "client"  # the section that is itself a record: of the clients' host, if different

SPEED_LIMIT = 0.05  # of the CPU's speed
TEMPERATURE_LIMIT_C = 15.0
TEMPERATURES = ("temperature_c", "device_temperature_c")
BUSY_LIMIT = 0.25  # share of all CPUs used by others while no cell runs
STEADY_GOVERNORS = (None, "performance")  # with others, the clock of an idle machine says nothing
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")  # a reading takes a microsecond or more


@dataclass(frozen=True, slots=True)
class Gauge:
    """A measured quantity: how much change counts, and the message."""

    section: str
    key: str
    exceeds: Callable[[float, float], bool]
    says: str  # format with before and after


GAUGES: tuple[Gauge, ...] = (
    Gauge("cpu", "probe_us", lambda old, new: abs(new / old - 1) > SPEED_LIMIT,
          "CPU speed changed: a fixed amount of work took {before} us, then {after} us"),
    Gauge("cpu", "mhz", lambda old, new: abs(new / old - 1) > SPEED_LIMIT,
          "the CPU's clock changed: {before} MHz, then {after} MHz"),
    Gauge("state", "temperature_c", lambda old, new: abs(new - old) > TEMPERATURE_LIMIT_C,
          "the CPU's temperature changed: {before} C, then {after} C"),
    Gauge("state", "device_temperature_c", lambda old, new: abs(new - old) > TEMPERATURE_LIMIT_C,
          "the disk's temperature changed: {before} C, then {after} C"),
    Gauge("state", "busy_share", lambda old, new: new > BUSY_LIMIT,
          "other programs used {after:.0%} of the CPUs while no cell was running"),
)  # fmt: skip


def drift(
    before: EnvironmentRecord, after: EnvironmentRecord, *, under_load: bool = False, gauges: bool = True
) -> tuple[str, ...]:
    """A sentence for each change large enough to move a result; without `gauges`, of settings only.

    Skips values of one record only, and temperatures if only the second record was taken under load, as load heats.
    """
    sentences: list[str] = []
    for section, key, name in SETTINGS:
        first, second = value(before, section, key), value(after, section, key)
        if first is not None and second is not None and first != second:
            sentences.append(f"{name} changed: {_shown(first)}, then {_shown(second)}")
    for gauge in GAUGES if gauges else ():
        if under_load and gauge.key in TEMPERATURES:
            continue
        old, new = number(before, gauge.section, gauge.key), number(after, gauge.section, gauge.key)
        if gauge.key == "mhz" and value(after, "cpu", "governor") not in STEADY_GOVERNORS:
            continue
        if old is not None and new is not None and old >= 0 and gauge.exceeds(old or 1e-9, new):
            sentences.append(gauge.says.format(before=old, after=new))
    ours, theirs = before.get(CLIENT), after.get(CLIENT)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        # At most one level: a clients' host has no clients' host of its own.
        first, last = ({key: part for key, part in record.items() if key != CLIENT} for record in (ours, theirs))
        sentences += [
            f"on the clients' host {text}" for text in drift(first, last, under_load=under_load, gauges=gauges)
        ]
    return tuple(sentences)


def value(record: EnvironmentRecord, section: str, key: str) -> Any:
    part = record.get(section)
    return part.get(key) if isinstance(part, dict) else None


def number(record: EnvironmentRecord, section: str, key: str) -> float | None:
    reading = value(record, section, key)
    return reading if isinstance(reading, int | float) and not isinstance(reading, bool) else None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
