"""Probes over small programs whose delays are known: counts, of whom, and when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from probes import buckets, processes
from probes.frames import Frame
from probes.session import ProbeSession, Target
from tests.support.observing import (
    FUNCTIONS,
    SITES,
    Helper,
    Program,
    frames_to_now,
    frames_until,
    halt,
    total,
)
from tests.support.programs import FORKER, PLANNER, RACERS, WAKERS, Compile

pytestmark = pytest.mark.outside


@pytest.mark.parametrize("flags", [FUNCTIONS, SITES], ids=["function", "usdt"])
@pytest.mark.parametrize("asleep", [0, 1], ids=["spinning", "sleeping"])
def test_known_delays_fall_into_their_buckets(
    compile_c: Compile, helpers: tuple[Helper, ...], flags: tuple[str, ...], asleep: int
) -> None:
    delays = {24: 200, 380: 100, 6000: 20}
    arguments = [value for pair in delays.items() for value in pair]
    with (
        Program(compile_c("server", PLANNER, *flags), asleep, *arguments) as program,
        ProbeSession(program.target(), "planner", command=helpers[-1]) as running,
    ):
        assert running.wait_baseline(), running.messages
        program.work()
        received = frames_until(running, lambda seen: total(seen, "n") >= 320)
    # A loaded machine may miss a second; nothing is lost by it.
    assert total(received, "n") == 320 and not [text for text in running.messages if "s missed" not in text]
    histogram = buckets.merge(of for frame in received for of in frame.histograms["plan_us"].values())
    assert sum(histogram.values()) == 320
    # Nothing can be shorter than it was; a few are longer, as the machine has other things to do.
    low = min(buckets.index(delay) for delay in delays)
    assert min(histogram) >= low
    if not asleep:
        for delay in (24, 380):  # much shorter than the time after which another process may have the CPU
            assert histogram[buckets.index(delay)] >= 0.7 * delays[delay], histogram
    for delay in delays:
        longer = sum(count for other, count in delays.items() if other >= delay)
        assert sum(count for bucket, count in histogram.items() if bucket >= buckets.index(delay)) >= longer
    true_us = sum(delay * count for delay, count in delays.items())
    assert total(received, "sum_us") >= true_us
    assert total(received, "n", program.process.pid) == 320


def test_frames_are_on_the_journals_clock_and_a_second_long(idle: Program, helpers: tuple[Helper, ...]) -> None:
    def in_time(seen: list[Frame]) -> bool:
        """Whether bpftrace came to the last two when it should."""
        return len(seen) > 1 and not any(one.quality.late_ms or one.quality.missed_frames for one in seen[-2:])

    with ProbeSession(idle.target(), "runq", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages
        began_ns = time.monotonic_ns()
        *_, frame = frames_until(running, in_time)
        assert began_ns < frame.t_ns < time.monotonic_ns()
        assert abs(frame.dt_ns - 1_000_000_000) < 50_000_000


def test_run_queue_wait_and_cpu_time_are_what_the_kernel_counts(
    compile_c: Compile, helpers: tuple[Helper, ...]
) -> None:
    """Two spinners share one CPU: each waits half of the time."""
    cpus = os.sched_getaffinity(0)
    path = compile_c("server", PLANNER, *FUNCTIONS)
    os.sched_setaffinity(0, {min(cpus)})  # from their start: the sleep of one that is moved may be counted as wait
    try:
        program, hog = (Program(path, 0, 600_000_000, 1) for _ in range(2))
    finally:
        os.sched_setaffinity(0, cpus)
    with program, hog, ProbeSession(program.target(), "sched", command=helpers[-1]) as running:
        pid = program.process.pid
        assert running.wait_baseline(), running.messages
        begin = schedstat(pid)
        for spinner in (hog, program):
            assert spinner.process.stdin is not None
            spinner.process.stdin.write("go\n")
            spinner.process.stdin.flush()
        received = frames_until(running, lambda seen: len(seen) >= 3)
        halt([pid])
        end = schedstat(pid)
        received += frames_to_now(running)
    span_us = sum(frame.dt_ns for frame in received) / 1000
    parts = {name: total(received, name, pid) for name in ("oncpu_us", "sum_us", "off_sleep_us", "off_disk_us")}
    parts["rest"] = total(received, "off_other_us", pid) + total(received, "off_stopped_us", pid)
    assert sum(parts.values()) == pytest.approx(span_us, rel=0.05)
    assert parts["sum_us"] > 0.2 * (parts["oncpu_us"] + parts["sum_us"])
    assert parts["oncpu_us"] == pytest.approx((end[0] - begin[0]) / 1000, abs=0.05 * span_us)
    assert parts["sum_us"] == pytest.approx((end[1] - begin[1]) / 1000, abs=0.05 * span_us)
    waits = buckets.merge(of[pid] for frame in received for of in [frame.histograms.get("runq_us", {})] if pid in of)
    assert max(waits) >= buckets.index(1000)
    low_us, high_us = (sum(buckets.bounds(bucket)[end] * count for bucket, count in waits.items()) for end in (0, 1))
    longest_us = max(frame.records[pid].get("max_us", 0) for frame in received)
    assert 0.9 * low_us <= parts["sum_us"] <= 1.1 * high_us + longest_us


def test_whoever_is_asleep_or_running_waits_for_no_cpu(
    compile_c: Compile, helpers: tuple[Helper, ...], tmp_path: Path
) -> None:
    """A wake-up may come while a process is just falling asleep: it stays on its CPU, and sleeps the next time."""
    with (
        Program(compile_c("server", RACERS), 4) as racers,
        ProbeSession(racers.target(), "sched", command=helpers[-1], folder=tmp_path) as running,
    ):
        assert running.wait_baseline(), running.messages
        racers.work()
        # Not the parent, which sleeps all the time: to Linux all of that is waiting if it is moved to another CPU as it
        # falls asleep (`possible_wait_ns`).
        pids = processes.descendants(racers.process.pid, processes.parents()) - {racers.process.pid}
        received = frames_until(running, lambda seen: len(seen) >= 5)
        halt(pids)
        end = {pid: schedstat(pid) for pid in pids}
        received += frames_to_now(running)
    tick_ns, maps = 0, dict[str, dict[str, int]]()
    for message in map(json.loads, filter(str.strip, (tmp_path / "sched.raw.jsonl").read_text().splitlines())):
        if message["type"] == "map":
            maps |= message["data"]
        elif str(message.get("data")).startswith("tick "):
            tick_ns, maps = int(message["data"].split()[1]), {}
        elif str(message.get("data")).startswith("tock "):
            runnable, off, on = (
                {tid for tid, ns in maps.get(name, {}).items() if 0 < ns <= tick_ns}
                for name in ("@runnable", "@off", "@on")
            )
            assert not runnable & (off | on)
    span_us = sum(frame.dt_ns for frame in received) / 1000
    for at, field in ((0, "oncpu_us"), (1, "sum_us")):
        for pid in pids:
            kernel_us = end[pid][at] / 1000
            assert total(received, field, pid) == pytest.approx(kernel_us, abs=0.05 * span_us), field


def schedstat(pid: int) -> tuple[int, int]:
    cpu_ns, wait_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(cpu_ns), int(wait_ns)


def test_a_stopped_process_is_put_down_to_the_signal(idle: Program, helpers: tuple[Helper, ...]) -> None:
    with ProbeSession(idle.target(), "sched", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages
        halt([idle.process.pid])
        frames_to_now(running)
        received = frames_until(running, bool)
        os.kill(idle.process.pid, signal.SIGCONT)
    last = received[-1].records[idle.process.pid]
    assert last["off_stopped_us"] == pytest.approx(received[-1].dt_ns / 1000, rel=0.01)
    assert last.get("sum_us", 0) == 0


def test_only_children_of_a_launcher_that_come_later_are_clients(idle: Program, helpers: tuple[Helper, ...]) -> None:
    target = Target(idle.process.pid, idle.path, 16, launchers=(os.getpid(),))
    with subprocess.Popen(["sleep", "60"]) as before, ProbeSession(target, "runq", command=helpers[-1]) as running:
        assert running.wait_baseline(), running.messages
        after = subprocess.Popen(["sleep", "0.3"])
        after.wait()
        *_, frame = frames_until(running, lambda seen: bool(seen) and after.pid in seen[-1].groups)
        before.kill()
    assert frame.groups[after.pid] == 2
    assert frame.groups[idle.process.pid] == 1
    assert before.pid not in frame.groups and os.getpid() not in frame.groups


@pytest.mark.parametrize("probe", ["planner", "sched"])
def test_no_short_process_is_missed_and_old_ones_are_forgotten(
    compile_c: Compile, helpers: tuple[Helper, ...], probe: str
) -> None:
    children, rounds = 1000, 3  # had none been forgotten, there would be three times as many as after one
    path = compile_c("server", FORKER, *FUNCTIONS)
    for command in helpers:
        with Program(path, children, 100) as forker, ProbeSession(forker.target(), probe, command=command) as running:
            assert running.wait_baseline(), running.messages
            kept, keys, received = [], [], list[Frame]()
            for _ in range(rounds):
                forker.work()
                until_ns = time.monotonic_ns() + 2_500_000_000
                received += frames_until(running, lambda seen: bool(seen) and seen[-1].t_ns > until_ns)  # noqa: B023
                kept.append(len(running.reader.last))
                keys.append(received[-1].quality.map_keys_pct)
            # A loaded machine may miss a second; nothing is lost by it.
            assert not [text for text in running.messages if "s missed" not in text] and not running.restarts
        assert sum(len(frame.histograms) > 0 for frame in received) >= rounds
        if probe == "planner":
            assert total(received, "n") == rounds * children
            # Some may fall between print and emptying, more of them if bpftrace waits for a CPU; none is counted twice.
            histogram = buckets.merge(of for frame in received for of in frame.histograms.get("plan_us", {}).values())
            assert 0.9 * rounds * children <= sum(histogram.values()) <= rounds * children
            assert any(frame.quality.emptied for frame in received)
        # Each that begins or ends has one forgotten that ended on the same CPU: of no more than two rounds something is
        # left, where a round's processes ended on another CPU than the next one's.
        assert max(kept) <= 2.3 * kept[0], kept
        assert max(keys) <= 2.3 * keys[0] + 1, keys


def test_what_is_printed_may_change_all_the_while(compile_c: Compile, helpers: tuple[Helper, ...]) -> None:
    """bpftrace 0.17 ends when a key goes while its map is printed; the maps of beginnings change with each switch."""
    for command in helpers:
        with (
            Program(compile_c("server", WAKERS)) as wakers,
            ProbeSession(wakers.target(), "sched", command=command) as running,
        ):
            assert running.wait_baseline(), running.messages
            wakers.work()
            frames_until(running, lambda frames: running.restarts > 0 or total(frames, "slept") > 30_000)
            assert not [text for text in running.messages if "s missed" not in text] and not running.restarts
