"""Waits that were planted in real backends: each is seen in the right kind, as long as it was, in the right code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from engine.postgres.server import Server
from probes import folding
from probes.frames import Frame
from probes.session import ProbeSession, Target
from tests.support.observing import Helper

pytestmark = pytest.mark.outside

Watched = Callable[[], dict[str, list[Frame]]]
PATIENCE_S = 30.0
BUSY = "select count(*) from generate_series(1, 3000000) as a(x) where x % 7 = 3"
HOG = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile os.getppid() == int(sys.argv[2]): pass"


@pytest.fixture(scope="module")
def running(server: Callable[[int | str], Server]) -> Server:
    return server(16)


@pytest.fixture(scope="module")
def watched(running: Server, helpers: tuple[Helper, ...]) -> Iterator[Watched]:
    """What `offcpu` and `sched` have seen since this was asked last, up to now."""
    target = Target(running.pid, running.build.bin / "postgres", running.build.major, clients=(os.getpid(),))
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(ProbeSession(target, probe, command=helpers[0])) for probe in ("offcpu", "sched")
        ]
        for one in sessions:
            assert one.wait_baseline(), one.messages

        def until_now() -> dict[str, list[Frame]]:
            now_ns, end_s = time.monotonic_ns(), time.monotonic() + PATIENCE_S
            found: dict[str, list[Frame]] = {}
            for one in sessions:
                frames = found[one.probe.id] = []
                while not (frames and frames[-1].t_ns > now_ns):
                    assert time.monotonic() < end_s, one.messages
                    frames += one.poll()
                    time.sleep(0.02)
            return found

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


def test_a_wait_for_a_lock_is_asleep_and_one_for_the_client_is_the_clients(
    running: Server, watched: Watched, connection: psycopg.Connection
) -> None:
    with psycopg.connect(running.dsn(), autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(7)")
        connection.execute("set deadlock_timeout = 60000")  # its timer would end a wait for the client, too
        watched()
        waiting = Thread(target=connection.execute, args=("select pg_advisory_lock(7)",))
        began = time.monotonic()
        waiting.start()
        time.sleep(0.8)
        holder.execute("select pg_advisory_unlock(7)")
        waiting.join()
        waited = time.monotonic() - began
        time.sleep(0.6)  # its client has nothing for it
        connection.execute("select 1")
        pid, frames = connection.info.backend_pid, watched()["offcpu"]
    assert seconds(frames, "asleep_us", pid) == pytest.approx(waited, abs=0.1)
    assert in_stacks(frames, "asleep", pid) == pytest.approx(seconds(frames, "asleep_us", pid), abs=0.02)
    assert seconds(frames, "client_us", pid) >= 0.55
    lines = folded(running, frames, pid)
    assert max(lines, key=lambda line: lines[line]).startswith(f"{pid};[asleep];")
    assert any("epoll" in line for line in lines)


def test_a_wait_for_storage_is_disk(watched: Watched, connection: psycopg.Connection) -> None:
    connection.execute("set synchronous_commit = on")
    connection.execute("create table if not exists waits (a text)")
    watched()
    for _ in range(40):
        connection.execute("insert into waits select repeat('x', 2000) from generate_series(1, 100)")
    pid, found = connection.info.backend_pid, watched()
    disk = seconds(found["sched"], "off_disk_us", pid)
    assert disk > 0
    assert seconds(found["offcpu"], "disk_us", pid) == pytest.approx(disk, rel=0.1, abs=0.005)
    assert in_stacks(found["offcpu"], "disk", pid) == pytest.approx(disk, rel=0.1, abs=0.01)


def test_a_backend_beside_a_hog_waits_for_a_cpu(watched: Watched, connection: psycopg.Connection) -> None:
    pid, cpu = connection.info.backend_pid, min(os.sched_getaffinity(0))
    os.sched_setaffinity(pid, {cpu})
    hog = subprocess.Popen([sys.executable, "-c", HOG, str(cpu), str(os.getpid())])
    try:
        watched()
        schedstat = Path(f"/proc/{pid}/schedstat")
        before = int(schedstat.read_text().split()[1])
        connection.execute(BUSY)
        waited = (int(schedstat.read_text().split()[1]) - before) / 1e9
        frames = watched()["offcpu"]
    finally:
        hog.kill()
        hog.wait()
    assert waited > 0.1
    assert seconds(frames, "runq_us", pid) == pytest.approx(waited, rel=0.1)
    assert in_stacks(frames, "runq", pid) == pytest.approx(waited, rel=0.15)


def test_the_time_in_which_a_backend_is_stopped_is_no_wait(watched: Watched, connection: psycopg.Connection) -> None:
    pid = connection.info.backend_pid
    watched()
    sleeping = Thread(target=connection.execute, args=("select pg_sleep(1)",))
    sleeping.start()
    time.sleep(0.2)
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    time.sleep(0.6)
    stopped = time.monotonic() - began
    os.kill(pid, signal.SIGCONT)
    sleeping.join()
    frames = watched()["offcpu"]
    assert seconds(frames, "stopped_us", pid) == pytest.approx(stopped, abs=0.1)
    # Until it was stopped it slept, too; but the signal came from a client, as all that this process does.
    assert 0.05 < in_stacks(frames, "asleep", pid) <= 1.1 - stopped
    assert sum(in_stacks(frames, kind, pid) for kind in ("asleep", "runq", "disk")) <= 1.1 - stopped
