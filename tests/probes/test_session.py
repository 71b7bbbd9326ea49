"""Probes over small programs whose delays are known, and what becomes of a probe when something is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from programs import ENDBR, FORKER, PLANNER, PUSH, WAKERS, Compile

from probes import buckets, processes, session
from probes.errors import ProbeError
from probes.frames import Frame
from probes.session import ProbeSession, State, Target

pytestmark = pytest.mark.outside

S = 1_000_000_000
FUNCTIONS = (*PUSH, "-DSTART=", "-DDONE=")
SITES = (
    *ENDBR,
    '-DSTART=SITE("postgresql", "query__plan__start");',
    '-DDONE=SITE("postgresql", "query__plan__done");',
)


class Program:
    """A program that waits for a line, works, says done, and waits again."""

    def __init__(self, path: Path, *arguments: object) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [str(path), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def work(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def target(self) -> Target:
        return Target(self.process.pid, self.path, 16)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def frames_for(
    running: ProbeSession, seconds: float, until: Callable[[list[Frame]], bool] = lambda _: False
) -> list[Frame]:
    """The frames of so many seconds, or until there are enough."""
    found: list[Frame] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until(found):
        found += running.poll()
        time.sleep(0.02)
    return found


def total(found: list[Frame], field: str, pid: int | None = None) -> int:
    return sum(
        record.get(field, 0) for frame in found for of, record in frame.records.items() if pid is None or of == pid
    )


def gone(pids: set[int], timeout_s: float = 10.0) -> bool:
    """Whether all of these processes end (or are left for someone to reap)."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if all(state(pid) in ("Z", "") for pid in pids):
            return True
        time.sleep(0.05)
    return False


def state(pid: int) -> str:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    return data[data.rindex(b")") + 2 :].split()[0].decode()


def bpftrace_of(running: ProbeSession) -> tuple[int, int]:
    """The pids of the helper and of the bpftrace that it started."""
    assert running._tracer is not None
    helper_pid = running._tracer.process.pid
    (child,) = processes.descendants(helper_pid, processes.parents()) - {helper_pid}
    return helper_pid, child


@pytest.fixture
def idle(compile_c: Compile, kernel: None) -> Iterator[Program]:
    """A program that can plan, and waits."""
    with Program(compile_c("server", PLANNER, *FUNCTIONS), 0, 10, 5) as program:
        yield program


@pytest.mark.parametrize("flags", [FUNCTIONS, SITES], ids=["function", "usdt"])
@pytest.mark.parametrize("asleep", [0, 1], ids=["spinning", "sleeping"])
def test_known_delays_fall_into_their_buckets(
    compile_c: Compile, bpftraces: tuple[Path, ...], flags: tuple[str, ...], asleep: int
) -> None:
    delays = {24: 200, 380: 100, 6000: 20}
    arguments = [value for pair in delays.items() for value in pair]
    with (
        Program(compile_c("server", PLANNER, *flags), asleep, *arguments) as program,
        ProbeSession(program.target(), "planner", bpftrace=bpftraces[-1]) as running,
    ):
        assert running.wait_baseline(), running.messages
        program.work()
        found = frames_for(running, 4, lambda seen: total(seen, "n") >= 320)
    assert total(found, "n") == 320 and not running.messages
    histogram = buckets.merge(of for frame in found for of in frame.histograms["plan_us"].values())
    assert sum(histogram.values()) == 320
    # Nothing can be shorter than it was; a few are longer, as the machine has other things to do.
    low = min(buckets.index(delay) for delay in delays)
    assert min(histogram) >= low
    if not asleep:
        for delay, count in delays.items():
            assert histogram[buckets.index(delay)] >= 0.7 * count, histogram
    for delay in delays:
        longer = sum(count for other, count in delays.items() if other >= delay)
        assert sum(count for bucket, count in histogram.items() if bucket >= buckets.index(delay)) >= longer
    true_us = sum(delay * count for delay, count in delays.items())
    assert total(found, "sum_us") >= true_us
    assert total(found, "n", program.process.pid) == 320


def test_frames_are_on_the_journals_clock_and_a_second_long(idle: Program, bpftraces: tuple[Path, ...]) -> None:
    with ProbeSession(idle.target(), "runq", bpftrace=bpftraces[-1]) as running:
        assert running.wait_baseline(), running.messages
        (frame,) = frames_for(running, 5, bool)
        assert abs(time.monotonic_ns() - frame.t_ns) < 500_000_000
        assert abs(frame.dt_ns - 1_000_000_000) < 50_000_000


def test_run_queue_wait_and_cpu_time_are_what_the_kernel_counts(
    compile_c: Compile, bpftraces: tuple[Path, ...]
) -> None:
    """Two spinners share one CPU: each waits half of the time."""
    cpu = min(os.sched_getaffinity(0))
    path = compile_c("server", PLANNER, *FUNCTIONS)
    with (
        Program(path, 0, 3_500_000, 1) as program,
        Program(path, 0, 4_000_000, 1) as hog,
        ProbeSession(program.target(), "sched", bpftrace=bpftraces[-1]) as running,
    ):
        pid = program.process.pid
        for one in (pid, hog.process.pid):
            os.sched_setaffinity(one, {cpu})
        assert running.wait_baseline(), running.messages
        for one in (hog, program):
            assert one.process.stdin is not None
            one.process.stdin.write("go\n")
            one.process.stdin.flush()
        begin = schedstat(pid)
        found = frames_for(running, 3.4)
        end = schedstat(pid)
    span_us = sum(frame.dt_ns for frame in found) / 1000
    assert 2 <= len(found) <= 4
    parts = {name: total(found, name, pid) for name in ("oncpu_us", "sum_us", "off_sleep_us", "off_disk_us")}
    parts["rest"] = total(found, "off_other_us", pid) + total(found, "off_stopped_us", pid)
    assert sum(parts.values()) == pytest.approx(span_us, rel=0.05)
    assert parts["sum_us"] > 0.2 * span_us
    seconds = (end[2] - begin[2]) / 1e9
    share_cpu, share_wait = (end[0] - begin[0]) / 1e9 / seconds, (end[1] - begin[1]) / 1e9 / seconds
    assert parts["oncpu_us"] / span_us == pytest.approx(share_cpu, abs=0.15)
    assert parts["sum_us"] / span_us == pytest.approx(share_wait, abs=0.15)
    waits = buckets.merge(of[pid] for frame in found for of in [frame.histograms["runq_us"]] if pid in of)
    assert max(waits) >= buckets.index(1000)
    low_us, high_us = (sum(buckets.bounds(bucket)[end] * count for bucket, count in waits.items()) for end in (0, 1))
    assert (
        0.9 * low_us <= parts["sum_us"] <= 1.1 * high_us + max(of["max_us"] for of in (f.records[pid] for f in found))
    )


def schedstat(pid: int) -> tuple[int, int, int]:
    cpu_ns, wait_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(cpu_ns), int(wait_ns), time.monotonic_ns()


def test_a_stopped_process_is_put_down_to_the_signal(idle: Program, bpftraces: tuple[Path, ...]) -> None:
    with ProbeSession(idle.target(), "sched", bpftrace=bpftraces[-1]) as running:
        assert running.wait_baseline(), running.messages
        os.kill(idle.process.pid, signal.SIGSTOP)
        found = frames_for(running, 6, lambda seen: len(seen) >= 3)
        os.kill(idle.process.pid, signal.SIGCONT)
    last = found[-1].records[idle.process.pid]
    assert last["off_stopped_us"] == pytest.approx(found[-1].dt_ns / 1000, rel=0.01)
    assert last.get("sum_us", 0) == 0


def test_only_children_of_a_launcher_that_come_later_are_clients(idle: Program, bpftraces: tuple[Path, ...]) -> None:
    target = Target(idle.process.pid, idle.path, 16, launchers=(os.getpid(),))
    with (
        subprocess.Popen(["sleep", "60"]) as before,
        ProbeSession(target, "runq", bpftrace=bpftraces[-1]) as running,
    ):
        assert running.wait_baseline(), running.messages
        after = subprocess.Popen(["sleep", "0.3"])
        after.wait()
        (frame,) = frames_for(running, 5, bool)
        before.kill()
    assert frame.groups[after.pid] == 2
    assert frame.groups[idle.process.pid] == 1
    assert before.pid not in frame.groups and os.getpid() not in frame.groups


@pytest.mark.parametrize("probe", ["planner", "sched"])
def test_of_thousands_of_short_processes_none_is_missed_and_those_long_gone_are_forgotten(
    compile_c: Compile, bpftraces: tuple[Path, ...], probe: str
) -> None:
    children, rounds = 1000, 5
    path = compile_c("server", FORKER, *FUNCTIONS)
    for program in bpftraces:
        with (
            Program(path, children, 100) as forker,
            ProbeSession(forker.target(), probe, bpftrace=program) as running,
        ):
            assert running.wait_baseline(), running.messages
            kept, keys, found = [], [], list[Frame]()
            for _ in range(rounds):
                forker.work()
                now_ns = time.monotonic_ns()
                found += frames_for(running, 9, lambda seen: bool(seen) and seen[-1].t_ns > now_ns + 2_500_000_000)  # noqa: B023
                kept.append(running._reader.kept)
                keys.append(found[-1].quality.map_keys_pct)
            # A loaded machine may miss a second; nothing is lost by it.
            assert not [text for text in running.messages if "s missed" not in text] and not running.restarts
        assert sum(len(frame.histograms) > 0 for frame in found) >= rounds
        if probe == "planner":
            assert total(found, "n") == rounds * children
            # A few may fall between print and emptying; none is counted twice.
            histogram = buckets.merge(of for frame in found for of in frame.histograms.get("plan_us", {}).values())
            assert 0.98 * rounds * children <= sum(histogram.values()) <= rounds * children
            assert any(frame.quality.emptied for frame in found)
        # Each that begins or ends has one forgotten that ended on the same CPU: of no more than two rounds something is
        # left, where a round's processes ended on another CPU than the next one's.
        assert max(kept) <= 2.3 * kept[0], kept
        assert max(keys) <= 2.3 * keys[0] + 1, keys


def test_what_is_printed_may_change_all_the_while(compile_c: Compile, bpftraces: tuple[Path, ...]) -> None:
    """bpftrace 0.17 ends when a key goes while its map is printed; the maps of beginnings change with each switch."""
    for program in bpftraces:
        with (
            Program(compile_c("server", WAKERS)) as wakers,
            ProbeSession(wakers.target(), "sched", bpftrace=program) as running,
        ):
            assert running.wait_baseline(), running.messages
            wakers.work()
            found = frames_for(running, 12, lambda _: running.restarts > 0)
            assert total(found, "slept") > 100_000
            assert not [text for text in running.messages if "s missed" not in text] and not running.restarts


def test_a_restart_goes_without_clients_that_have_gone(idle: Program, bpftraces: tuple[Path, ...]) -> None:
    with subprocess.Popen(["sleep", "60"]) as there, subprocess.Popen(["sleep", "60"]) as leaving:
        target = replace(idle.target(), clients=(there.pid, leaving.pid))
        with ProbeSession(target, "planner", bpftrace=bpftraces[-1]) as running:
            assert running.wait_baseline(), running.messages
            leaving.kill()
            leaving.wait()
            os.kill(bpftrace_of(running)[1], signal.SIGKILL)
            frames_for(running, 10, lambda _: bool(running.gaps))
            assert running.wait_baseline(), running.messages
            assert running.state is State.RUNNING
            (frame,) = frames_for(running, 5, bool)
        there.kill()
    assert frame.groups[there.pid] == 2


def test_a_client_that_leaves_while_the_probe_starts_does_not_keep_it_from_starting(
    idle: Program, bpftraces: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone_pid = subprocess.Popen(["true"])
    gone_pid.wait()
    looks = iter([True])
    monkeypatch.setattr(session, "living", lambda pids: pids if next(looks, False) else ())
    with ProbeSession(replace(idle.target(), clients=(gone_pid.pid,)), "planner", bpftrace=bpftraces[-1]) as running:
        assert running.wait_baseline(), running.messages
        assert running.restarts == 0


def test_a_killed_bpftrace_is_started_again_once_and_the_gap_is_kept(
    idle: Program, bpftraces: tuple[Path, ...]
) -> None:
    with ProbeSession(idle.target(), "planner", bpftrace=bpftraces[-1]) as running:
        assert running.wait_baseline(), running.messages
        os.kill(bpftrace_of(running)[1], signal.SIGKILL)
        frames_for(running, 10, lambda _: bool(running.gaps))
        (gap,) = running.gaps
        assert gap.ended_ns is not None and 0 < gap.ended_ns - gap.began_ns < 5_000_000_000
        assert running.wait_baseline(), running.messages
        idle.work()
        assert total(frames_for(running, 3, lambda seen: total(seen, "n") >= 5), "n") == 5
        os.kill(bpftrace_of(running)[1], signal.SIGKILL)
        frames_for(running, 10, lambda _: running.state is State.FAILED)
        assert running.state is State.FAILED and running.restarts == 1
        assert running.gaps[-1].ended_ns is None
        assert any("planner is off" in message for message in running.messages)


def test_a_hung_bpftrace_is_killed_and_replaced_without_a_wait(
    idle: Program, bpftraces: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HUNG_S", 2.0)
    with ProbeSession(idle.target(), "runq", bpftrace=bpftraces[-1]) as running:
        assert running.wait_baseline(), running.messages
        hung = set(bpftrace_of(running))
        os.kill(bpftrace_of(running)[1], signal.SIGSTOP)
        longest, end = 0.0, time.monotonic() + 20
        while not running.gaps and time.monotonic() < end:
            began = time.monotonic()
            running.poll()
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.02)
        assert running.gaps and running.gaps[0].reason == "bpftrace gave no sign of life"
        assert longest < 0.5
        assert gone(hung)
        assert running.wait_baseline()


def test_a_starved_bpftrace_is_waited_for_and_its_late_frame_is_as_long_as_it_took(
    idle: Program, bpftraces: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held by a signal, and the kernel's account of it is that of one that waits for a CPU: see the next test."""
    monkeypatch.setattr(session, "HUNG_S", 2.0)
    looks = (processes.CpuUse(second * S, 0, 0, True) for second in range(100))
    monkeypatch.setattr(processes, "cpu_use", lambda _: next(looks))
    for program in bpftraces:
        with (
            Program(idle.path, 0, 10, 5) as planner,
            ProbeSession(planner.target(), "planner", bpftrace=program) as running,
        ):
            assert running.wait_baseline(), running.messages
            _, pid = bpftrace_of(running)
            os.kill(pid, signal.SIGSTOP)
            planner.work()
            found = frames_for(running, 4.5)
            assert not found and not running.restarts and not running.gaps
            os.kill(pid, signal.SIGCONT)
            found = frames_for(running, 10, lambda seen: len(seen) >= 4)
            assert not running.restarts and bpftrace_of(running)[1] == pid
        (gap,) = running.gaps
        assert gap.reason.startswith("bpftrace waited for a CPU") and gap.ended_ns is not None
        # It printed of the first tick that it came to late what was counted until then, and was given no other one.
        assert found[0].records[planner.process.pid]["n"] == 5
        assert found[0].dt_ns > 3 * S and found[0].quality.late_ms > 2000
        assert all(not frame.quality.late_ms and frame.dt_ns < 2.5 * S for frame in found[1:])
        for one, other in pairwise(found):
            assert other.t_ns - other.dt_ns == pytest.approx(one.t_ns, abs=100_000)


def test_who_is_kept_from_running_is_told_from_who_sleeps_is_stopped_or_works() -> None:
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

        asleep, stopped, light = started("sleep", "60"), started(*spin), started(*spin)
        time.sleep(0.3)
        os.kill(stopped, signal.SIGSTOP)
        os.sched_setscheduler(light, os.SCHED_IDLE, os.sched_param(0))
        heavy = [started(*spin) for _ in range(2)]
        time.sleep(0.3)
        assert [starved(pid) for pid in (asleep, stopped, light)] == [False, False, True]
        for pid in heavy:
            os.kill(pid, signal.SIGSTOP)
        os.sched_setscheduler(light, os.SCHED_FIFO, os.sched_param(1))  # nobody is in its way for this second
        assert not starved(light)


CONTROLLER = """
import sys, time
from pathlib import Path
from probes.session import ProbeSession, Target
running = ProbeSession(Target(int(sys.argv[1]), Path(sys.argv[2]), 16), sys.argv[4], bpftrace=Path(sys.argv[3]))
running.start()
assert running.wait_ready(), running.messages
print(running._tracer.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("victim", ["controller", "helper"])
def test_no_bpftrace_outlives_its_controller(idle: Program, bpftraces: tuple[Path, ...], victim: str) -> None:
    for program in bpftraces:
        command = [sys.executable, "-c", CONTROLLER, str(idle.process.pid), str(idle.path), str(program), "planner"]
        root = str(Path(session.__file__).parents[1])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}) as one:
            assert one.stdout is not None
            helper_pid = int(one.stdout.readline())
            watched = processes.descendants(helper_pid, processes.parents())
            assert len(watched) == 2
            os.kill(one.pid if victim == "controller" else helper_pid, signal.SIGKILL)
            assert gone(watched)
            one.kill()


def test_stopping_leaves_nothing_behind(idle: Program, bpftraces: tuple[Path, ...]) -> None:
    with ProbeSession(idle.target(), "planner", bpftrace=bpftraces[-1]) as running:
        assert running.wait_ready(), running.messages
        left = set(bpftrace_of(running))
    assert running.state is State.ENDED
    assert all(state(pid) == "" for pid in left)


def test_what_cannot_be_had_is_one_line_before_anything_is_started(
    compile_c: Compile, bpftraces: tuple[Path, ...]
) -> None:
    with Program(compile_c("server", "#include <stdio.h>\nint main(void) { getchar(); return 0; }"), 0) as program:
        running = ProbeSession(program.target(), "planner", bpftrace=bpftraces[-1])
        with pytest.raises(ProbeError, match="no attach point for 'plan_start'"):
            running.start()
        assert running.stop() == ()


def test_a_refusal_of_the_helper_is_told(idle: Program, bpftraces: tuple[Path, ...]) -> None:
    other = Target(os.getpid(), idle.path, 16)
    with ProbeSession(other, "planner", bpftrace=bpftraces[-1]) as running:
        assert not running.wait_ready()
        assert running.state is State.FAILED
        assert any("was started from another file" in message for message in running.messages)


def test_a_probe_that_counts_nothing_is_silent(idle: Program, bpftraces: tuple[Path, ...]) -> None:
    with ProbeSession(idle.target(), "planner", bpftrace=bpftraces[-1]) as running:
        assert running.wait_baseline() and not running.silent
        frames_for(running, 6, lambda seen: len(seen) >= 4)
        assert running.silent
        idle.work()
        frames_for(running, 3, lambda seen: total(seen, "n") > 0)
        assert not running.silent


def test_a_folder_keeps_the_script_the_origin_and_the_stream(
    idle: Program, bpftraces: tuple[Path, ...], tmp_path: Path
) -> None:
    with ProbeSession(idle.target(), "planner", bpftrace=bpftraces[-1], folder=tmp_path / "probes") as running:
        assert running.wait_baseline(), running.messages
    kept = {path.name for path in (tmp_path / "probes").iterdir()}
    assert kept == {"planner.bt", "planner.json", "planner.raw.jsonl"}
    assert '"attach": "function"' in (tmp_path / "probes" / "planner.json").read_text()


def test_root_who_came_by_sudo_watches_servers_of_others(
    idle: Program, bpftraces: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo bench run`: the servers belong to another user again."""
    monkeypatch.setenv("SUDO_UID", "65534")
    with ProbeSession(idle.target(), "runq", bpftrace=bpftraces[-1]) as running:
        assert running.wait_ready(), running.messages


def test_a_folder_bounds_the_stream_over_all_attachments(
    idle: Program, bpftraces: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RAW_CAP_BYTES", 1)
    sizes = []
    for _ in range(2):
        with ProbeSession(idle.target(), "planner", bpftrace=bpftraces[-1], folder=tmp_path) as running:
            assert running.wait_baseline(), running.messages
        sizes.append((tmp_path / "planner.raw.jsonl").stat().st_size)
    assert sizes[0] == sizes[1] > 0


def test_a_wrapper_named_in_the_environment_starts_the_helper(
    idle: Program, bpftraces: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "wrapper"
    used = tmp_path / "used"
    wrapper.write_text(f'#!/bin/sh\n: > {used}\nexec {sys.executable} -I {session.helper.__file__} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PGBED_PROBE_HELPER", str(wrapper))
    with ProbeSession(idle.target(), "runq", bpftrace=bpftraces[-1]) as running:
        assert running.wait_ready(), running.messages
    assert used.exists()
