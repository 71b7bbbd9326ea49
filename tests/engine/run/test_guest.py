"""Cells under other kernels, for real: two kernels of the distribution booted, probed, one guest killed midway.

Other guests run out of disk, out of memory, hang, panic, or lose their engine.

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
from engine.guest import kernels, store_image, tools
from engine.guest.machine import Guest, Job
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from tests.support.benchcall import Bench, nothing_left, wait_for

pytestmark = [pytest.mark.outside, pytest.mark.timeout(900)]
UNDER = ("6.1-distro", "6.12-distro")
VARIED = "6.1-distro-preempt-full"  # the first of them, with a parameter
BOOT_S = 400.0
GUEST = ("--accelerator", "tcg", "--guest-pin", "0", "--guest-memory", "1GB")
SWEEP = ("--workload", "pgbench-select", "--clients", "1,2", "--seconds", "2", "--pgbench-scale", "1", "--repeats", "1",
         "--warmup-seconds", "0", "--set", "shared_buffers=32MB", "--probes", "runq")  # fmt: skip
# Faults that a guest survives, and then those it does not: disk full, all memory taken, and nobody to feed the
# watchdog. Last come messages of kernels about an emulator's clocks.
FAULTS = """#!/bin/sh
dd if=/dev/zero of=/bench/full bs=1M count=100
tail < /dev/zero
echo "tail ended with $?"
for process in /proc/[0-9]*; do
  [ "$(cat $process/comm)" != watchdog ] || kill -STOP ${process#/proc/}
done
echo 'the last that is said'
for n in 1 2 3; do echo "clocksource: watchdog $n"; done
sleep 600
"""


def guests_of(engine: int) -> list[int]:
    """The processes qemu that an engine has."""
    children = Path(f"/proc/{engine}/task/{engine}/children").read_text().split()
    return [int(pid) for pid in children if "qemu" in Path(f"/proc/{pid}/comm").read_text()]


def probed(run: Path, step: int) -> bool:
    """Whether the probe has seen a step's backend wait for a CPU."""
    with JournalReader(run) as reader:
        return any(frame.data.get("sum_us") for frame in reader.probe_frames(step) if frame.role == "pgbench")


@pytest.mark.nightly("without KVM each instruction of two kernels is emulated")
def test_a_killed_guest_fails_its_cell_only(bench: Bench, label: str) -> None:
    run = bench.detached("--pg", label, "--kernel", f"{UNDER[0]}:preempt=full,{UNDER[1]}", *GUEST, *SWEEP)
    manifest = read_manifest(run)
    assert [(kernel.label, kernel.scheduler) for kernel in manifest.boot.kernels] == [
        (VARIED, "CFS"),
        (UNDER[1], "EEVDF"),
    ]
    # One that has not begun its cell is not waited for.
    (guest,) = wait_for(lambda: guests_of(bench.engine_pid()), "the first guest")
    assert bench("stop").returncode == 0
    bench.await_end()
    assert [attempt.state for attempt in bench.attempts()] == ["interrupted"] and not Path(f"/proc/{guest}").exists()

    assert bench("resume", "--detach").returncode == 0
    engine = bench.engine_pid()
    wait_for(lambda: guests_of(engine), "the first guest again")
    assert "linux" not in (line := bench("watch", "--once").stdout) and f"{VARIED} r1  booting its kernel: " in line
    bench.await_step("select.c1", 2, BOOT_S)
    assert bench("mark", "seen").returncode == 0
    begun = bench.await_step("select.c1", 3, BOOT_S)
    wait_for(lambda: probed(run, begun.id), "the run queue to be seen under the second kernel", BOOT_S)
    (guest,) = guests_of(engine)
    tasks = {(task / "comm").read_text(): int(task.name) for task in Path(f"/proc/{guest}/task").iterdir()}
    assert os.sched_getaffinity(tasks["CPU 0/TCG\n"]) == {0}
    os.kill(guest, signal.SIGKILL)
    bench.await_end()
    _, first, failed = bench.attempts()
    assert (first.state, first.cell) == ("finished", manifest.cells[0].id), first.reason
    assert first.cell.endswith(f"linux_{VARIED}-r1")
    assert failed.state == "failed" and (failed.reason or "").startswith("qemu was ended by SIGKILL | ")
    with JournalReader(run) as reader:
        origin = reader.origin(first.id)
        sessions = {session.id: session.boot_id for session in reader.sessions()}
        steps, broken = reader.steps(first.id), reader.steps(failed.id)
        assert [event.data["text"] for event in reader.events(kinds=("mark",), attempt=first.id)] == ["seen"]
    assert [(step.name, step.state) for step in steps] == [
        ("init", "finished"), ("select.c1", "finished"), ("select.c2", "finished"),
    ]  # fmt: skip
    assert [step.name for step in broken][:2] == ["init", "select.c1"]
    for step in steps[1:]:
        assert step.totals is not None and step.totals.roles["pgbench"].statements > 10
        assert step.totals.probes["pgbench"]["runq"]["sum_us"] > 0, "the run queue is probed under each kernel"
    assert len(set(sessions.values())) == 3  # of the host and of two guests
    assert origin["environment"]["kernel"]["release"] == origin["guest"]["release"] == manifest.boot.kernels[0].release
    words = origin["environment"]["kernel"]["command_line"].split()
    assert words[0].startswith("console=ttyS0") and words[-1] == "preempt=full"
    facts = ("accelerator", "cpus", "memory_mb", "disk", "share", "provenance", "label")
    assert [origin["guest"][key] for key in facts] == ["tcg", 1, 1024, "image", store_image.share(), "distro", VARIED]
    assert origin["guest"]["boot_s"] > 0 and "linux-image-6.1" in origin["guest"]["package"]
    for cell in manifest.cells:
        assert "pgbed: userland" in (run / "cells" / cell.id / "console.log").read_text(errors="replace")
    assert "database system is ready" in (run / "cells" / first.cell / "server.log").read_text()
    assert not Path(f"/proc/{guest}").exists() and not list(run.glob("cells/*/disk.img"))
    comparison: dict[str, Any] = json.loads(bench("compare", "--json").stdout)
    assert {ratio["verdict"] for ratio in comparison["ratios"]} <= {"withheld", "none"}
    assert [cell["state"] for cell in comparison["left_out"]] == ["failed"]

    assert bench("resume", "--detach").returncode == 0
    (guest,) = wait_for(lambda: guests_of(bench.engine_pid()), "the failed cell's guest")
    os.kill(bench.engine_pid(), signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{guest}").exists(), "the guest to go with its engine")
    nothing_left(bench)


def booted(command: str, machine: GuestMachine, programs: tools.Tools, folder: Path) -> Guest:
    """A guest that ran a command, and ended without a word of it."""
    kernel = kernels.resolve(UNDER[0], print)
    job = Job(command, (), {}, "tmpfs:64m", watchdog_s=10)
    with Guest(kernel, machine, programs, job, folder / "console.log") as guest:
        lines: list[bytes] = []
        while not guest.over:
            lines += guest.lines(1.0)
        assert json.loads(lines[0])["booted"] == kernel.release and len(lines) == 1
        return guest


@pytest.mark.nightly("each instruction of a kernel that boots is emulated")
def test_a_hanging_guest_is_ended_and_its_events_kept(tmp_path: Path) -> None:
    programs = tools.find(print, tmp_path)
    guest = booted(FAULTS, GuestMachine("tcg", 1, 384, "tmpfs", 64, programs.version), programs, tmp_path)
    reason, console = guest.ending(None), "\n".join(guest.tail)
    assert reason.startswith("the guest stopped answering, or powered off | ") and "Out of memory: Killed" in reason
    assert guest.tail[-1] == "clocksource: watchdog 3" and guest.last_message() == ["the last that is said"]
    assert "No space left on device" in console and "tail ended with 137" in console


@pytest.mark.nightly("each instruction of a kernel that boots is emulated")
def test_a_kernel_that_panics_says_so(tmp_path: Path) -> None:
    programs = tools.find(print, tmp_path)
    panic = "#!/bin/sh\necho c > /proc/sysrq-trigger\n"
    guest = booted(panic, GuestMachine("tcg", 1, 512, "tmpfs", 64, programs.version), programs, tmp_path)
    assert guest.ending(None).startswith("the guest's kernel panicked | ")
    assert "Kernel panic - not syncing: sysrq triggered crash" in guest.ending(None)
