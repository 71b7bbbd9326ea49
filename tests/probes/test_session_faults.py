"""The fate of a probe when something is killed, hangs, is starved, or has gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from probes import helper, processes, session, snapshot
from probes.session import ProbeSession, ProbeState
from tests.support.benchcall import wait_for
from tests.support.observing import (
    PATIENCE_S,
    Helper,
    Program,
    S,
    bpftrace_of,
    frames_for,
    frames_until,
    gone,
    halt,
    total,
)

pytestmark = pytest.mark.outside


def test_a_restart_goes_without_clients_that_have_gone(idle: Program, helpers: tuple[Helper, ...]) -> None:
    with subprocess.Popen(["sleep", "60"]) as there, subprocess.Popen(["sleep", "60"]) as leaving:
        target = replace(idle.target(), clients=(there.pid, leaving.pid))
        with ProbeSession(target, "planner", command=helpers[-1]) as running:
            assert running.wait_baseline(), running.messages
            leaving.kill()
            leaving.wait()
            os.kill(bpftrace_of(running)[1], signal.SIGKILL)
            frames_until(running, lambda _: bool(running.gaps))
            assert running.wait_baseline(), running.messages
            assert running.state is ProbeState.RUNNING
            frame = frames_until(running, bool)[0]
        there.kill()
    assert frame.groups[there.pid] == 2


def test_a_client_that_leaves_does_not_keep_a_probe_off(
    idle: Program, helpers: tuple[Helper, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone_pid = subprocess.Popen(["true"])
    gone_pid.wait()
    looks = iter([True])
    monkeypatch.setattr(session, "living", lambda pids: pids if next(looks, False) else ())
    with ProbeSession(replace(idle.target(), clients=(gone_pid.pid,)), "planner", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages
        assert running.restarts == 0


def test_a_killed_bpftrace_restarts_once_and_leaves_a_gap(idle: Program, helpers: tuple[Helper, ...]) -> None:
    with ProbeSession(idle.target(), "planner", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages
        last = frames_until(running, bool)[-1]
        os.kill(bpftrace_of(running)[1], signal.SIGKILL)
        killed_ns = time.monotonic_ns()
        seen = frames_until(running, lambda _: bool(running.gaps))
        (gap,) = running.gaps
        assert gap.began_ns == [last, *seen][-1].t_ns < killed_ns
        assert gap.ended_ns is not None and killed_ns < gap.ended_ns <= time.monotonic_ns()
        assert running.wait_baseline(), running.messages
        idle.work()
        assert total(frames_until(running, lambda seen: total(seen, "n") >= 5), "n") == 5
        os.kill(bpftrace_of(running)[1], signal.SIGKILL)
        frames_until(running, lambda _: running.state is ProbeState.FAILED)
        assert running.restarts == 1
        assert running.gaps[-1].ended_ns is None
        assert any("planner has stopped" in message for message in running.messages)


def test_a_hung_bpftrace_is_killed_and_replaced_without_a_wait(
    idle: Program, helpers: tuple[Helper, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HUNG_S", 2.0)
    with ProbeSession(idle.target(), "runq", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages
        hung = set(bpftrace_of(running))
        os.kill(bpftrace_of(running)[1], signal.SIGSTOP)
        longest, end = 0.0, time.monotonic() + PATIENCE_S
        while not running.gaps and time.monotonic() < end:
            began = time.monotonic()
            running.poll()
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.02)
        assert running.gaps and running.gaps[0].reason == "bpftrace printed nothing and was not waiting for a CPU"
        assert longest < helper.GRACE_S, "the helper waits as long before it kills one that hangs"
        assert gone(hung)
        assert running.wait_baseline()


def test_a_starved_bpftraces_late_frame_has_its_length(
    idle: Program, helpers: tuple[Helper, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held by a signal, and the kernel's account of it is that of one that waits for a CPU: see the next test."""
    monkeypatch.setattr(session, "HUNG_S", 2.0)
    looks = (processes.CpuUse(second * S, 0, 0, True) for second in range(100))
    monkeypatch.setattr(processes, "cpu_use", lambda _: next(looks))
    for command in helpers:
        with (
            Program(idle.path, 0, 10, 5) as planner,
            ProbeSession(planner.target(), "planner", command=command) as running,
        ):
            assert running.wait_baseline(), running.messages
            _, pid = bpftrace_of(running)
            frames_until(running, bool)  # it does not print for the rest of this second
            halt([pid])
            running.poll()
            planner.work()
            seen_frames = frames_for(running, 4.5)
            assert not seen_frames and not running.restarts and not running.gaps
            os.kill(pid, signal.SIGCONT)
            seen_frames = frames_until(running, lambda seen: len(seen) >= 4)
            assert not running.restarts and bpftrace_of(running)[1] == pid
        (gap,) = running.gaps
        assert gap.reason.startswith("bpftrace was waiting for a CPU") and gap.ended_ns is not None
        # For the first late tick it printed the counts until then, and was given no other one.
        assert seen_frames[0].records[planner.process.pid]["n"] == 5
        assert seen_frames[0].dt_ns > 3 * S and seen_frames[0].quality.late_ms > 2000
        assert all(frame.quality.late_ms < 1000 for frame in seen_frames[1:])
        for one, other in pairwise(seen_frames):
            assert other.t_ns - other.dt_ns == pytest.approx(one.t_ns, abs=100_000)


def test_run_queue_waits_differ_from_sleep_stop_and_work() -> None:
    """Two spinners of unlike weight share a CPU, where the lighter one hardly runs."""
    cpu = max(os.sched_getaffinity(0))
    spin = [sys.executable, "-c", "import os\nwhile os.getppid() > 1: pass"]
    with ExitStack() as stack:

        def started(*command: str) -> int:
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {cpu})
            return process.pid

        def starved(pid: int) -> bool:
            before = processes.cpu_use(pid)
            time.sleep(1.0)
            return processes.cpu_use(pid).starved(before)

        asleep, stopped, light = started("sleep", "600"), started(*spin), started(*spin)
        wait_for(lambda: "nanosleep" in snapshot.take(asleep).syscall, "it to sleep")
        halt([stopped])
        os.sched_setscheduler(light, os.SCHED_IDLE, os.sched_param(0))
        heavy = [started(*spin) for _ in range(2)]
        assert [starved(pid) for pid in (asleep, stopped, light)] == [False, False, True]
        halt(heavy)
        os.sched_setscheduler(light, os.SCHED_FIFO, os.sched_param(1))  # nobody is in its way for this second
        assert not starved(light)


CONTROLLER = """
import sys, time
from pathlib import Path
from probes.session import ProbeSession, Target
running = ProbeSession(Target(int(sys.argv[1]), Path(sys.argv[2]), 16), sys.argv[3], command=tuple(sys.argv[4:]))
running.start()
assert running.wait_baseline(), running.messages
print(running.tracer.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("victim", ["controller", "helper"])
def test_no_bpftrace_outlives_its_controller(idle: Program, helpers: tuple[Helper, ...], victim: str) -> None:
    for command in helpers:
        controller = [sys.executable, "-c", CONTROLLER, str(idle.process.pid), str(idle.path), "planner", *command]
        root = str(Path(session.__file__).parents[1])
        with subprocess.Popen(
            controller, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}
        ) as one:
            assert one.stdout is not None
            helper_pid = int(one.stdout.readline())
            watched = processes.descendants(helper_pid, processes.parents())
            assert len(watched) == 2
            os.kill(one.pid if victim == "controller" else helper_pid, signal.SIGKILL)
            assert gone(watched)
            one.kill()
