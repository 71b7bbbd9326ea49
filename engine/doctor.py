"""`bench doctor`: what of this machine would spoil a measurement, why, and what to do about it."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine import environment, probeset
from engine.account import unprivileged
from engine.drift import Record
from engine.errors import UserError
from engine.server import check_sockets, socket_base
from engine.space import existing, free_bytes, readable
from probes import helper, requirements
from probes.tracer import direct_command

Status = Literal["ok", "warn", "fail"]

MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓ ok", "green"),
    "warn": ("! warn", "yellow"),
    "fail": ("✗ fail", "red"),
}
ROOM_WANTED_BYTES = 10 << 30
ROOM_NEEDED_BYTES = 2 << 30
SHM_WANTED_BYTES = 64 << 20
FILES_WANTED = 1024
BUSY_WANTED = 0.10
READ_AHEAD_WANTED_KB = 4096
HOT_C = 80.0
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
UNLIKE_DISKS = {
    "tmpfs": "it is memory, so nothing is ever written to a disk",
    "ramfs": "it is memory, so nothing is ever written to a disk",
    "overlay": "a container's layers copy whole files on the first write",
    "btrfs": "copy-on-write makes every checkpoint write twice",
    "zfs": "copy-on-write and a cache of its own change reads and writes",
    "nfs": "the network is measured with the server",
    "nfs4": "the network is measured with the server",
    "9p": "every call crosses to another machine",
    "virtiofs": "every call crosses to another machine",
    "fuse": "every call goes through a program",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `found` is what is there; `reason` and `remedy` are empty where all is well."""

    name: str
    status: Status
    found: str
    reason: str = ""
    remedy: str = ""


def report(out: Path) -> tuple[Check, ...]:
    """All checks for runs that are kept in `out`: first what runs cannot do without, then what moves results."""
    return (*(check(out) for check in NEEDS), *judge(environment.record(out)))


def of_probes() -> tuple[Check, ...]:
    """All that keeps probes from running here, and those that can."""
    found = probeset.facts()
    bpftrace = "none" if found.bpftrace is None else requirements.show(found.bpftrace)
    findings = requirements.check(found)
    lacking = tuple(
        Check("probes", "warn", f"off: {', '.join(finding.off)}", finding.text.removeprefix("probes: "))
        for finding in findings
    )
    works = Check("probes", "ok", f"can run: {', '.join(requirements.still_works(findings))}")
    loose = _loose_helper() if probeset.by_sudo() else ()
    return (*lacking, Check("bpftrace", "warn" if found.bpftrace is None else "ok", bpftrace), *loose, works)


def _loose_helper() -> tuple[Check, ...]:
    """Whether what sudo runs as root could be changed by somebody who is not."""
    python, *_, script = (Path(word) for word in direct_command())
    parts = [script, *sorted(script.parent.iterdir()), python, python.resolve()]
    loose = next((found for part in parts if (found := helper.changeable(part)) is not None), None)
    if loose is None:
        return (Check("probe helper", "ok", f"{script}, started by sudo"),)
    reason = "sudo runs the probe helper as root, so who may write there may do what root does"
    remedy = "install pgbed where only root may write, such as root's Nix store, and permit that by sudo"
    return (Check("probe helper", "warn", f"{loose} could be changed without being root", reason, remedy),)


def judge(record: Record) -> tuple[Check, ...]:
    """What of an environment record moves results. Things that the machine does not tell are left out."""
    return tuple(check for rule in RULES if (check := rule(record)) is not None)


def failed(checks: Iterable[Check]) -> bool:
    """Whether any check says that runs cannot work."""
    return any(check.status == "fail" for check in checks)


def as_json(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """The checks as JSON: name, status, found, reason, remedy."""
    return [asdict(check) for check in checks]


def render(checks: Iterable[Check], console: Console) -> None:
    """Print the checks as a table; what is not well says why and what to do below it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "check", "found"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "")
    for check in checks:
        mark, style = MARKS[check.status]
        found = Text(check.found)
        if check.reason:
            found.append(f"\n{check.reason}", "dim")
        if check.remedy:
            found.append(f"\n→ {check.remedy}", "cyan")
        table.add_row(Text(mark, style), check.name, found)
    console.print(table)


# -- what runs need


def _account(_: Path) -> Check:
    try:
        account = unprivileged()
    except UserError as error:
        return Check("servers' user", "fail", "none", str(error), "create the user 'postgres', or set PGBED_USER")
    return Check("servers' user", "ok", account.name)


def _out(out: Path) -> Check:
    name = "output folder"
    try:
        barred = unprivileged().barred_at(out)
    except UserError:
        return Check(name, "warn", str(out), "not judged without a user for servers")
    if barred is not None:
        reason = f"the servers' user may not enter {barred}, so no server could start there"
        return Check(name, "fail", str(out), reason, "choose another folder with --out")
    place = existing(out)
    if not os.access(place, os.W_OK):
        return Check(name, "fail", str(out), f"{place} cannot be written", "choose another folder with --out")
    return Check(name, "ok", str(out))


def _room(out: Path) -> Check:
    free = free_bytes(out)
    status: Status = "ok" if free >= ROOM_WANTED_BYTES else "warn" if free >= ROOM_NEEDED_BYTES else "fail"
    reason = "" if status == "ok" else f"the quick scale needs about {readable(ROOM_NEEDED_BYTES)}, larger ones more"
    return Check("free space", status, readable(free), reason, "free some, or choose another --out" if reason else "")


def _sockets(_: Path) -> Check:
    try:
        base = socket_base(unprivileged())
        check_sockets(base)
        with tempfile.TemporaryDirectory(dir=base):
            pass
    except (UserError, OSError) as error:
        return Check("socket folder", "fail", "unusable", str(error), "set PGBED_SOCKETS to a short folder")
    return Check("socket folder", "ok", str(base))


def _shared_memory(_: Path) -> Check:
    try:
        os.close(os.memfd_create("pgbed"))
        os.close(os.eventfd(0))
    except OSError as error:
        return Check(
            "memfd and eventfd", "fail", "refused", f"clients count in shared memory: {error}", "Linux 4.14 or newer"
        )
    shm = Path("/dev/shm")
    free = shutil.disk_usage(shm).free if shm.is_dir() else 0
    if free < SHM_WANTED_BYTES:
        reason = "PostgreSQL keeps dynamic shared memory there"
        return Check(
            "shared memory", "warn", f"/dev/shm has {readable(free)}", reason, "mount -o remount,size=1G /dev/shm"
        )
    return Check("shared memory", "ok", f"memfd, eventfd, /dev/shm {readable(free)}")


def _schedstat(_: Path) -> Check:
    reason = "without it there is no on-CPU time and no run-queue wait per connection"
    until = time.monotonic() + 0.02
    while time.monotonic() < until:  # something to be counted
        pass
    try:
        on_cpu_ns = int(Path("/proc/self/schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return Check("schedstat", "fail", "absent", reason, "a kernel with CONFIG_SCHED_INFO")
    if on_cpu_ns == 0:
        return Check("schedstat", "fail", "always zero", reason, "a kernel with CONFIG_SCHED_INFO (not gVisor)")
    return Check("schedstat", "ok", "counts")


def _files(_: Path) -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES_WANTED:
        return Check(
            "open files", "warn", str(soft), "many clients need many descriptors", f"ulimit -n {min(hard, 65536)}"
        )
    return Check("open files", "ok", str(soft))


def _servers(_: Path) -> Check:
    if shutil.which("nix"):
        return Check("servers", "ok", "nix builds them")
    if os.environ.get("PGBED_SERVERS"):
        return Check("servers", "ok", f"those in {os.environ['PGBED_SERVERS']}")
    return Check(
        "servers", "warn", "no nix", "only installs of your own can be named: --pg NAME=/path", "./bench installs Nix"
    )


NEEDS: tuple[Callable[[Path], Check], ...] = (
    _account, _out, _room, _sockets, _shared_memory, _schedstat, _files, _servers,
)  # fmt: skip


# -- what moves results


def _cpus(record: Record) -> Check:
    cpu = record["cpu"]
    count = cpu["threads"] or 0
    found = f"{cpu['model']}, {count} CPUs" + (
        f" on {cpu['numa_nodes']} NUMA nodes" if (cpu["numa_nodes"] or 1) > 1 else ""
    )
    if count < 2:
        return Check("CPU", "warn", found, "client and server share one CPU and wait for each other", "use two or more")
    if (cpu["numa_nodes"] or 1) > 1:
        reason = "where the kernel puts the server's memory changes from run to run"
        return Check("CPU", "warn", found, reason, "run the bench under numactl --interleave=all")
    return Check("CPU", "ok", found)


def _virtual(record: Record) -> Check | None:
    if not record["cpu"]["hypervisor"]:
        return Check("virtual machine", "ok", "no")
    reason = "neighbours take CPU and disk time that nothing here can see; clock and turbo are the host's"
    return Check("virtual machine", "warn", "yes", reason, "more --repeats, and --aa to see the noise floor")


def _governor(record: Record) -> Check | None:
    governor = record["cpu"]["governor"]
    if governor is None:
        return None
    if governor == "performance":
        return Check("CPU governor", "ok", governor)
    reason = "the clock follows the load, so a build that waits more also computes slower"
    return Check("CPU governor", "warn", governor, reason, "cpupower frequency-set -g performance")


def _boost(record: Record) -> Check | None:
    boost = record["cpu"]["boost"]
    if boost is None:
        return None
    if not boost:
        return Check("CPU boost", "ok", "off")
    remedy = (
        "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
        if record["cpu"]["driver"] in ("intel_pstate", "intel_cpufreq")
        else "echo 0 > /sys/devices/system/cpu/cpufreq/boost"
    )
    return Check("CPU boost", "warn", "on", "the clock depends on temperature and on how many CPUs are busy", remedy)


def _smt(record: Record) -> Check | None:
    smt = record["cpu"]["smt"]
    if smt is None:
        return None
    if not smt:
        return Check("SMT", "ok", "off")
    reason = "two threads share a core, so the client slows the server by where it happens to run"
    return Check("SMT", "warn", "on", reason, "echo off > /sys/devices/system/cpu/smt/control")


def _memory(record: Record) -> Check | None:
    memory = record["memory"]
    if not memory["total_bytes"]:
        return None
    limit = memory["limit_bytes"]
    found = readable(memory["total_bytes"]) + (f", limited to {readable(limit)}" if limit else "")
    if memory["swap_used_bytes"]:
        reason = "pages of the server may come back from swap in the middle of a step"
        return Check("memory", "warn", f"{found}, {readable(memory['swap_used_bytes'])} in swap", reason, "swapoff -a")
    return Check("memory", "ok", found)


def _huge_pages(record: Record) -> Check | None:
    state = record["memory"]["transparent_huge_pages"]
    if state is None:
        return None
    if state != "always":
        return Check("transparent huge pages", "ok", state)
    reason = "the kernel stops processes to gather huge pages when it likes"
    remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    return Check("transparent huge pages", "warn", state, reason, remedy)


def _clock(record: Record) -> Check | None:
    source = record["kernel"]["clock_source"]
    if source is None:
        return None
    if source not in SLOW_CLOCKS:
        return Check("clock source", "ok", source)
    reason = "reading the clock takes a microsecond, and track_io_timing reads it twice per block"
    return Check("clock source", "warn", source, reason, "boot with tsc=reliable if the CPU's clock is steady")


def _kernel(record: Record) -> Check:
    vulnerable = sorted(
        name for name, state in (record["kernel"]["mitigations"] or {}).items() if state.startswith("Vulnerable")
    )
    found = record["kernel"]["release"] + (f"; unmitigated: {', '.join(vulnerable)}" if vulnerable else "")
    return Check("kernel", "ok", found)


def _filesystem(record: Record) -> Check | None:
    storage = record["storage"]
    kind = storage["filesystem"]
    if kind is None:
        return None
    found = f"{kind} on {storage['source']} ({storage['mount_options']})"
    reason = UNLIKE_DISKS.get(kind.partition(".")[0])
    if reason:
        return Check("filesystem", "warn", found, reason, "choose a folder on ext4 or xfs with --out")
    if "nobarrier" in storage["mount_options"].split(",") or "barrier=0" in storage["mount_options"].split(","):
        return Check("filesystem", "warn", found, "fsync does not wait for the disk", "mount without nobarrier")
    return Check("filesystem", "ok", found)


def _disk(record: Record) -> Check:
    storage = record["storage"]
    if storage["device"] is None:
        reason = "reads and writes of the disk cannot be counted"
        return Check("disk", "warn", "none known", reason, "choose a folder on a local disk with --out")
    parts = [storage["device"], storage["disk_model"], f"scheduler {storage['scheduler']}"]
    parts += [f"read-ahead {storage['read_ahead_kb']} kB", f"queue {storage['nr_requests']}"]
    parts += [f"write-back throttling {storage['wbt_lat_usec']} us"] if storage["wbt_lat_usec"] is not None else []
    found = ", ".join(part for part in parts if part)
    if (storage["read_ahead_kb"] or 0) > READ_AHEAD_WANTED_KB:
        reason = "scans read far ahead of what they need, and push other pages out of the cache"
        remedy = f"echo 128 > /sys/block/{storage['device']}/queue/read_ahead_kb"
        return Check("disk", "warn", found, reason, remedy)
    return Check("disk", "ok", found)


def _load(record: Record) -> Check | None:
    busy = record["state"]["busy_share"]
    if busy is None:
        return None
    found = f"{busy:.0%} of the CPUs, load {record['state']['load1']}"
    if busy <= BUSY_WANTED:
        return Check("other work", "ok", found)
    return Check("other work", "warn", found, "other programs run now; they will take time from the runs", "stop them")


def _battery(record: Record) -> Check | None:
    if record["state"]["on_battery"] is None:
        return None
    if not record["state"]["on_battery"]:
        return Check("power", "ok", "mains")
    return Check("power", "warn", "battery", "on battery the CPU is slowed down", "plug it in")


def _temperature(record: Record) -> Check | None:
    hottest = record["state"]["temperature_c"]
    if hottest is None:
        return None
    if hottest < HOT_C:
        return Check("temperature", "ok", f"{hottest:.0f} C")
    return Check("temperature", "warn", f"{hottest:.0f} C", "a hot CPU lowers its clock", "let it cool, clean the fan")


RULES: tuple[Callable[[Record], Check | None], ...] = (
    _cpus, _virtual, _governor, _boost, _smt, _memory, _huge_pages, _clock, _kernel, _filesystem, _disk, _load,
    _battery, _temperature,
)  # fmt: skip
