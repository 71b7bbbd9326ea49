"""Facts about the machine and its configuration, as far as they can affect a result.

A record is a JSON object of sections. Whatever the machine does not report is null; reading never fails.

    cpu      model, microcode, sockets, cores, threads (online), allowed (those that programs started here may use, as
             `0-3,8`: not all under taskset or in a cpuset), numa_nodes, smt (bool), hypervisor (bool), governor,
             driver, preference (of energy), boost (bool), mhz (of the fastest, right after the probe),
             probe_us (shortest of many times for a fixed amount of work: the CPU's actual speed)
    memory   total_bytes, limit_bytes (of the control group), swap_bytes, swap_used_bytes, huge_pages,
             transparent_huge_pages, numa_balancing, swappiness, dirty_ratio, dirty_bytes,
             dirty_background_ratio, dirty_background_bytes
    kernel   release, build, command_line, clock_source, sched_ext (the one loaded),
             mitigations ({name: state}, without "Not affected")
    storage  path, mount_point, filesystem, mount_options, source, device (the disk), disk_model, rotational (bool),
             scheduler, read_ahead_kb, wbt_lat_usec, nr_requests, write_cache, free_bytes
    state    load1, load5, busy_share (0 to 1, of all CPUs, while the record was made and without its own work),
             temperature_c (the hottest sensor), device_temperature_c, on_battery (bool)
    host     name, product, container (bool), machine (its identity, see `machine_id`), sandbox (bool: within a Nix
             build, which has neither root nor probes)
    client   the same, without storage, of the clients' host if that is another; not made by this module
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.host.disk import existing, free_bytes
from engine.host.drift import EnvironmentRecord
from engine.host.machine_counters import CPU_COLUMNS, device_of, mount_of, parse_host_stat
from engine.host.procfs import difference

CPU = Path("/sys/devices/system/cpu")
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = "/proc/self/cgroup"
VM = Path("/proc/sys/vm")
PROBE_BURSTS = 8
PROBE_ROUNDS = 50  # per burst, time permitting: under emulation they take fifty times as long
PROBE_BURST_NS = 100_000_000
PROBE_PAUSE_S = 0.03
MACHINE_NAME = "/etc/pgbed-machine"
MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
NOT_SET = "uninitialized"  # in an image's /etc/machine-id until its first boot
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NETWORK = Path("/sys/class/net")
SANDBOX = "PGBED_BLOCK"  # set within a Nix build
CPU_SENSORS = ("class/thermal/thermal_zone*/temp", "class/hwmon/hwmon*/temp*_input")
DISK_SENSORS = ("device/hwmon*/temp*_input", "device/device/hwmon*/temp*_input", "device/hwmon/hwmon*/temp*_input")
_PROBE_WORK = bytes(1 << 18)
_BUSY = tuple(name for name in CPU_COLUMNS if name not in ("idle_ns", "iowait_ns"))


def record(path: Path) -> EnvironmentRecord:
    """Takes a third of a second to measure the CPUs' speed and load. Storage is that of `path`."""
    path = existing(path)
    try:
        device = device_of(path)
    except (OSError, ValueError):
        device = None
    probe_us, busy_share = _speed_and_load()
    return {
        "cpu": {**_cpu(), "probe_us": probe_us},
        "memory": _memory(),
        "kernel": _kernel(),
        "storage": _storage(path, device),
        "state": {"busy_share": busy_share, **_state(device)},
        "host": {
            "name": platform.node(),
            "product": _text("/sys/class/dmi/id/product_name"),
            "container": Path("/.dockerenv").exists() or Path("/run/systemd/container").exists(),
            "machine": machine_id(),
            "sandbox": SANDBOX in os.environ,
        },
    }


def machine_id() -> str | None:
    """The name in its owner's file, else a digest of its id.

    A machine without an id is known by its network adapters, which stay the same across boots and kernels; without
    adapters it has no identity. A sandbox usually shows neither: there the boot id is used, so that two builders are
    not taken for one.
    """
    name = _text(MACHINE_NAME)
    if name:
        return name.splitlines()[0][:60]
    identity = next((text for source in MACHINE_IDS if (text := _text(source)) and text != NOT_SET), None)
    identity = identity or (_text(BOOT_ID) if SANDBOX in os.environ else _adapters())
    return hashlib.sha256(f"pgbed {identity}".encode()).hexdigest()[:12] if identity else None


def _adapters() -> str:
    """Built-in addresses of network adapters, not those assigned by a boot or a container."""
    adapters = (path for path in NETWORK.glob("*") if (path / "device").exists())
    addresses = (_text(path / "address") for path in adapters if _text(path / "addr_assign_type") == "0")
    return " ".join(sorted(address for address in addresses if address and address.strip("0:")))


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that configs are scaled to. Memory is what pgbed may use (a cgroup's limit if that is lower)."""

    memory_bytes: int
    free_disk_bytes: int


def machine(path: Path) -> Machine:
    memory = _memory()
    total = memory["total_bytes"] or 0
    return Machine(min(total, memory["limit_bytes"] or total), free_bytes(path))


def _cpu() -> EnvironmentRecord:
    info = _text("/proc/cpuinfo") or ""
    topology = [
        (_text(cpu / "topology/physical_package_id"), _text(cpu / "topology/core_id"))
        for cpu in CPU.glob("cpu[0-9]*")
        if (cpu / "topology").is_dir()
    ]
    policies = sorted(CPU.glob("cpufreq/policy*")) or sorted(CPU.glob("cpu[0-9]*/cpufreq"))
    clocks = [int(khz) / 1000 for policy in policies if (khz := _text(policy / "scaling_cur_freq")) and khz.isdecimal()]
    clocks = clocks or [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: ([\d.]+)", info, re.M)]
    return {
        "model": _field(info, "model name") or _field(info, "CPU part") or platform.machine(),
        "microcode": _field(info, "microcode"),
        "sockets": len({package for package, _ in topology}) or None,
        "cores": len(set(topology)) or None,
        "threads": os.cpu_count(),
        "allowed": cpu_list(os.sched_getaffinity(0)),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "smt": _flag(CPU / "smt/active"),
        "hypervisor": "hypervisor" in (_field(info, "flags") or "").split() or Path("/sys/hypervisor/type").exists(),
        "governor": _all_of(policies, "scaling_governor"),
        "driver": _all_of(policies, "scaling_driver"),
        "preference": _all_of(policies, "energy_performance_preference"),
        "boost": _boost(),
        "mhz": round(max(clocks), 1) if clocks else None,
    }


def cpu_list(numbers: Iterable[int]) -> str:
    """CPUs in the kernel's list format: `0-3,8`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ranges)


def _boost() -> bool | None:
    off = _flag(CPU / "intel_pstate/no_turbo")
    return _flag(CPU / "cpufreq/boost") if off is None else not off


def _speed_and_load() -> tuple[float, float | None]:
    """Time in us for a fixed amount of work, and the share of all CPUs' time that others used meanwhile.

    The time is the minimum of many, as disturbances only ever add to it. Measurements come in bursts with pauses,
    because whatever shares the core, such as another virtual machine, often does so for tens of milliseconds. The share
    is None if /proc/stat cannot be read.
    """
    before, own_ns = _host_stat(), time.process_time_ns()
    shortest_ns = _timed_hash_ns()
    for _ in range(PROBE_BURSTS):
        time.sleep(PROBE_PAUSE_S)
        until_ns = time.perf_counter_ns() + PROBE_BURST_NS
        for _ in range(PROBE_ROUNDS):
            shortest_ns = min(shortest_ns, _timed_hash_ns())
            if time.perf_counter_ns() > until_ns:
                break
    spent, own_ns = difference(before, _host_stat()), time.process_time_ns() - own_ns
    whole_ns = sum(spent.get(name, 0) for name in CPU_COLUMNS)
    busy_ns = max(0, sum(spent.get(name, 0) for name in _BUSY) - own_ns)
    return round(shortest_ns / 1000, 1), round(busy_ns / whole_ns, 3) if whole_ns > 0 else None


def _host_stat() -> dict[str, int]:
    try:
        return parse_host_stat(Path("/proc/stat").read_bytes())
    except (OSError, ValueError):
        return {}


def _timed_hash_ns() -> int:
    begun = time.perf_counter_ns()
    hashlib.sha256(_PROBE_WORK).digest()
    return time.perf_counter_ns() - begun


def _memory() -> EnvironmentRecord:
    info = _text("/proc/meminfo") or ""
    total, free = _kib(info, "SwapTotal"), _kib(info, "SwapFree")
    huge = _field(info, "HugePages_Total")
    return {
        "total_bytes": _kib(info, "MemTotal"),
        "limit_bytes": group_limit_bytes(),
        "swap_bytes": total,
        "swap_used_bytes": total - free if total is not None and free is not None else None,
        "huge_pages": int(huge) if huge else None,
        "transparent_huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "numa_balancing": _number("/proc/sys/kernel/numa_balancing"),
        **{
            name: _number(VM / name)
            for name in (
                "swappiness", "dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes",
            )
        },
    }  # fmt: skip


def group_limit_bytes() -> int | None:
    """The lowest memory limit from the root to this process's control group (version 2 and 1)."""
    limits: list[int] = []
    for line in (_text(OWN_GROUPS) or "").splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0":
            root, name = GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = root / group.lstrip("/")
        for place in (folder, *folder.parents):
            limit = _number(place / name)
            if limit is not None and limit < 1 << 60:  # in version 1 a huge number means no limit
                limits.append(limit)
            if place == root:
                break
    return min(limits, default=None)


def _kernel() -> EnvironmentRecord:
    states = {path.name: _text(path) for path in sorted((CPU / "vulnerabilities").glob("*"))}
    return {
        "release": platform.release(),
        "build": platform.version(),
        "command_line": _text("/proc/cmdline"),
        "clock_source": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "sched_ext": sched_ext(),
        "mitigations": {name: state for name, state in states.items() if state and state != "Not affected"} or None,
    }


def sched_ext(place: Path = Path("/sys/kernel/sched_ext")) -> str | None:
    """The name of the sched_ext scheduler that runs; empty without one, None if the kernel has no sched_ext."""
    return _text(place / "root/ops") or ("" if (place / "state").exists() else None)


def _storage(path: Path, device: str | None) -> EnvironmentRecord:
    mount = mount_of(path)
    disk = Path("/sys/class/block", device) if device else Path("/nonexistent")
    return {
        "path": str(path),
        "mount_point": mount.point if mount else None,
        "filesystem": mount.filesystem if mount else None,
        "mount_options": mount.options if mount else None,
        "source": mount.source if mount else None,
        "device": device,
        "disk_model": _text(disk / "device/model"),
        "rotational": _flag(disk / "queue/rotational"),
        "scheduler": _chosen(disk / "queue/scheduler"),
        "read_ahead_kb": _number(disk / "queue/read_ahead_kb"),
        "wbt_lat_usec": _number(disk / "queue/wbt_lat_usec"),
        "nr_requests": _number(disk / "queue/nr_requests"),
        "write_cache": _text(disk / "queue/write_cache"),
        "free_bytes": free_bytes(path),
    }


def _state(device: str | None) -> EnvironmentRecord:
    load = (_text("/proc/loadavg") or "").split()
    supplies = Path("/sys/class/power_supply").glob("*")
    mains = [_flag(supply / "online") for supply in supplies if _text(supply / "type") == "Mains"]
    return {
        "load1": float(load[0]) if load else None,
        "load5": float(load[1]) if load else None,
        "temperature_c": _hottest_c(CPU_SENSORS),
        "device_temperature_c": _hottest_c(f"class/block/{device}/{sensor}" for sensor in DISK_SENSORS),
        "on_battery": not any(mains) if mains else None,
    }  # fmt: skip


def _hottest_c(patterns: Iterable[str]) -> float | None:
    sensors = (sensor for pattern in patterns for sensor in Path("/sys").glob(pattern))
    readings = [value / 1000 for sensor in sensors if (value := _number(sensor)) is not None]
    return max((value for value in readings if 0 < value < 150), default=None)


# -- reading; absent is None


def _text(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def _number(path: str | Path) -> int | None:
    text = _text(path)
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None


def _flag(path: str | Path) -> bool | None:
    number = _number(path)
    return None if number is None else number != 0


def _chosen(path: str | Path) -> str | None:
    """The bracketed word of `always [madvise] never`; the whole text without brackets."""
    text = _text(path)
    match = re.search(r"\[([^\]]+)\]", text or "")
    return match[1] if match else text


def _field(text: str, name: str) -> str | None:
    match = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", text, re.M)
    return match[1].strip() if match else None


def _kib(text: str, name: str) -> int | None:
    value = _field(text, name)
    return int(value.split()[0]) * 1024 if value else None


def _all_of(folders: list[Path], name: str) -> str | None:
    answers = sorted({text for folder in folders if (text := _text(folder / name))})
    return ", ".join(answers) or None
