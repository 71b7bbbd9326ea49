"""Failures in a run end the cell, not the run, and lose no measurement."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from shutil import disk_usage

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, RoleSecond, StepRow
from engine.journal.run_lock import is_locked
from engine.journal.runs import CONTROL
from tests.support import scripted
from tests.support.benchcall import (
    LONG,
    SECONDS,
    SMALL,
    Bench,
    connect,
    nothing_left,
    postmaster,
    processes_of,
    wait_for,
)
from tests.support.templates import BY_THEMSELVES


def states(bench: Bench) -> list[tuple[str, str]]:
    return [(attempt.state, attempt.reason or "") for attempt in bench.attempts()]


def open_files_of_the_gone(pid: int) -> list[str]:
    """Entries below /proc that a process holds open of others that are gone."""
    links = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = str(file.readlink())
            owner = re.match(r"/proc/\d+", target)
            if owner is not None and not Path(owner[0]).exists():
                links.append(target)
    return links


def test_any_end_of_a_step_fails_its_cell_with_the_reason(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, "--repeats", "3", *LONG)
    bench.await_step("l.i1")
    os.kill(postmaster(bench), signal.SIGKILL)
    step = bench.await_step("l.i1", cell=2)
    assert not open_files_of_the_gone(bench.engine_pid()), "of the clients of the step that failed"
    os.kill(bench.client(step, "delete"), signal.SIGKILL)
    bench.await_step("l.i1", cell=3)
    with connect(bench) as connection:
        connection.execute("ALTER TABLE pi1 RENAME COLUMN price TO cost")
    bench.await_end()
    server, client, error = states(bench)
    assert server[0] == client[0] == error[0] == "failed"
    assert "killed by SIGKILL" in server[1] and "client process ended: signal 9 (client 1 delete)" in client[1]
    assert "42703" in error[1] and "price" in error[1] and "insert" in error[1]
    finished = [step.name for step in bench.steps(bench.attempts()[0]) if step.state == "finished"]
    assert finished == ["l.i0", "l.x"]
    nothing_left(bench)


def test_a_server_that_dies_at_first_statements_is_the_reason(
    bench: Bench, build: Callable[[int | str], Build], new_folder: Callable[[], Path]
) -> None:
    """An extension that each cell's database is given kills it."""
    real = Path(build(18).prefix)
    (extension,) = real.glob("share/**/pgstattuple--1.4.sql")
    kill = b"COPY (SELECT 1) TO PROGRAM 'read -r pid < postmaster.pid; kill -9 $pid'; SELECT pg_sleep(60)"
    server = Path("bin/postgres")  # a copy: it looks for its extensions beside its own file
    files = {server: (real / server).read_bytes(), extension.relative_to(real): kill}
    dead = scripted.changed(real, new_folder() / "dead", files)
    assert bench("run", "--pg", f"dead={dead}", *SMALL, "--repeats", "1").returncode == 1
    ((state, reason),) = states(bench)
    assert state == "failed" and "server dead was killed by SIGKILL" in reason
    nothing_left(bench)


def test_a_server_that_does_not_start_shows_its_last_log_lines(bench: Bench, label: str) -> None:
    arguments = ("--set", "shared_preload_libraries=no_such_library", "--repeats", "1")
    done = bench("--pg", label, *SMALL, *arguments)
    assert done.returncode == 1
    ((state, reason),) = states(bench)
    assert state == "failed"
    assert 'could not access file "no_such_library"' in reason
    assert "no_such_library" in " ".join(done.stdout.split())
    nothing_left(bench)


def test_a_signal_and_kill_9_lose_only_the_running_cell(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, "--repeats", "2", *SECONDS)
    bench.await_step("l.i1", cell=2)
    os.kill(bench.engine_pid(), signal.SIGTERM)
    bench.await_end()
    assert states(bench) == [("finished", ""), ("interrupted", "SIGTERM received")]
    nothing_left(bench)
    assert bench("resume", "--detach").returncode == 0
    bench.await_step("l.i1", cell=3)
    (link,) = bench.run.glob("cells/*/socket")
    sockets = link.readlink()
    assert sockets.is_dir()
    os.kill(bench.engine_pid(), signal.SIGKILL)
    nothing_left(bench)
    assert not sockets.exists() and not link.is_symlink() and not (bench.run / CONTROL).exists()
    assert bench("watch", "--once").stdout.strip() == "1 of 2 cells finished, engine not running"
    done = bench("resume")
    assert done.returncode == 0, done.stdout + done.stderr
    attempts = [(attempt.cell[:3], attempt.state, attempt.reason) for attempt in bench.attempts()]
    assert attempts == [
        ("001", "finished", None),
        ("002", "interrupted", "SIGTERM received"),
        ("002", "interrupted", "the engine died"),
        ("002", "finished", None),
    ]
    nothing_left(bench)


def test_an_engine_that_is_killed_as_it_starts_says_how_to_go_on(bench: Bench, label: str) -> None:
    command = bench.command("run", "--pg", label, "--repeats", "1", *LONG, "--plain")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (started := [pid for pid, line in processes_of(bench.out) if " engine engine " in line]):
        assert process.poll() is None
    os.kill(started[0], signal.SIGKILL)
    output, errors = process.communicate(timeout=60)
    said = output + errors
    assert f"bench resume {bench.run}" in said and "exit code -9" not in said, said
    assert process.returncode in (1, 2)
    bench("stop")


def test_a_monitor_silent_for_seconds_costs_no_cell(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, "--repeats", "1", *SECONDS)
    bench.await_step("l.i1")
    with connect(bench) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbed monitor'"
        ((monitor,),) = connection.execute(query).fetchall()
    assert isinstance(monitor, int)
    os.kill(monitor, signal.SIGSTOP)
    time.sleep(6)  # past the step's end, when the last figures are asked for
    os.kill(monitor, signal.SIGCONT)
    bench.await_end()
    assert states(bench) == [("finished", "")]


def wait_for_a_standby(bench: Bench) -> None:
    with connect(bench) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")


def stop_the_postmaster(bench: Bench) -> None:
    os.kill(postmaster(bench), signal.SIGSTOP)


def stop_everything(bench: Bench) -> None:
    for pid, line in list(processes_of(bench.run / "cells")):
        if "workloads" not in line:
            os.kill(pid, signal.SIGSTOP)


@pytest.mark.parametrize(
    ("hang", "how", "code"),
    [(stop_the_postmaster, "Ctrl-C", 130), (wait_for_a_standby, "SIGTERM", 143), (stop_everything, "bench stop", 130)],
)
def test_a_stop_is_obeyed_though_the_server_hangs(
    bench: Bench, label: str, hang: Callable[[Bench], None], how: str, code: int
) -> None:
    begun = bench.begun("run", "--pg", label, "--repeats", "1", *LONG, "--plain")
    bench_run_is_up(bench)
    bench.await_step("l.i1")
    hang(bench)
    if how == "bench stop":
        assert bench("stop").returncode == 0
    else:
        begun.process.send_signal(signal.SIGINT if how == "Ctrl-C" else signal.SIGTERM)
    ended, *said = begun.communicate(timeout_s=60)
    output = "".join(said)
    assert ended == code and f"bench resume {bench.run}" in output and "Traceback" not in output, output
    ((state, reason),) = states(bench)
    assert state == "interrupted" and reason in ("SIGINT received", "asked to stop"), "and it was not killed"
    with JournalReader(bench.run) as reader:
        reports = [event.data["text"] for event in reader.events(kinds=("progress",))]
    assert f"stopping {label} (immediate shutdown)" in reports
    nothing_left(bench)


def test_a_second_run_is_refused_unless_it_shares_knowingly(
    bench: Bench, label: str, new_folder: Callable[[], Path]
) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD_THE_HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline()
    try:
        command = [part for part in bench.command("run", "--pg", label, *SMALL) if part != "--allow-concurrent"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == 2
        assert "another run is measuring on this machine" in refused.stderr
        assert "Traceback" not in refused.stderr
    finally:
        holder.communicate()


HOLD_THE_HOST = """
import sys, time
from contextlib import suppress
from engine.core.errors import UserError
from engine.system.host_lock import exclusive_run
while True:
    with suppress(UserError), exclusive_run(concurrent=False):  # or another run does, which may end
        print("held", flush=True)
        sys.exit(bool(sys.stdin.read()))
    time.sleep(0.1)
"""


INTERRUPTED_IN_POPEN = """
import os, signal, subprocess

class Interrupted(subprocess.Popen):
    def __init__(self, command, *arguments, **options):
        super().__init__(command, *arguments, **options)
        if command[1:4] == ["-m", "engine", "engine"]:
            os.kill(os.getpid(), signal.SIGINT)

subprocess.Popen = Interrupted
from engine.cli.main import main
main()
"""


def test_ctrl_c_during_start_up_leaves_no_engine(bench: Bench, label: str) -> None:
    arguments = bench.command("run", "--pg", label, "--repeats", "1", *LONG, "--plain")[3:]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IN_POPEN, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert f"bench resume {bench.run}" in done.stdout
    nothing_left(bench)


def test_losing_the_terminal_does_not_affect_a_detached_run(bench: Bench, label: str) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        command = bench.command("run", "--pg", label, "--repeats", "1", *LONG, "--detach")
        os.execvpe(command[0], command, os.environ)
    bench_run_is_up(bench)
    os.close(terminal)
    os.waitpid(pid, 0)
    step = bench.await_step("l.i1")
    wait_for(lambda: seconds_of(bench, step), "the first second")
    watching = subprocess.Popen(bench.command("watch", "--plain"), stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None and watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=60)
    assert watching.returncode == 130 and is_locked(bench.run)
    bench("stop")
    nothing_left(bench)


def bench_run_is_up(bench: Bench) -> None:
    wait_for(lambda: any(is_locked(path.parent) for path in bench.out.glob("*/journal.db")), "the engine to start")


def test_a_background_run_ignores_ctrl_c_and_obeys_sigterm(bench: Bench, label: str) -> None:
    """Under a strict umask, which does not lock the servers' user out."""
    command = bench.command("run", "--pg", label, "--repeats", "1", *LONG, "--plain")
    script = ["sh", "-c", 'umask 077; "$@" & echo $!; wait $!', "sh", *command]
    with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        bench_run_is_up(bench)
        bench.await_step("l.i1")
        os.kill(pid, signal.SIGINT)
        time.sleep(0.5)
        assert is_locked(bench.run)
        os.kill(pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 143 and f"bench resume {bench.run}" in output
    nothing_left(bench)


def test_a_stopped_engine_and_a_stopped_postmaster_are_on_record(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, "--repeats", "1", *LONG)
    step = bench.await_step("l.i1")

    def events(kind: str) -> list[EventRow]:
        with JournalReader(bench.run) as reader:
            return [event for event in reader.events(step.id) if event.kind == kind]

    wait_for(lambda: seconds_of(bench, step), "the first second")
    engine, stopped_ns = bench.engine_pid(), time.monotonic_ns()
    os.kill(engine, signal.SIGSTOP)
    while time.monotonic_ns() - stopped_ns < 5_000_000_000:
        time.sleep(0.1)
    os.kill(engine, signal.SIGCONT)
    gaps = wait_for(lambda: events("gap"), "the gap to be recorded")
    assert max((gap.ended_ns or 0) - gap.started_ns for gap in gaps) >= 5_000_000_000
    assert max(second.dt_ns for second in seconds_of(bench, step)) >= 5_000_000_000
    server = postmaster(bench)
    os.kill(server, signal.SIGSTOP)
    wait_for(lambda: events("server_stopped"), "the stopped postmaster to be recorded")
    os.kill(server, signal.SIGCONT)
    wait_for(lambda: [event for event in events("server_stopped") if event.ended_ns], "its end")
    bench("stop")
    nothing_left(bench)


def seconds_of(bench: Bench, step: StepRow) -> list[RoleSecond]:
    with JournalReader(bench.run) as reader:
        return [second for role in reader.roles(step.id) for second in reader.role_seconds(role.id)]


@pytest.mark.outside
def test_a_full_disk_fails_the_cell_and_keeps_the_rest(label: str) -> None:
    out = Path(tempfile.mkdtemp(prefix="pgbed-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g,mode=755", "tmpfs", str(out)], check=True)
    bench = Bench(out / "runs", BY_THEMSELVES)
    try:
        # Little is asked for, so that the check before the run lets it pass; then others take the room.
        hog = out / "hog"
        with hog.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, 1 << 30)
        bench.detached("--pg", label, "--repeats", "2", *LONG, "--rows-written", "40000")
        bench.await_step("l.i1")

        def running() -> bool:
            return bool(list(bench.run.glob("cells/001-*/data/postmaster.pid")))

        def ended() -> bool:
            """Await more than the cell's failure: the next one has begun by then, and would find no room either."""
            with hog.open("ab") as file, suppress(OSError):  # of a disk that is full, or fills meanwhile
                while running():
                    size = os.fstat(file.fileno()).st_size
                    os.posix_fallocate(file.fileno(), size, disk_usage(out).free)  # also what a checkpoint has set free
            return not running()

        wait_for(ended, "the server to end")
        hog.unlink()
        bench.await_end()
        state, reason = states(bench)[0]
        assert state == "failed"
        assert "No space left" in reason or " is full)" in reason or "53100" in reason, reason
        finished = [step.name for step in bench.steps(bench.attempts()[0]) if step.state == "finished"]
        assert finished == ["l.i0", "l.x"]
        assert states(bench)[1] == ("finished", "")
    finally:
        bench.stop()
        wait_for(lambda: not list(processes_of(out)), "everything to go")
        subprocess.run(["umount", "-l", str(out)], check=True)
        out.rmdir()


@pytest.mark.outside
def test_a_disk_that_stays_full_ends_the_run_with_its_name(label: str) -> None:
    out = Path(tempfile.mkdtemp(prefix="pgbed-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=755", "tmpfs", str(out)], check=True)
    bench = Bench(out / "runs", BY_THEMSELVES)
    command = bench.command("run", "--pg", label, "--repeats", "2", *LONG, "--rows-written", "40000", "--plain")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    held = out / "held"
    held.mkdir()

    def hold() -> None:
        """Link all files of the run, so that the end of a cell sets nothing free."""
        for folder, _, names in os.walk(bench.run):
            for path in (Path(folder, name) for name in names):
                with suppress(OSError):
                    (held / str(path.stat().st_ino)).hardlink_to(path)

    try:
        bench_run_is_up(bench)
        bench.await_step("l.i1")
        hold()
        with (out / "hog").open("ab", buffering=0) as hog:
            os.posix_fallocate(hog.fileno(), 0, 500 << 20)
            while process.poll() is None:
                try:
                    hog.write(bytes(1 << 20))
                except OSError:
                    hold()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 2 and "Traceback" not in errors
        assert f"the disk mounted at {out} (tmpfs) is full" in errors and f"bench resume {bench.run}" in errors
        (out / "hog").unlink()
        wait_for(lambda: not list(processes_of(out / "runs")), "everything to go")
        assert bench("list", "runs").returncode == 0
    finally:
        bench.stop()
        subprocess.run(["umount", "-l", str(out)], check=True)
        out.rmdir()


@pytest.mark.outside
def test_a_set_wall_clock_is_noted_and_moves_no_time(bench: Bench, label: str) -> None:
    bench.detached("--pg", label, "--repeats", "1", *LONG)
    step = bench.await_step("l.i1")

    def noted() -> list[int]:
        with JournalReader(bench.run) as reader:
            return [event.data["step_ns"] for event in reader.events(step.id) if event.kind == "clock_step"]

    time.sleep(2)
    shift_wall_clock(0.4)
    try:
        wait_for(lambda: len(noted()) == 1, "the first shift to be noted")
    finally:
        shift_wall_clock(-0.4)
    wait_for(lambda: len(noted()) == 2, "the second shift to be noted")
    bench("stop")
    assert [round(step_ns / 1e8) for step_ns in noted()] == [4, -4]
    with JournalReader(bench.run) as reader:
        seconds = reader.role_seconds(reader.roles(step.id)[0].id)
    # However late a busy machine made them, each second begins where the one before has ended.
    for earlier, later in pairwise([step.started_ns, *(second.t_ns for second in seconds)]):
        (dt_ns,) = (second.dt_ns for second in seconds if second.t_ns == later)
        assert later - earlier == dt_ns
    assert seconds[-1].t_ns <= time.monotonic_ns()


def shift_wall_clock(by_s: float) -> None:
    """Sets the wall clock forward or back."""
    time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME) + round(by_s * 1e9))
