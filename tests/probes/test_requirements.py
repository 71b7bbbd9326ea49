"""Every lack of a machine has its line, names the probes that are off, and leaves the rest on."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from probes import bpftrace, helper, requirements, tracer
from probes.requirements import Facts

GOOD = Facts(
    linux=True,
    kernel=(6, 18),
    bpftrace=(0, 23),
    uid=0,
    capabilities=(1 << 41) - 1,
    sudo=False,
    tracefs=True,
    tracepoints=frozenset(requirements.TRACEPOINTS),
    btf=True,
    uprobes=True,
)
ALL = ("procsched", "planstats", "runq", "sched", "stacks", "offcpu", "planner", "phases", "endpoint")
UNPRIVILEGED = ("procsched", "planstats")


def test_nothing_is_said_of_a_machine_that_has_all() -> None:
    assert requirements.check(GOOD) == ()
    assert requirements.still_works(()) == ALL


@pytest.mark.parametrize(
    ("lack", "text", "works"),
    [
        ({"linux": False}, "need Linux; all probes except planstats are off", ("planstats",)),
        ({"bpftrace": None}, "bpftrace not found", UNPRIVILEGED),
        ({"bpftrace": (0, 16)}, "bpftrace 0.16 is too old, need >= 0.17", UNPRIVILEGED),
        ({"uid": 1000}, "bpftrace 0.23 only runs as root (0.25 and later accept", UNPRIVILEGED),
        (
            {"uid": 1000, "bpftrace": (0, 27), "capabilities": 1 << 39 | 1 << 1},
            "missing CAP_DAC_READ_SEARCH, CAP_PERFMON; bpftrace 0.27 needs CAP_BPF,",
            UNPRIVILEGED,
        ),
        (
            {"bpftrace": (0, 24), "kernel": (5, 4)},
            "kernel 5.4 is older than bpftrace 0.24 supports (5.8)",
            UNPRIVILEGED,
        ),
        (
            {"bpftrace": (0, 27), "kernel": (5, 15)},
            "kernel 5.15 is older than bpftrace 0.27 supports (6.1)",
            UNPRIVILEGED,
        ),
        (
            {
                "uid": 1000,
                "bpftrace": (0, 27),
                "capabilities": sum(1 << bit for bit in requirements.CAPABILITY_BITS.values()),
            },
            "missing CAP_SYS_ADMIN, which kernels since 6.16",
            (*UNPRIVILEGED, "runq", "sched", "stacks", "offcpu"),
        ),
        (
            {"uid": 1000, "wrapper": "/run/wrappers/bin/x"},
            "PGBED_PROBE_HELPER=/run/wrappers/bin/x cannot be executed; join its group",
            UNPRIVILEGED,
        ),
        ({"tracefs": False, "tracepoints": None}, "mount -t tracefs tracefs /sys/kernel/tracing", UNPRIVILEGED),
        (
            {"tracepoints": GOOD.tracepoints - {"sched_wakeup"}},  # type: ignore[operator]
            "tracepoint sched:sched_wakeup does not exist in this kernel; runq, sched and offcpu are off",
            ("procsched", "planstats", "stacks", "planner", "phases", "endpoint"),
        ),
        ({"btf": False}, "no BTF (CONFIG_DEBUG_INFO_BTF)", (*UNPRIVILEGED, "planner", "phases", "endpoint")),
        ({"btf": False, "uid": 1000, "sudo": True}, "which only root may do", UNPRIVILEGED),
        (
            {"uprobes": False},
            "without uprobes (CONFIG_UPROBE_EVENTS)",
            (*UNPRIVILEGED, "runq", "sched", "stacks", "offcpu"),
        ),
        ({"schedstat": False}, "schedstat is all zero", ALL[1:]),
    ],
)
def test_each_lack_is_one_line_with_a_remedy(lack: dict[str, Any], text: str, works: tuple[str, ...]) -> None:
    (finding,) = requirements.check(replace(GOOD, **lack))
    assert text in finding.text
    assert "\n" not in finding.text
    assert requirements.still_works([finding]) == works


def test_an_unprivileged_user_with_a_helper_lacks_nothing() -> None:
    assert requirements.check(replace(GOOD, uid=1000, sudo=True)) == ()
    assert requirements.check(replace(GOOD, uid=1000, bpftrace=(0, 27))) == ()


@pytest.mark.slow
def test_an_installed_helper_says_which_bpftrace_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.touch()
    monkeypatch.setenv(tracer.HELPER, str(wrapper))
    refused = requirements.facts(sudo=True)
    assert (refused.wrapper, refused.bpftrace) == (str(wrapper), None)
    wrapper.write_text("#!/bin/sh\necho 'probes: bpftrace not found\x1b[2J' >&2; exit 2\n")
    wrapper.chmod(0o755)
    machine = requirements.facts(sudo=True)
    assert (machine.wrapper, machine.sudo, machine.bpftrace) == ("", True, None)
    assert machine.missing == "probes: bpftrace not found\\x1b[2J"
    (finding,) = [one for one in requirements.check(machine) if "bpftrace" in one.text]
    assert finding.text == machine.missing


@pytest.mark.outside
def test_a_capability_wrapper_is_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attribute that setcap writes: version 2, with the effective bit; permitted, inheritable, low words first."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text("#!/bin/sh\nprintf '/x/bpftrace\\n0.27.1\\n'\n")
    wrapper.chmod(0o755)
    low, high = 1 << 1 | 1 << 2 | 1 << 21, 1 << (38 - 32) | 1 << (39 - 32)
    os.setxattr(wrapper, "security.capability", struct.pack("<5I", 0x02000001, low, 0, high, 0))
    monkeypatch.setenv(tracer.HELPER, str(wrapper))
    machine = requirements.facts(sudo=True)
    assert (machine.wrapper, machine.sudo, machine.bpftrace) == ("", False, (0, 27))
    able = replace(GOOD, uid=1000, bpftrace=(0, 27), capabilities=machine.capabilities)
    assert requirements.check(able) == ()
    (finding,) = requirements.check(replace(able, bpftrace=(0, 24)))
    assert "only runs as root (0.25 and later accept capabilities)" in finding.text


def test_any_user_sees_whether_tracefs_is_mounted() -> None:
    assert helper.tracefs_mounted() == os.path.ismount(helper.TRACEFS)


def test_the_oldest_bpftrace_needs_no_btf() -> None:
    old = replace(GOOD, bpftrace=(0, 17), btf=False)
    assert requirements.check(old) == ()
    assert requirements.trackable(old)
    assert not requirements.trackable(replace(old, bpftrace=(0, 23)))


def test_all_lacks_are_named_at_once() -> None:
    findings = requirements.check(replace(GOOD, bpftrace=None, tracefs=False, uprobes=False))
    assert len(findings) == 3
    assert requirements.still_works(findings) == UNPRIVILEGED


@pytest.mark.parametrize(
    ("text", "version"), [("v0.23.2", (0, 23)), ("6.18.44-fc", (6, 18)), ("bpftrace v0.17.0", (0, 17)), ("none", None)]
)
def test_versions_are_read(text: str, version: tuple[int, int] | None) -> None:
    assert bpftrace.parse_version(text) == version


def test_a_silent_probe_has_a_line() -> None:
    assert requirements.silent("planner").text.startswith("probes: planner is attached but has seen no event in 3 s")
