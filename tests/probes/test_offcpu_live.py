"""Waits that were planted in real backends: each is seen in the right kind, as long as it was, in the right code.

How long it was is measured beside it, from a moment before to one after, since a busy machine makes every wait longer.
Stacks are a part of the counts: those of waits that end between print and clear are lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import psycopg
import pytest

from engine.core.model import Build, Config
from engine.postgres.server import Server
from probes import folding, snapshot
from probes.frames import Frame
from probes.session import ProbeSession, Target
from probes.table import WAITS
from tests.support.benchcall import wait_for
from tests.support.observing import Helper

pytestmark = pytest.mark.outside

Watched = Callable[[], dict[str, list[Frame]]]
PATIENCE_S = 60.0
NEAR_S = 0.02
LOCKS = 5
SLEEPS = "select count(pg_sleep(0.05)) from generate_series(1, 40)"
BUSY = "select count(*) from generate_series(1, 3000000) as a(x) where x % 7 = 3"
HOG = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile os.getppid() == int(sys.argv[2]): pass"


@pytest.fixture(scope="module")
def running(build: Callable[[int], Build], small_config: Callable[[Build], Config]) -> Iterator[Server]:
    """A server that waits for a disk: its cluster is not in memory."""
    with TemporaryDirectory(prefix="pgbed-disk-") as folder:
        Path(folder).chmod(0o755)
        with Server(build(16), small_config(build(16)), Path(folder)) as one:
            one.create_database()
            yield one


@pytest.fixture(scope="module")
def watched(running: Server, helpers: tuple[Helper, ...]) -> Iterator[Watched]:
    """Counts of `offcpu` and `sched` since the last call."""
    target = Target(running.pid, running.build.bin / "postgres", running.build.major, clients=(os.getpid(),))
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(ProbeSession(target, probe, command=helpers[0])) for probe in ("offcpu", "sched")
        ]
        for one in sessions:
            assert one.wait_baseline(), one.messages

        def until_now() -> dict[str, list[Frame]]:
            now_ns, end_s = time.monotonic_ns(), time.monotonic() + PATIENCE_S
            by_probe: dict[str, list[Frame]] = {}
            for one in sessions:
                frames = by_probe[one.probe.id] = []
                while not (frames and frames[-1].t_ns > now_ns):
                    assert time.monotonic() < end_s, one.messages
                    frames += one.poll()
                    time.sleep(0.02)
            return by_probe

        yield until_now


@pytest.fixture
def connection(running: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(running.dsn(), autocommit=True) as one:
        yield one


def seconds(frames: list[Frame], field: str, pid: int) -> float:
    return sum(frame.records.get(pid, {}).get(field, 0) for frame in frames) / 1e6


def in_stacks(frames: list[Frame], kind: str, pid: int) -> float:
    return sum(one.count for frame in frames for one in frame.stacks if (one.kind, one.pid) == (kind, pid)) / 1e6


def folded(running: Server, frames: list[Frame], pid: int) -> dict[str, int]:
    known = folding.space(Path(f"/proc/{running.pid}/maps").read_text(), complete=False)
    return folding.fold([one for frame in frames for one in frame.stacks if one.pid == pid], str, lambda _: known)


def asleep_for(monitor: psycopg.Connection, pid: int, event: str) -> bool:
    """Whether a backend sleeps, for this reason."""
    row = monitor.execute("select wait_event from pg_stat_activity where pid = %s", (pid,)).fetchone()
    return row == (event,) and snapshot.take(pid).state == "S"


def test_a_lock_wait_is_asleep_and_a_client_wait_the_clients(
    running: Server, watched: Watched, connection: psycopg.Connection
) -> None:
    pid, least = connection.info.backend_pid, 0.0
    with psycopg.connect(running.dsn(), autocommit=True) as holder:
        connection.execute("set deadlock_timeout = 60000")  # its timer would end a wait for the client, too
        watched()
        began = time.monotonic()
        for _ in range(LOCKS):
            holder.execute("select pg_advisory_lock(7)")
            waiting = Thread(target=connection.execute, args=("select pg_advisory_lock(7)",))
            waiting.start()
            wait_for(lambda: asleep_for(holder, pid, "advisory"), "the wait for the lock")
            seen = time.monotonic()
            time.sleep(0.2)
            least += time.monotonic() - seen
            holder.execute("select pg_advisory_unlock(7)")
            waiting.join()
            connection.execute("select pg_advisory_unlock(7)")
        waited = time.monotonic() - began
        idle = time.monotonic()
        time.sleep(0.6)  # its client has nothing for it
        idle = time.monotonic() - idle
        connection.execute("select 1")
        frames = watched()["offcpu"]
    asleep = seconds(frames, "asleep_us", pid)
    assert least - NEAR_S <= asleep <= waited + NEAR_S
    assert 0.5 * least < in_stacks(frames, "asleep", pid) <= asleep + NEAR_S
    assert seconds(frames, "client_us", pid) >= idle - NEAR_S
    lines = folded(running, frames, pid)
    assert max(lines, key=lambda line: lines[line]).startswith(f"{pid};[asleep];")
    assert any("epoll" in line for line in lines)


def test_a_wait_for_storage_is_disk(watched: Watched, connection: psycopg.Connection) -> None:
    """`offcpu` ends a wait where its end is begun, `sched` where the process can run: the rest waits for a CPU.

    An interrupt within a probe is one that the kernel shows to none: a wait or two may be missing in either.
    """
    took_s = []
    connection.execute("set synchronous_commit = on")
    connection.execute("create table if not exists waits (a text)")
    watched()
    for _ in range(40):
        began = time.monotonic()
        connection.execute("insert into waits select repeat('x', 2000) from generate_series(1, 100)")
        took_s.append(time.monotonic() - began)
        time.sleep(0.02)  # so that few of them fall between print and clear
    pid, by_probe = connection.info.backend_pid, watched()
    disk, woken = (seconds(by_probe["sched"], field, pid) for field in ("off_disk_us", "runq_us"))
    seen, ready = (seconds(by_probe["offcpu"], field, pid) for field in ("disk_us", "runq_us"))
    missed = 0.005 + sum(sorted(took_s)[-2:])
    assert disk > 0 and 0 < seen <= sum(took_s)
    assert 0.9 * disk - missed - ready <= seen <= 1.1 * disk + missed + woken
    assert 0.5 * seen - missed <= in_stacks(by_probe["offcpu"], "disk", pid) <= seen + NEAR_S


def test_a_backend_beside_a_hog_waits_for_a_cpu(watched: Watched, connection: psycopg.Connection) -> None:
    pid, cpu = connection.info.backend_pid, min(os.sched_getaffinity(0))
    os.sched_setaffinity(pid, {cpu})
    connection.execute("select 1")  # runs before waits are compared: its sleep until then may be counted as wait
    hog = subprocess.Popen([sys.executable, "-c", HOG, str(cpu), str(os.getpid())])
    try:
        watched()
        schedstat = Path(f"/proc/{pid}/schedstat")
        before = int(schedstat.read_text().split()[1])
        connection.execute(BUSY)
        frames = watched()["offcpu"]
        waited = (int(schedstat.read_text().split()[1]) - before) / 1e9
    finally:
        hog.kill()
        hog.wait()
    assert waited > 0.1
    assert seconds(frames, "runq_us", pid) == pytest.approx(waited, rel=0.1)
    assert 0.5 * waited < in_stacks(frames, "runq", pid) <= 1.1 * waited


def test_the_time_in_which_a_backend_is_stopped_is_no_wait(
    running: Server, watched: Watched, connection: psycopg.Connection
) -> None:
    pid = connection.info.backend_pid
    with psycopg.connect(running.dsn(), autocommit=True) as monitor:
        began = time.monotonic()
        connection.execute("select 1")
        watched()
        sleeping = Thread(target=connection.execute, args=(SLEEPS,))
        sleeping.start()
        wait_for(lambda: asleep_for(monitor, pid, "PgSleep"), "one of its sleeps")
        asked = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: snapshot.take(pid).state == "T", "it to be stopped")
        stopped = time.monotonic()
        time.sleep(0.6)
        least = time.monotonic() - stopped
        os.kill(pid, signal.SIGCONT)
        most = time.monotonic() - asked
        sleeping.join()
        ended, frames = time.monotonic(), watched()["offcpu"]
    assert least - NEAR_S <= seconds(frames, "stopped_us", pid) <= most + NEAR_S
    # From the statement before on it waited for its client, slept, or waited for a CPU; but not while it was stopped.
    waits = {kind: seconds(frames, f"{kind}_us", pid) for kind in ("client", *WAITS)}
    assert sum(waits.values()) <= ended - began - least + NEAR_S, waits
    stacks = {kind: in_stacks(frames, kind, pid) for kind in WAITS}
    assert all(stacks[kind] <= waits[kind] + NEAR_S for kind in WAITS), (stacks, waits)
    # A sleep that ends while a client has its CPU looks like the client's, which is so for few of them.
    assert stacks["asleep"] > 0.5, stacks
