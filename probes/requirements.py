"""Requirements of probes on a machine, and for each one missing a line that says what to do.

`facts` looks at the machine; `check` judges and is pure, so that every line can be tested anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from probes.bpftrace import parse_version
from probes.errors import ProbeError, visible
from probes.helper import NO_TRACEFS, TRACEFS, kernel_version, tracefs_mounted
from probes.table import PROBES
from probes.tracer import HELPER, bpftrace_version, direct_command, file_capabilities

Version = tuple[int, int]

ANNOUNCED = "PGBED_BPFTRACE_VERSION"  # of the bpftrace that the first run with probes fetches for the helper
OLDEST: Version = (0, 17)
CAPABILITIES: Version = (0, 25)  # from this version on, bpftrace requires capabilities instead of root
NEEDS_BTF: Version = (0, 23)
# From this bpftrace on, this kernel: first for the ring buffer, then as current releases state.
OLDEST_KERNEL: tuple[tuple[Version, Version], ...] = (((0, 25), (6, 1)), ((0, 24), (5, 8)))
CAPABILITY_BITS = {"CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_PERFMON": 38, "CAP_BPF": 39}
# Required to attach to functions and USDT sites by kernels since 6.16, and by older ones with the fixes of July 2025.
CAP_SYS_ADMIN = 21
TRACEPOINTS = (
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_waking",
    "sched_switch",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exit",
)
BPF = tuple(probe.id for probe in PROBES if probe.script)
ON_BINARY = tuple(probe.id for probe in PROBES if probe.needs_binary)
SCHEDULER = ("runq", "sched", "offcpu")


@dataclass(frozen=True, slots=True)
class Facts:
    """State of the machine. Versions are (major, minor); `bpftrace` is None if it was not found.

    `missing` says why not. `sudo` is true when sudo starts the helper as root. `capabilities` are the bits
    that the helper will have if it is not root. `wrapper` is PGBED_PROBE_HELPER if that cannot be executed.
    `tracepoints` are the kernel's in `sched`, None if they could not be read.
    """

    linux: bool
    kernel: Version
    bpftrace: Version | None
    uid: int
    capabilities: int
    sudo: bool
    tracefs: bool
    tracepoints: frozenset[str] | None
    btf: bool
    uprobes: bool
    schedstat: bool = True
    wrapper: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A missing requirement. `text` is the line for the user, `off` the probes that cannot run because of it."""

    text: str
    off: tuple[str, ...] = BPF


def facts(*, sudo: bool = False) -> Facts:
    """Collect facts; start only `bpftrace --version`, by the helper. `sudo`: sudo would start it without a password."""
    wrapper = os.environ.get(HELPER, "")
    usable = not wrapper or shutil.which(wrapper) is not None
    version, missing = None, ""
    if usable:
        try:
            version = parse_version(bpftrace_version(direct_command()))
        except ProbeError as error:
            missing = str(error)
            version = parse_version(os.environ.get(ANNOUNCED, ""))
    given = file_capabilities(Path(wrapper)) if wrapper else None
    try:
        sched = frozenset(one.name for one in (TRACEFS / "events" / "sched").iterdir())
    except OSError:  # missing, or not readable by this user
        sched = None
    return Facts(
        linux=sys.platform == "linux",
        kernel=kernel_version(),
        bpftrace=version,
        uid=os.geteuid(),
        capabilities=_capabilities() if given is None else given,
        sudo=sudo and given is None,
        tracefs=sched is not None or tracefs_mounted(),
        tracepoints=sched,
        btf=Path("/sys/kernel/btf/vmlinux").exists(),
        uprobes=Path("/sys/bus/event_source/devices/uprobe").exists(),
        schedstat=_schedstat(),
        wrapper="" if usable else wrapper,
        missing=missing,
    )


def check(facts: Facts) -> tuple[Finding, ...]:
    """All that is missing, in the order in which to fix it; empty if all probes can run."""
    if not facts.linux:
        return (Finding("probes: need Linux; all probes except planstats are off", (*BPF, "procsched")),)
    return (*_program(facts), *_kernel(facts))


def _program(facts: Facts) -> Iterator[Finding]:
    if facts.wrapper:
        reason = f"probes: {HELPER}={facts.wrapper} cannot be executed; join its group, or unset it to use sudo"
        yield Finding(visible(reason))
        return
    if facts.bpftrace is None:
        yield Finding(facts.missing or "probes: bpftrace not found")
        return
    version, named = facts.bpftrace, show(facts.bpftrace)
    if version < OLDEST:
        yield Finding(f"probes: bpftrace {named} is too old, need >= 0.17")
    if facts.uid != 0 and not facts.sudo:
        missing = [name for name, bit in CAPABILITY_BITS.items() if not facts.capabilities >> bit & 1]
        if version < CAPABILITIES:
            yield Finding(
                f"probes: bpftrace {named} only runs as root (0.25 and later accept capabilities). Re-run with "
                "sudo, or permit sudo to start only the probe helper."
            )
        elif missing:
            yield Finding(
                f"probes: missing {', '.join(missing)}; bpftrace {named} needs CAP_BPF, CAP_PERFMON, "
                "CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE"
            )
        elif not facts.capabilities >> CAP_SYS_ADMIN & 1:
            yield Finding(
                "probes: missing CAP_SYS_ADMIN, which kernels since 6.16, and older ones with their fixes, require "
                "for attaching to functions; planner, phases and endpoint are off. Also give it to the probe "
                "helper (on NixOS programs.pgbed.serverProbes), or use sudo.",
                ON_BINARY,
            )
    kernel = next((kernel for since, kernel in OLDEST_KERNEL if version >= since), (0, 0))
    if facts.kernel < kernel:
        yield Finding(f"probes: kernel {show(facts.kernel)} is older than bpftrace {named} supports ({show(kernel)})")


def _kernel(facts: Facts) -> Iterator[Finding]:
    if not facts.tracefs:
        yield Finding(NO_TRACEFS)
    elif facts.tracepoints is not None:
        for name in TRACEPOINTS:
            if name not in facts.tracepoints:
                text = f"probes: tracepoint sched:{name} does not exist in this kernel; runq, sched and offcpu are off"
                yield Finding(text, SCHEDULER)
    if not facts.btf and facts.bpftrace is not None and facts.bpftrace >= NEEDS_BTF:
        yield Finding(
            f"probes: kernel has no BTF (CONFIG_DEBUG_INFO_BTF); bpftrace {show(facts.bpftrace)} cannot read "
            "tracepoint arguments, so runq, sched, offcpu and stacks are off; planner, phases and endpoint count every "
            "server that runs this binary, which only root may do.",
            (*SCHEDULER, "stacks", *(ON_BINARY if facts.uid != 0 else ())),
        )
    if not facts.uprobes:
        text = "probes: kernel without uprobes (CONFIG_UPROBE_EVENTS); planner, phases and endpoint are off"
        yield Finding(text, ON_BINARY)
    if not facts.schedstat:
        text = "procsched: this kernel does not record run-queue wait (schedstat is all zero); it is not shown"
        yield Finding(text, ("procsched",))


def silent(probe: str) -> Finding:
    """Finding for a probe that is attached while statements run and counts nothing."""
    return Finding(f"probes: {probe} is attached but has seen no event in 3 s; is the server pid right?", (probe,))


def still_works(findings: Iterable[Finding]) -> tuple[str, ...]:
    off = {probe for finding in findings for probe in finding.off}
    return tuple(probe.id for probe in PROBES if probe.id not in off)


def trackable(facts: Facts) -> bool:
    """Whether scripts can follow processes; otherwise use `ProbeSession(..., tracking=False)`."""
    return facts.btf or (facts.bpftrace or OLDEST) < NEEDS_BTF


def show(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _capabilities() -> int:
    try:
        status = Path("/proc/self/status").read_text(errors="replace")
    except OSError:
        return 0
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return int(match[1], 16) if match else 0


def _schedstat() -> bool:
    """Whether the kernel counts run-queue time: process 1 must have run at least once."""
    try:
        return any(int(word) for word in Path("/proc/1/schedstat").read_bytes().split())
    except (OSError, ValueError):
        return False
