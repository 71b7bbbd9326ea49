"""What probes need of a machine, in the order of looking, each lack as one line that says what to do.

`facts` looks at the machine, `check` judges; it is pure, so that every line can be tested anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from probes.errors import ProbeError
from probes.helper import NO_TRACEFS, TRACEFS, tracefs_mounted
from probes.origin import bpftrace_version, parse_version
from probes.table import PROBES

Version = tuple[int, int]

WRAPPER = "PGBED_PROBE_HELPER"  # names the program that starts the helper with its privilege
OLDEST: Version = (0, 17)
CAPABILITIES: Version = (0, 25)  # from here on bpftrace asks for capabilities, not for root
NEEDS_BTF: Version = (0, 23)
# From this bpftrace on, this kernel: the ring buffer, then what current releases state.
OLDEST_KERNEL: tuple[tuple[Version, Version], ...] = (((0, 25), (6, 1)), ((0, 24), (5, 8)))
CAPABILITY_BITS = {"CAP_DAC_OVERRIDE": 1, "CAP_DAC_READ_SEARCH": 2, "CAP_PERFMON": 38, "CAP_BPF": 39}
# For attaching to functions and USDT sites: kernels since 6.16, and older ones with the fixes of July 2025, ask for it.
CAP_SYS_ADMIN = 21
TRACEPOINTS = (
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_switch",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exit",
)
BPF = tuple(probe.id for probe in PROBES if probe.script)
ON_BINARY = tuple(probe.id for probe in PROBES if probe.needs_binary)
SCHEDULER = ("runq", "sched")


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found. Versions are (major, minor); `bpftrace` is None when there is none.

    `helper` is true when the privileged part is started as root, so that this process need not be privileged itself.
    `capabilities` are the bits that the privileged part will have if it is not root. `wrapper` is PGBED_PROBE_HELPER
    when that cannot be executed. `tracepoints` are those of `sched` that the kernel offers, None when that could not be
    looked at.
    """

    linux: bool
    kernel: Version
    bpftrace: Version | None
    uid: int
    capabilities: int
    helper: bool
    tracefs: bool
    tracepoints: frozenset[str] | None
    btf: bool
    uprobes: bool
    schedstat: bool = True
    wrapper: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One lack. `text` is the line for the user, `off` the probes that cannot run because of it."""

    text: str
    off: tuple[str, ...]


def facts(*, helper: bool = False) -> Facts:
    """What this machine offers. Nothing is changed and nothing is started but `bpftrace --version`."""
    program = shutil.which("bpftrace")
    version = None
    if program is not None:
        try:
            version = parse_version(bpftrace_version(Path(program)))
        except ProbeError:
            version = None
    try:
        sched = frozenset(one.name for one in (TRACEFS / "events" / "sched").iterdir())
    except OSError:  # not there, or not for this user to see
        sched = None
    wrapper = os.environ.get(WRAPPER, "")
    usable = bool(wrapper) and shutil.which(wrapper) is not None
    given = file_capabilities(Path(wrapper)) if usable else None
    return Facts(
        linux=sys.platform == "linux",
        kernel=parse_version(os.uname().release) or (0, 0),
        bpftrace=version,
        uid=os.geteuid(),
        capabilities=_capabilities() if given is None else given,
        helper=usable and given is None if wrapper else helper,
        tracefs=sched is not None or tracefs_mounted(),
        tracepoints=sched,
        btf=Path("/sys/kernel/btf/vmlinux").exists(),
        uprobes=Path("/sys/bus/event_source/devices/uprobe").exists(),
        schedstat=_schedstat(),
        wrapper="" if usable else wrapper,
    )


def check(found: Facts) -> tuple[Finding, ...]:
    """Every lack, in the order in which to mend them; empty when all probes can run."""
    if not found.linux:
        return (Finding("probes: need Linux; all probes except planstats are off", (*BPF, "procsched")),)
    findings = [*_program(found), *_kernel(found)]
    if not found.schedstat:
        findings.append(
            Finding(
                "procsched: this kernel keeps no per-task run-queue time (schedstat is all zero); "
                "run-queue wait not shown",
                ("procsched",),
            )
        )
    return tuple(findings)


def _program(found: Facts) -> list[Finding]:
    if found.bpftrace is None:
        return [
            Finding(
                "probes: bpftrace not found on PATH. Enter the dev shell or install bpftrace >= 0.17. "
                "Continuing with procsched and planstats.",
                BPF,
            )
        ]
    version, named = found.bpftrace, show(found.bpftrace)
    findings = []
    if version < OLDEST:
        findings.append(Finding(f"probes: bpftrace {named} is too old, need >= 0.17", BPF))
    if found.wrapper:
        findings.append(
            Finding(
                f"probes: {WRAPPER}={found.wrapper} cannot be executed; join its group, or unset it to use sudo",
                BPF,
            )
        )
    elif found.uid != 0 and not found.helper:
        missing = missing_capabilities(found.capabilities)
        if version < CAPABILITIES:
            findings.append(
                Finding(
                    f"probes: bpftrace {named} only runs as root (0.25 and later accept capabilities). Re-run with "
                    "sudo, or start only the probe helper with sudo. Continuing with procsched and planstats.",
                    BPF,
                )
            )
        elif missing:
            findings.append(
                Finding(
                    f"probes: missing {', '.join(missing)}; bpftrace {named} needs CAP_BPF, CAP_PERFMON, "
                    "CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE",
                    BPF,
                )
            )
        elif not found.capabilities >> CAP_SYS_ADMIN & 1:
            findings.append(
                Finding(
                    "probes: missing CAP_SYS_ADMIN, which kernels since 6.16, and older ones with their fixes, want "
                    "for attaching to functions; planner, phases and endpoint are off. Give it to the probe helper "
                    "too (on NixOS programs.pgbed.serverProbes), or use sudo.",
                    ON_BINARY,
                )
            )
    for since, kernel in OLDEST_KERNEL:
        if version >= since:
            if found.kernel < kernel:
                findings.append(
                    Finding(
                        f"probes: kernel {show(found.kernel)} is older than bpftrace {named} supports ({show(kernel)})",
                        BPF,
                    )
                )
            break
    return findings


def _kernel(found: Facts) -> list[Finding]:
    findings = []
    if not found.tracefs:
        findings.append(Finding(NO_TRACEFS, BPF))
    elif found.tracepoints is not None:
        findings += [
            Finding(f"probes: tracepoint sched:{name} not offered by this kernel; runq and sched are off", SCHEDULER)
            for name in TRACEPOINTS
            if name not in found.tracepoints
        ]
    if not found.btf and found.bpftrace is not None and found.bpftrace >= NEEDS_BTF:
        findings.append(
            Finding(
                f"probes: kernel has no BTF (CONFIG_DEBUG_INFO_BTF); bpftrace {show(found.bpftrace)} cannot read "
                "tracepoint arguments. runq, sched and the group filter are off; planner, phases and endpoint count "
                "every server that runs this binary; stacks is off.",
                (*SCHEDULER, "stacks"),
            )
        )
    if not found.uprobes:
        findings.append(
            Finding(
                "probes: kernel without uprobes (CONFIG_UPROBE_EVENTS); planner, phases and endpoint are off", ON_BINARY
            )
        )
    return findings


def silent(probe: str) -> Finding:
    """The line for a probe that is attached while statements run, and counts nothing."""
    return Finding(f"probes: {probe} is attached but saw no event in 3 s; is the server pid right?", (probe,))


def still_works(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The probes that no finding turns off."""
    off = {probe for finding in findings for probe in finding.off}
    return tuple(probe.id for probe in PROBES if probe.id not in off)


def trackable(found: Facts) -> bool:
    """Whether scripts can follow processes; without it `ProbeSession(..., tracking=False)`."""
    return found.btf or (found.bpftrace or OLDEST) < NEEDS_BTF


def missing_capabilities(effective: int) -> tuple[str, ...]:
    """The capabilities that a set of bits lacks."""
    return tuple(name for name, bit in CAPABILITY_BITS.items() if not effective >> bit & 1)


def show(version: Version) -> str:
    """`0.23` of (0, 23)."""
    return f"{version[0]}.{version[1]}"


def file_capabilities(program: Path) -> int | None:
    """The capabilities that a program's file gives to who runs it, as bits; None when it gives none."""
    try:
        _, low, _, high, _ = struct.unpack("<5I", os.getxattr(program, "security.capability")[:20])
    except (OSError, struct.error):
        return None
    return int(high) << 32 | int(low)


def _capabilities() -> int:
    try:
        status = Path("/proc/self/status").read_text()
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
