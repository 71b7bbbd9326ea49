"""Kernel counters for the whole machine and for the block device that holds the database.

Counters are cumulative; `engine.host.procfs.difference` makes intervals of them. Keys that end in `_now` are states.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engine.host.procfs import TICK_NS, HeldFiles, number_after, read_whole

MOUNTS = Path("/proc/self/mountinfo")
DISKS = Path("/sys/class/block")
SECTOR_BYTES = 512  # unit of the kernel's block counters, whatever the device's sector size


class Host(HeldFiles):
    """The machine and one block device, held open for sampling. A context manager.

    `host()` returns
        user_ns, nice_ns, system_ns, idle_ns, iowait_ns, irq_ns, softirq_ns, steal_ns   over all CPUs
            (vmstat's us = user + nice; its sy = system + irq + softirq)
        switches, forks                          context switches and processes started, whole machine
        running_now, blocked_now                 tasks on CPU or run queue; tasks waiting for I/O
        dirty_bytes_now, writeback_bytes_now     page cache waiting for, and under, write-back
        pressure_{cpu,io,memory}_some_ns, pressure_{io,memory}_full_ns   if the kernel keeps them
    `device()` returns, or {} if the folder is not on a block device (tmpfs, network),
        reads, read_kb, read_ns, writes, written_kb, write_ns   completed requests; ns summed over requests
        io_ns                                    time with at least one request in flight (utilisation)
        weighted_ns                              time integral of requests in flight (mean queue = / interval)
        flushes, flush_ns, discards              0 on kernels that do not count them
        in_flight_now
    """

    def __init__(self, device: str | None = None) -> None:
        super().__init__()
        self._stat = self._open("/proc/stat")
        self._meminfo = self._open("/proc/meminfo")
        self._pressure = [(what, self._open(f"/proc/pressure/{what}")) for what in ("cpu", "io", "memory")]
        self._device = self._open(str(DISKS / device / "stat")) if device else -1

    def host(self) -> dict[str, int]:
        counters = parse_host_stat(read_whole(self._stat))
        counters |= parse_meminfo(os.pread(self._meminfo, 4096, 0))
        for what, fd in self._pressure:
            with suppress(OSError):  # no such file, or EOPNOTSUPP if booted with psi=0
                counters |= parse_pressure(what, os.pread(fd, 512, 0))
        return counters

    def device(self) -> dict[str, int]:
        try:
            return parse_device(os.pread(self._device, 512, 0))
        except OSError:  # missing or removed
            return {}

    def _open(self, path: str) -> int:
        with suppress(OSError):
            return self._hold(path)
        return -1


CPU_COLUMNS = ("user_ns", "nice_ns", "system_ns", "idle_ns", "iowait_ns", "irq_ns", "softirq_ns", "steal_ns")
BUSY_COLUMNS = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns")  # vmstat's us and sy


def cpu_busy_ns(host: Mapping[str, int]) -> int | None:
    """CPU time of everything on the host, clients included; None if it was not sampled."""
    return sum(host.get(key, 0) for key in BUSY_COLUMNS) if "user_ns" in host else None


def parse_host_stat(data: bytes) -> dict[str, int]:
    """Totals over CPUs in `/proc/stat`: times, context switches, forks, running and blocked tasks."""
    columns = data[: data.index(b"\n")].split()[1:9]
    counters = {name: int(ticks) * TICK_NS for name, ticks in zip(CPU_COLUMNS, columns, strict=False)}
    counters["switches"] = number_after(data, b"\nctxt ")
    counters["forks"] = number_after(data, b"\nprocesses ")
    counters["running_now"] = number_after(data, b"\nprocs_running ")
    counters["blocked_now"] = number_after(data, b"\nprocs_blocked ")
    return counters


def parse_meminfo(data: bytes) -> dict[str, int]:
    return {
        "dirty_bytes_now": number_after(data, b"\nDirty:") * 1024,
        "writeback_bytes_now": number_after(data, b"\nWriteback:") * 1024,
    }


def parse_pressure(what: str, data: bytes) -> dict[str, int]:
    """Totals in `/proc/pressure/WHAT`, which the kernel gives in us."""
    counters = {}
    for line in data.splitlines():
        kind, _, rest = line.partition(b" ")
        # The CPU's "full" line is always 0 for the whole machine.
        if kind == b"some" or what != "cpu":
            counters[f"pressure_{what}_{kind.decode()}_ns"] = int(rest[rest.rindex(b"=") + 1 :]) * 1000
    return counters


def parse_device(data: bytes) -> dict[str, int]:
    """`/sys/class/block/NAME/stat`: fields in the order of the kernel's Documentation/block/stat.rst."""
    fields = [int(value) for value in data.split()]
    fields += [0] * (17 - len(fields))  # 11 before Linux 4.18 (discards), 15 before 5.5 (flushes)
    return {
        "reads": fields[0],
        "read_kb": fields[2] * SECTOR_BYTES // 1024,
        "read_ns": fields[3] * 1_000_000,
        "writes": fields[4],
        "written_kb": fields[6] * SECTOR_BYTES // 1024,
        "write_ns": fields[7] * 1_000_000,
        "in_flight_now": fields[8],
        "io_ns": fields[9] * 1_000_000,
        "weighted_ns": fields[10] * 1_000_000,
        "discards": fields[11],
        "flushes": fields[15],
        "flush_ns": fields[16] * 1_000_000,
    }


def device_of(path: Path) -> str | None:
    """The disk that holds a path, such as `nvme0n1`; None for tmpfs, network and the like.

    A partition gives its disk, as does a logical volume or encrypted device on a single disk; a device over several
    disks is returned itself.
    """
    numbers = path.stat().st_dev
    node = Path(f"/sys/dev/block/{os.major(numbers)}:{os.minor(numbers)}")
    if not node.exists():  # btrfs and overlay have their own device numbers: use the mount table
        mount = mount_of(path)
        upper = re.search(r"upperdir=([^,]+)", mount.options) if mount and mount.filesystem == "overlay" else None
        if upper and Path(upper[1]).exists():
            return device_of(Path(upper[1]))
        if mount is None or not mount.source.startswith("/dev/"):
            return None
        node = DISKS / Path(mount.source).resolve().name
        if not node.exists():
            return None
    node = node.resolve()
    while True:
        if (node / "partition").exists():
            node = node.parent
        below = [slave.resolve() for slave in (node / "slaves").iterdir()] if (node / "slaves").is_dir() else []
        if len(below) != 1:
            return node.name
        node = below[0]


class Mount(NamedTuple):
    """A line of the mount table; `options` are the mount's, then the filesystem's."""

    point: str
    filesystem: str
    options: str
    source: str


def mount_of(path: Path) -> Mount | None:
    """The mount that holds a path; None if the mount table cannot be read."""
    wanted = os.fspath(path.resolve())
    best: Mount | None = None
    try:
        lines = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split()
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        # of several mounts on one point, the last is on top
        if (wanted == point or wanted.startswith(point.rstrip("/") + "/")) and len(point) >= len(
            best.point if best else ""
        ):
            filesystem, source, options = (*right.split(" ", 2), "", "")[:3]
            together = dict.fromkeys((*fields[5].split(","), *options.split(",")))
            best = Mount(point, filesystem, ",".join(option for option in together if option), source)
    return best
