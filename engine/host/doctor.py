"""Checks of this machine: requirements of runs, and sources of noise."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import not_
from pathlib import Path
from typing import Any, Literal

from engine.core.errors import UserError
from engine.core.format import size
from engine.host import environment
from engine.host.disk import existing, free_bytes
from engine.host.drift import SLOW_CLOCKS, EnvironmentRecord
from engine.system.account import own_folder, unprivileged
from engine.system.server_folders import check_sockets, socket_base

Status = Literal["ok", "warn", "fail"]

SPACE_WANTED_BYTES = 10 << 30
SPACE_NEEDED_BYTES = 2 << 30
SHM_WANTED_BYTES = 64 << 20
FILES_WANTED = 1024
BUSY_WANTED = 0.10
READ_AHEAD_WANTED_KB = 4096
HOT_C = 80.0
NOT_A_PLAIN_DISK = {
    "tmpfs": "it is in memory, so nothing is ever written to a disk",
    "ramfs": "it is in memory, so nothing is ever written to a disk",
    "overlay": "a container's layers copy whole files on the first write",
    "btrfs": "copy-on-write makes every checkpoint write twice",
    "zfs": "copy-on-write and the file system's own cache change reads and writes",
    "nfs": "the network is measured along with the server",
    "nfs4": "the network is measured along with the server",
    "9p": "every call crosses to another machine",
    "virtiofs": "every call crosses to another machine",
    "fuse": "every call goes through a program",
}


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    name: str
    status: Status
    found: str
    reason: str = ""
    remedy: str = ""


Need = Callable[[Path], DoctorCheck]  # takes the folder that will hold runs


def examine(out: Path, further: Sequence[Need] = ()) -> tuple[DoctorCheck, ...]:
    """All checks for runs in the folder `out`: requirements, `further` ones, then sources of noise."""
    return (*(check(out) for check in (*NEEDS, *further)), *judge(environment.record(out)))


def judge(record: EnvironmentRecord) -> tuple[DoctorCheck, ...]:
    """Checks of an environment record for sources of noise, leaving out facts that the machine does not report."""
    return tuple(check for rule in RULES if (check := rule(record)) is not None)


def judged(name: str, state: str, fine: bool, reason: str, remedy: str) -> DoctorCheck:
    return DoctorCheck(name, "ok", state) if fine else DoctorCheck(name, "warn", state, reason, remedy)


# -- requirements


def _account(_: Path) -> DoctorCheck:
    try:
        account = unprivileged()
    except UserError as error:
        return DoctorCheck("servers' user", "fail", "none", str(error), "create the user 'postgres', or set PGBED_USER")
    return DoctorCheck("servers' user", "ok", account.name)


def _out(out: Path) -> DoctorCheck:
    name, remedy, place = "output folder", "choose another folder with --out", existing(out)
    try:
        own_folder(out)
        with tempfile.TemporaryDirectory(dir=place):  # permission bits say nothing to root, or about /proc
            pass
    except UserError as error:
        return DoctorCheck(name, "fail", str(out), str(error).removesuffix(f"; {remedy}"), remedy)
    except OSError as error:
        return DoctorCheck(name, "fail", str(out), f"{place} cannot be written: {error.strerror}", remedy)
    try:
        barred = unprivileged().barred_at(out)
    except UserError:
        return DoctorCheck(name, "warn", str(out), "not checked: there is no user to run servers")
    if barred is not None:
        reason = f"the servers' user may not enter {barred}, so no server could start there"
        return DoctorCheck(name, "fail", str(out), reason, remedy)
    return DoctorCheck(name, "ok", str(out))


def _space(out: Path) -> DoctorCheck:
    free = free_bytes(out)
    status: Status = "ok" if free >= SPACE_WANTED_BYTES else "warn" if free >= SPACE_NEEDED_BYTES else "fail"
    reason = "" if status == "ok" else f"the quick scale needs about {size(SPACE_NEEDED_BYTES)}, larger ones more"
    return DoctorCheck("free space", status, size(free), reason, "free some, or choose another --out" if reason else "")


def _sockets(_: Path) -> DoctorCheck:
    try:
        base = socket_base(unprivileged())
        check_sockets(base)
        with tempfile.TemporaryDirectory(dir=base):
            pass
    except (UserError, OSError) as error:
        return DoctorCheck("socket folder", "fail", "unusable", str(error), "set PGBED_SOCKETS to a short folder")
    return DoctorCheck("socket folder", "ok", str(base))


def _shared_memory(_: Path) -> DoctorCheck:
    try:
        os.close(os.memfd_create("pgbed"))
        os.close(os.eventfd(0))
    except OSError as error:
        reason = f"clients count in shared memory: {error}"
        return DoctorCheck("memfd and eventfd", "fail", "refused", reason, "Linux 4.14 or newer")
    shm = Path("/dev/shm")
    free = shutil.disk_usage(shm).free if shm.is_dir() else 0
    if free < SHM_WANTED_BYTES:
        reason = "PostgreSQL keeps dynamic shared memory there"
        return DoctorCheck(
            "shared memory", "warn", f"/dev/shm has {size(free)}", reason, "mount -o remount,size=1G /dev/shm"
        )
    return DoctorCheck("shared memory", "ok", f"memfd, eventfd, /dev/shm {size(free)}")


def _schedstat(_: Path) -> DoctorCheck:
    reason = "without it there is no CPU time and no run-queue wait per connection"
    until = time.monotonic() + 0.02
    while time.monotonic() < until:  # run, so that there is something to count
        pass
    try:
        on_cpu_ns = int(Path("/proc/self/schedstat").read_text(errors="replace").split()[0])
    except (OSError, ValueError, IndexError):
        return DoctorCheck("schedstat", "fail", "absent", reason, "a kernel with CONFIG_SCHED_INFO")
    if on_cpu_ns == 0:
        return DoctorCheck("schedstat", "fail", "always zero", reason, "a kernel with CONFIG_SCHED_INFO (not gVisor)")
    return DoctorCheck("schedstat", "ok", "counts")


def _files(_: Path) -> DoctorCheck:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reason, remedy = "many clients need many file descriptors", f"ulimit -n {min(hard, 65536)}"
    return judged("open files", str(soft), soft >= FILES_WANTED, reason, remedy)


NEEDS: tuple[Need, ...] = (_account, _out, _space, _sockets, _shared_memory, _schedstat, _files)


# -- sources of noise; None if the machine does not report it

Rule = Callable[[EnvironmentRecord], DoctorCheck | None]


def _entry(
    name: str,
    section: str,
    key: str,
    fine: Callable[[Any], bool],
    reason: str,
    remedy: str,
    shown: Callable[[Any], str] = str,
) -> Rule:
    def judge_entry(record: EnvironmentRecord) -> DoctorCheck | None:
        value = record[section][key]
        return None if value is None else judged(name, shown(value), fine(value), reason, remedy)

    return judge_entry


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _cpus(record: EnvironmentRecord) -> DoctorCheck:
    cpu = record["cpu"]
    count, nodes = cpu["threads"] or 0, cpu["numa_nodes"] or 1
    description = f"{cpu['model']}, {count} CPUs" + (f" on {nodes} NUMA nodes" if nodes > 1 else "")
    if count < 2:
        return DoctorCheck(
            "CPU", "warn", description, "client and server share one CPU and wait for each other", "use two or more"
        )
    reason = "where the kernel puts the server's memory changes from run to run"
    return judged("CPU", description, nodes == 1, reason, "run bench under numactl --interleave=all")


def _boost(record: EnvironmentRecord) -> DoctorCheck | None:
    boost = record["cpu"]["boost"]
    if boost is None:
        return None
    intel = record["cpu"]["driver"] in ("intel_pstate", "intel_cpufreq")
    off = "1 > /sys/devices/system/cpu/intel_pstate/no_turbo" if intel else "0 > /sys/devices/system/cpu/cpufreq/boost"
    reason = "the clock depends on temperature and on how many CPUs are busy"
    return judged("CPU boost", _switch(boost), not boost, reason, f"echo {off}")


def _memory(record: EnvironmentRecord) -> DoctorCheck | None:
    memory = record["memory"]
    if not memory["total_bytes"]:
        return None
    description = size(memory["total_bytes"])
    if memory["limit_bytes"]:
        description += f", limited to {size(memory['limit_bytes'])}"
    if memory["swap_used_bytes"]:
        description += f", {size(memory['swap_used_bytes'])} in swap"
    reason = "pages of the server may come back from swap in the middle of a step"
    return judged("memory", description, not memory["swap_used_bytes"], reason, "swapoff -a")


def _kernel(record: EnvironmentRecord) -> DoctorCheck:
    mitigations = record["kernel"]["mitigations"] or {}
    vulnerable = sorted(name for name, state in mitigations.items() if state.startswith("Vulnerable"))
    description = record["kernel"]["release"] + (f"; unmitigated: {', '.join(vulnerable)}" if vulnerable else "")
    return DoctorCheck("kernel", "ok", description)


def _filesystem(record: EnvironmentRecord) -> DoctorCheck | None:
    storage = record["storage"]
    kind = storage["filesystem"]
    if kind is None:
        return None
    description = f"{kind} on {storage['source']} ({storage['mount_options']})"
    reason = NOT_A_PLAIN_DISK.get(kind.partition(".")[0])
    if reason:
        return DoctorCheck("filesystem", "warn", description, reason, "choose a folder on ext4 or xfs with --out")
    waits = {"nobarrier", "barrier=0"}.isdisjoint(storage["mount_options"].split(","))
    return judged("filesystem", description, waits, "fsync does not wait for the disk", "mount without nobarrier")


def _disk(record: EnvironmentRecord) -> DoctorCheck:
    storage = record["storage"]
    if storage["device"] is None:
        reason = "reads and writes of the disk cannot be counted"
        return DoctorCheck("disk", "warn", "none known", reason, "choose a folder on a local disk with --out")
    parts = [storage["device"], storage["disk_model"], f"scheduler {storage['scheduler']}"]
    parts += [f"read-ahead {storage['read_ahead_kb']} kB", f"queue {storage['nr_requests']}"]
    parts += [f"write-back throttling {storage['wbt_lat_usec']} us"] if storage["wbt_lat_usec"] is not None else []
    description = ", ".join(part for part in parts if part)
    fine = (storage["read_ahead_kb"] or 0) <= READ_AHEAD_WANTED_KB
    reason = "scans read far more than they need and evict other pages from the cache"
    return judged("disk", description, fine, reason, f"echo 128 > /sys/block/{storage['device']}/queue/read_ahead_kb")


def _load(record: EnvironmentRecord) -> DoctorCheck | None:
    busy = record["state"]["busy_share"]
    if busy is None:
        return None
    description = f"{busy:.0%} of the CPUs, load {record['state']['load1']}"
    reason = "other programs take CPU time from servers and clients"
    return judged("other work", description, busy <= BUSY_WANTED, reason, "stop them")


RULES: tuple[Rule, ...] = (
    _cpus,
    _entry("virtual machine", "cpu", "hypervisor", not_,
           "other guests of the host take CPU and disk time unseen; the host controls clock and turbo",
           "more --repeats, and --aa to see the noise floor", lambda guest: "yes" if guest else "no"),
    _entry("CPU governor", "cpu", "governor", lambda governor: governor == "performance",
           "the clock frequency follows the load, so a build that waits more also computes slower",
           "cpupower frequency-set -g performance"),
    _boost,
    _entry("SMT", "cpu", "smt", not_,
           "two threads share a core, so where the client is scheduled affects the server's speed",
           "echo off > /sys/devices/system/cpu/smt/control", _switch),
    _memory,
    _entry("transparent huge pages", "memory", "transparent_huge_pages", lambda state: state != "always",
           "the kernel may stall processes to assemble huge pages",
           "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
    _entry("clock source", "kernel", "clock_source", lambda source: source not in SLOW_CLOCKS,
           "reading the clock takes a microsecond, and track_io_timing reads it twice per block",
           "boot with tsc=reliable if the CPU has an invariant TSC"),
    _kernel,
    _filesystem,
    _disk,
    _load,
    _entry("power", "state", "on_battery", not_, "on battery the CPU runs slower", "plug it in",
           lambda battery: "battery" if battery else "mains"),
    _entry("temperature", "state", "temperature_c", lambda hottest: hottest < HOT_C,
           "a hot CPU lowers its clock", "let it cool, clean the fan", lambda hottest: f"{hottest:.0f} C"),
)  # fmt: skip
