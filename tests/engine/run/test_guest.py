"""Cells under other kernels, for real: two kernels of the distribution booted, one guest killed midway, one panicking.

Emulated, so that it is the same on every machine; the times of it say nothing.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.core.kernel import GuestMachine
from engine.guest import kernels, tools
from engine.guest.machine import Guest, Job
from engine.journal.manifest import read_manifest
from engine.journal.reader import Attempt, JournalReader
from tests.support.benchcall import LONG, SMALL, Bench, nothing_left, wait_for

pytestmark = [pytest.mark.outside, pytest.mark.timeout(900)]
UNDER = ("6.1-distro", "6.12-distro")
BOOT_S = 400.0
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
GUEST = ("--accelerator", "tcg", "--guest-pin", "0", "--guest-memory", "1GB")


def guests_of(engine: int) -> list[int]:
    """The processes qemu that an engine has."""
    children = Path(f"/proc/{engine}/task/{engine}/children").read_text().split()
    return [int(pid) for pid in children if "qemu" in Path(f"/proc/{pid}/comm").read_text()]


def test_two_kernels_are_booted_and_a_guest_that_is_killed_fails_its_cell_only(bench: Bench, label: str) -> None:
    words = ("--pg", label, "--kernel", ",".join(UNDER), *GUEST, *SMALL, "--steps", "l.i0", "--repeats", "1")
    run = bench.detached(*words)
    manifest = read_manifest(run)
    assert [(each.label, each.scheduler) for each in manifest.kernels] == [(UNDER[0], "CFS"), (UNDER[1], "EEVDF")]
    engine = bench.engine_pid()

    def begun() -> Attempt | None:
        attempts = bench.attempts()
        return attempts[1] if len(attempts) > 1 else None

    second = wait_for(begun, "the second guest to begin its cell", BOOT_S)
    (guest,) = guests_of(engine)
    tasks = {(task / "comm").read_text(): int(task.name) for task in Path(f"/proc/{guest}/task").iterdir()}
    assert os.sched_getaffinity(tasks["CPU 0/TCG\n"]) == {0}
    os.kill(guest, signal.SIGKILL)
    bench.await_end()
    first, failed = bench.attempts()
    assert (first.state, first.cell) == ("finished", manifest.cells[0].id), first.reason
    assert first.cell.endswith("linux_6.1-distro-r1")
    assert failed.id == second.id and failed.state == "failed"
    assert (failed.reason or "").startswith("qemu was ended by SIGKILL | ")
    with JournalReader(run) as reader:
        origin = reader.origin(first.id)
        sessions = {each.id: each.boot_id for each in reader.sessions()}
        (step,) = reader.steps(first.id)
        assert step.totals is not None and step.totals.roles["insert"].rows == 2000
        assert sum(second.rows for role in reader.roles(step.id) for second in reader.role_seconds(role.id)) == 2000
    assert len(set(sessions.values())) == 3  # of the host and of two guests
    assert origin["environment"]["kernel"]["release"] == origin["guest"]["release"] == manifest.kernels[0].release
    assert origin["environment"]["kernel"]["command_line"].startswith("console=ttyS0")
    told = ("accelerator", "cpus", "memory_mb", "disk", "provenance", "label")
    assert [origin["guest"][key] for key in told] == ["tcg", 1, 1024, "image", "distro", UNDER[0]]
    assert origin["guest"]["boot_s"] > 0 and "linux-image-6.1" in origin["guest"]["package"]
    for cell in manifest.cells:
        assert "pgbed: userland" in (run / "cells" / cell.id / "console.log").read_text(errors="replace")
    assert "database system is ready" in (run / "cells" / first.cell / "server.log").read_text()
    assert not Path(f"/proc/{guest}").exists() and not list(run.glob("cells/*/disk.img"))
    comparison: dict[str, Any] = json.loads(bench("compare", "--json").stdout)
    assert {ratio["verdict"] for ratio in comparison["ratios"]} <= {"withheld", "none"}
    assert [each["state"] for each in comparison["left_out"]] == ["failed"]


def test_a_kernel_that_panics_says_so(tmp_path: Path) -> None:
    kernel = kernels.resolve(UNDER[0], print)
    found = tools.find(print, tmp_path)
    machine = GuestMachine("tcg", 1, 512, "tmpfs", 64, found.version)
    job = Job("#!/bin/sh\necho c > /proc/sysrq-trigger\n", (), {}, "tmpfs:64m")
    with Guest(kernel, machine, found, job, tmp_path / "console.log") as guest:
        lines: list[bytes] = []
        while not guest.over:
            lines += guest.lines(1.0)
        assert json.loads(lines[0])["booted"] == kernel.release and len(lines) == 1
        assert guest.ending(None).startswith("the guest's kernel panicked | ")
        assert "Kernel panic - not syncing: sysrq triggered crash" in guest.ending(None)


def test_tunables_are_restored_when_the_engine_is_killed(bench: Bench, label: str) -> None:
    before = AUTOGROUP.read_text().strip()
    other = "0" if before == "1" else "1"
    bench.detached("--pg", label, "--sched", f"autogroup_enabled={other}", *LONG)
    bench.await_step("l.i1")
    assert AUTOGROUP.read_text().strip() == other
    os.kill(bench.engine_pid(), signal.SIGKILL)
    wait_for(lambda: AUTOGROUP.read_text().strip() == before, "the tunable to be as it was")
    nothing_left(bench)
