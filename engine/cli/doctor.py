"""`bench doctor`: checks this machine for sources of noise, and for what runs need."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from operator import not_
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.builds import client_programs
from engine.cli.options import JSON, OUT, console
from engine.core.errors import UserError
from engine.core.format import size
from engine.host import environment
from engine.host.account import own_folder, unprivileged
from engine.host.disk import existing, free_bytes
from engine.host.drift import EnvironmentRecord
from engine.host.server_folders import check_sockets, socket_base
from engine.plan import counter_check
from engine.report.console import echo_json
from engine.tracing import selection
from probes import bpftrace, helper, requirements
from probes.tracer import direct_command

Status = Literal["ok", "warn", "fail"]

MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓ ok", "green"),
    "warn": ("! warn", "yellow"),
    "fail": ("✗ fail", "red"),
}
SPACE_WANTED_BYTES = 10 << 30
SPACE_NEEDED_BYTES = 2 << 30
SHM_WANTED_BYTES = 64 << 20
FILES_WANTED = 1024
BUSY_WANTED = 0.10
READ_AHEAD_WANTED_KB = 4096
HOT_C = 80.0
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
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
class Check:
    """One check. `found` is what the machine has; `reason` and `remedy` are empty where it is fine."""

    name: str
    status: Status
    found: str
    reason: str = ""
    remedy: str = ""


def report(out: Path) -> tuple[Check, ...]:
    """All checks for runs in the folder `out`: first what runs need, then sources of noise."""
    return (*(check(out) for check in NEEDS), *judge(environment.record(out)))


@click.command()
@OUT
@click.option("--probes", is_flag=True, help="Check only what the probes need.")
@JSON
def doctor(out: Path, probes: bool, as_json: bool) -> None:
    """Check this machine for sources of noise: what was found, why it matters, and how to fix it.

    Exits with 1 when a check failed.
    """
    found = of_probes() if probes else report(out)
    if as_json:
        echo_json([asdict(check) for check in found])
    else:
        render(found, console(False))
    sys.exit(1 if any(check.status == "fail" for check in found) else 0)


def of_probes() -> tuple[Check, ...]:
    """What keeps probes from running here, and which can run."""
    found = selection.facts()
    version = "none" if found.bpftrace is None else requirements.show(found.bpftrace)
    findings = selection.findings_of(found)
    lacking = tuple(
        Check("probes", "warn", f"off: {', '.join(finding.off)}", finding.text.removeprefix("probes: "))
        for finding in findings
    )
    works = Check("probes", "ok", f"can run: {', '.join(requirements.still_works(findings))}")
    loose = _loose_helper() if selection.by_sudo() else ()
    return (*lacking, Check("bpftrace", "warn" if found.bpftrace is None else "ok", version), *loose, works)


def _loose_helper() -> tuple[Check, ...]:
    """Whether what sudo runs as root could be changed by somebody who is not."""
    command = direct_command()
    script = Path(command[-1])
    modules = Path(helper.__file__).parent if len(command) == 1 else script.parent
    parts = [script, *sorted(modules.iterdir()), Path(sys.executable)]
    loose = next((found for part in parts if (found := bpftrace.changeable(part, sticky=True)) is not None), None)
    if loose is None:
        return (Check("probe helper", "ok", f"{script}, started by sudo"),)
    reason = "sudo runs the probe helper as root, so who may write there may do what root does"
    remedy = "install pgbed where only root may write, such as root's Nix store, and permit that by sudo"
    return (Check("probe helper", "warn", f"{loose} can be changed by users other than root", reason, remedy),)


def judge(record: EnvironmentRecord) -> tuple[Check, ...]:
    """The checks of an environment record for sources of noise; what the machine does not report is left out."""
    return tuple(check for rule in RULES if (check := rule(record)) is not None)


def render(checks: Iterable[Check], console: Console) -> None:
    """Print the checks as a table; below each that is not ok, why and what to do."""
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


def _judged(name: str, found: str, fine: bool, reason: str, remedy: str) -> Check:
    """A check that warns unless all is fine."""
    return Check(name, "ok", found) if fine else Check(name, "warn", found, reason, remedy)


# -- what runs need


def _account(_: Path) -> Check:
    try:
        account = unprivileged()
    except UserError as error:
        return Check("servers' user", "fail", "none", str(error), "create the user 'postgres', or set PGBED_USER")
    return Check("servers' user", "ok", account.name)


def _out(out: Path) -> Check:
    name, remedy, place = "output folder", "choose another folder with --out", existing(out)
    try:
        own_folder(out)
        with tempfile.TemporaryDirectory(dir=place):  # permission bits tell root nothing, nor do they tell of /proc
            pass
    except UserError as error:
        return Check(name, "fail", str(out), str(error).removesuffix(f"; {remedy}"), remedy)
    except OSError as error:
        return Check(name, "fail", str(out), f"{place} cannot be written: {error.strerror}", remedy)
    try:
        barred = unprivileged().barred_at(out)
    except UserError:
        return Check(name, "warn", str(out), "not checked: there is no user to run servers")
    if barred is not None:
        reason = f"the servers' user may not enter {barred}, so no server could start there"
        return Check(name, "fail", str(out), reason, remedy)
    return Check(name, "ok", str(out))


def _space(out: Path) -> Check:
    free = free_bytes(out)
    status: Status = "ok" if free >= SPACE_WANTED_BYTES else "warn" if free >= SPACE_NEEDED_BYTES else "fail"
    reason = "" if status == "ok" else f"the quick scale needs about {size(SPACE_NEEDED_BYTES)}, larger ones more"
    return Check("free space", status, size(free), reason, "free some, or choose another --out" if reason else "")


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
        reason = f"clients count in shared memory: {error}"
        return Check("memfd and eventfd", "fail", "refused", reason, "Linux 4.14 or newer")
    shm = Path("/dev/shm")
    free = shutil.disk_usage(shm).free if shm.is_dir() else 0
    if free < SHM_WANTED_BYTES:
        reason = "PostgreSQL keeps dynamic shared memory there"
        return Check("shared memory", "warn", f"/dev/shm has {size(free)}", reason, "mount -o remount,size=1G /dev/shm")
    return Check("shared memory", "ok", f"memfd, eventfd, /dev/shm {size(free)}")


def _schedstat(_: Path) -> Check:
    reason = "without it there is no CPU time and no run-queue wait per connection"
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
    reason, remedy = "many clients need many file descriptors", f"ulimit -n {min(hard, 65536)}"
    return _judged("open files", str(soft), soft >= FILES_WANTED, reason, remedy)


def _servers(_: Path) -> Check:
    if os.environ.get("PGBED_CATALOG") and shutil.which("nix-store"):
        return Check("servers", "ok", "built by Nix on demand")
    servers = os.environ.get("PGBED_SERVERS") or None
    reason = "only your own installs can be used: --pg NAME=/path"
    found = f"those in {servers}" if servers else "no Nix"
    return _judged("servers", found, servers is not None, reason, "./bench installs Nix")


def _program(name: str) -> Callable[[Path], Check]:
    """Whether a program is there that workloads call."""

    def check(_: Path) -> Check:
        found, variable = client_programs.place(name), client_programs.variable(name)
        if found.startswith("/") and not Path(found).is_file():
            return Check(name, "warn", f"{found}: no such program", f"{variable} names it", f"set {variable} to one")
        reason = "workloads that call it cannot run, or leave out what it does"
        return _judged(name, found or "none", bool(found), reason, f"start bench from its flake, or set {variable}")

    return check


def _counters(_: Path) -> Check:
    found, reason, remedy = counter_check.here()
    return _judged("counters", found, not reason, reason, remedy)


NEEDS: tuple[Callable[[Path], Check], ...] = (
    _account, _out, _space, _sockets, _shared_memory, _schedstat, _files, _servers, _counters,
    *(_program(name) for name in client_programs.KNOWN),
)  # fmt: skip


# -- sources of noise; None is what the machine does not report

Rule = Callable[[EnvironmentRecord], Check | None]


def _entry(
    name: str,
    section: str,
    key: str,
    fine: Callable[[Any], bool],
    reason: str,
    remedy: str,
    shown: Callable[[Any], str] = str,
) -> Rule:
    """The rule for one entry of the record."""

    def judge_entry(record: EnvironmentRecord) -> Check | None:
        value = record[section][key]
        return None if value is None else _judged(name, shown(value), fine(value), reason, remedy)

    return judge_entry


def _switch(on: bool) -> str:
    return "on" if on else "off"


def _cpus(record: EnvironmentRecord) -> Check:
    cpu = record["cpu"]
    count, nodes = cpu["threads"] or 0, cpu["numa_nodes"] or 1
    found = f"{cpu['model']}, {count} CPUs" + (f" on {nodes} NUMA nodes" if nodes > 1 else "")
    if count < 2:
        return Check("CPU", "warn", found, "client and server share one CPU and wait for each other", "use two or more")
    reason = "where the kernel puts the server's memory changes from run to run"
    return _judged("CPU", found, nodes == 1, reason, "run bench under numactl --interleave=all")


def _boost(record: EnvironmentRecord) -> Check | None:
    boost = record["cpu"]["boost"]
    if boost is None:
        return None
    intel = record["cpu"]["driver"] in ("intel_pstate", "intel_cpufreq")
    off = "1 > /sys/devices/system/cpu/intel_pstate/no_turbo" if intel else "0 > /sys/devices/system/cpu/cpufreq/boost"
    reason = "the clock depends on temperature and on how many CPUs are busy"
    return _judged("CPU boost", _switch(boost), not boost, reason, f"echo {off}")


def _memory(record: EnvironmentRecord) -> Check | None:
    memory = record["memory"]
    if not memory["total_bytes"]:
        return None
    found = size(memory["total_bytes"])
    if memory["limit_bytes"]:
        found += f", limited to {size(memory['limit_bytes'])}"
    if memory["swap_used_bytes"]:
        found += f", {size(memory['swap_used_bytes'])} in swap"
    reason = "pages of the server may come back from swap in the middle of a step"
    return _judged("memory", found, not memory["swap_used_bytes"], reason, "swapoff -a")


def _kernel(record: EnvironmentRecord) -> Check:
    mitigations = record["kernel"]["mitigations"] or {}
    vulnerable = sorted(name for name, state in mitigations.items() if state.startswith("Vulnerable"))
    found = record["kernel"]["release"] + (f"; unmitigated: {', '.join(vulnerable)}" if vulnerable else "")
    return Check("kernel", "ok", found)


def _filesystem(record: EnvironmentRecord) -> Check | None:
    storage = record["storage"]
    kind = storage["filesystem"]
    if kind is None:
        return None
    found = f"{kind} on {storage['source']} ({storage['mount_options']})"
    reason = NOT_A_PLAIN_DISK.get(kind.partition(".")[0])
    if reason:
        return Check("filesystem", "warn", found, reason, "choose a folder on ext4 or xfs with --out")
    waits = {"nobarrier", "barrier=0"}.isdisjoint(storage["mount_options"].split(","))
    return _judged("filesystem", found, waits, "fsync does not wait for the disk", "mount without nobarrier")


def _disk(record: EnvironmentRecord) -> Check:
    storage = record["storage"]
    if storage["device"] is None:
        reason = "reads and writes of the disk cannot be counted"
        return Check("disk", "warn", "none known", reason, "choose a folder on a local disk with --out")
    parts = [storage["device"], storage["disk_model"], f"scheduler {storage['scheduler']}"]
    parts += [f"read-ahead {storage['read_ahead_kb']} kB", f"queue {storage['nr_requests']}"]
    parts += [f"write-back throttling {storage['wbt_lat_usec']} us"] if storage["wbt_lat_usec"] is not None else []
    found = ", ".join(part for part in parts if part)
    fine = (storage["read_ahead_kb"] or 0) <= READ_AHEAD_WANTED_KB
    reason = "scans read far more than they need and evict other pages from the cache"
    return _judged("disk", found, fine, reason, f"echo 128 > /sys/block/{storage['device']}/queue/read_ahead_kb")


def _load(record: EnvironmentRecord) -> Check | None:
    busy = record["state"]["busy_share"]
    if busy is None:
        return None
    found = f"{busy:.0%} of the CPUs, load {record['state']['load1']}"
    reason = "other programs take CPU time from servers and clients"
    return _judged("other work", found, busy <= BUSY_WANTED, reason, "stop them")


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
