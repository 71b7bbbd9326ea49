"""Counts of the kernel: parsers on texts of several kernels, readers on real processes and real servers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.host import environment, machine_counters, procfs
from engine.host.procfs import TICK_NS, RunQueueWait, Task, TaskReader, children, difference, state_of
from engine.postgres import server_processes
from engine.postgres.server import Server
from engine.postgres.server_processes import STARTING, UNSEEN, ServerProcesses, kind_of_title, process_kind
from tests.support.benchcall import wait_for
from tests.support.compiled import MAJORS

Servers = Callable[[int | str], Server]
SPIN = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: pass"


def read_task(pid: int) -> Task | None:
    try:
        with TaskReader(pid) as reader:
            return reader.read()
    except OSError:
        return None


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(0, 10**15)), st.integers(0, 10**12))
def test_difference_is_what_was_added(before: dict[str, int], added: int) -> None:
    after = {key: value + added for key, value in before.items()}
    assert difference(before, after) == dict.fromkeys(before, added)


def test_difference_keeps_states_and_counts_new_keys_from_zero() -> None:
    assert difference({"reads": 5, "in_flight_now": 3}, {"reads": 9, "in_flight_now": 1, "writes": 2}) == {
        "reads": 4,
        "in_flight_now": 1,
        "writes": 2,
    }


@given(st.text("ab() \n:", max_size=15))
def test_a_process_name_may_hold_parentheses_and_spaces(name: str) -> None:
    fields = "S 17 " + " ".join(str(number) for number in range(3, 50))
    stat = procfs.parse_stat(f"42 ({name}) {fields}\n".encode())
    assert (stat.state, stat.parent) == ("S", 17)
    assert stat.cpu_ns == (12 + 13) * TICK_NS and stat.reaped_cpu_ns == (14 + 15) * TICK_NS
    assert stat.start_ticks == 20


@given(st.lists(st.tuples(*[st.integers(1, 10**9)] * 3, st.booleans(), st.booleans())))
def test_sleep_counted_as_wait_ends_when_last_seen(rounds: list[tuple[int, int, int, bool, bool]]) -> None:
    """A task runs, sleeps, and waits for a CPU, in turn; some sleeps are counted as wait, when the task runs again."""
    wait = RunQueueWait()
    at_ns = cpu_ns = run_delay_ns = waited_ns = unseen_ns = least_ns = 0
    for run_ns, sleep_ns, queued_ns, moved, seen in rounds:
        for part_ns in (run_ns // 2, run_ns - run_ns // 2):
            at_ns, cpu_ns = at_ns + part_ns, cpu_ns + part_ns
            corrected_ns = wait.corrected(at_ns, cpu_ns, run_delay_ns)
            assert max(waited_ns, least_ns) <= corrected_ns <= min(run_delay_ns, waited_ns + unseen_ns + at_ns // 50)
            least_ns = corrected_ns
        if seen:
            wait.see_asleep(at_ns + sleep_ns // 2, cpu_ns)
        at_ns += sleep_ns + queued_ns
        waited_ns += queued_ns
        run_delay_ns += queued_ns + sleep_ns * moved
        unseen_ns += sleep_ns - sleep_ns // 2 if seen else sleep_ns


@pytest.mark.parametrize("state", ["S", "R"])
@pytest.mark.parametrize("how", [TaskReader.read, TaskReader.read_time])
def test_a_wait_of_a_task_that_was_asleep_is_bounded(
    tmp_path: Path, state: str, how: Callable[[TaskReader], Task | None]
) -> None:
    """The kernel's two files of a process are replaced by others, which say that it has waited for an hour."""
    with subprocess.Popen(["sleep", "60"]) as process, TaskReader(process.pid, io=False) as reader:
        wait_for(lambda: state_of(process.pid) == "S", "its sleep")
        status = re.sub("State:.*", f"State:\t{state}", Path(f"/proc/{process.pid}/status").read_text())
        texts = {"status": status, "schedstat": "1000000 0 5\n"}
        opened = {str(link.readlink()): link.name for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
            with (tmp_path / name).open() as file:
                os.dup2(file.fileno(), int(opened[f"/proc/{process.pid}/{name}"]))
        reader.read()
        time.sleep(0.1)
        seen_ns = time.monotonic_ns()
        reader.read()
        (tmp_path / "schedstat").write_text("2000000 3600000000000 6\n")
        task = how(reader)
        elapsed_ns = time.monotonic_ns() - seen_ns
        process.kill()
    assert task is not None and task.cpu_ns == 2_000_000
    if state == "S":
        assert task.runq_ns < 1.02 * elapsed_ns
    else:
        assert task.runq_ns == 3600 * 10**9


@pytest.mark.slow
def test_a_task_is_read_with_cpu_time_switches_and_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN.format(0.3)]) as process, TaskReader(process.pid) as reader:
        first = reader.read()
        assert first is not None and first.threads == 1
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: (reader.read() or first).state == "Z", "its end")
        last = reader.read()
    assert last is not None
    assert last.cpu_ns - first.cpu_ns > 200_000_000 or last.cpu_ns > 300_000_000
    assert last.counters()["switches"] == last.voluntary + last.involuntary > 0


@pytest.mark.slow
def test_a_process_that_vanished_reads_as_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        reader = TaskReader(process.pid)
        assert reader.read() is not None
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        assert reader.read() is None and reader.stat() is None
        reader.close()
    assert read_task(process.pid) is None
    assert children(process.pid) == []
    with pytest.raises(OSError):
        TaskReader(process.pid)


@pytest.mark.slow
def test_a_stopped_process_is_seen_as_stopped() -> None:
    program = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with TaskReader(process.pid) as held:  # which does not read all of a process that has not run since
            for number, letter in ((signal.SIGSTOP, "T"), (signal.SIGCONT, "S"), (signal.SIGSTOP, "T")):
                process.send_signal(number)
                wait_for(lambda letter=letter: state_of(process.pid) == letter, letter)  # type: ignore[misc]
                task = held.read()
                assert task is not None and task.state == letter and held.read() is task
        process.kill()


@pytest.mark.slow
def test_all_times_of_a_stopped_process_may_be_read() -> None:
    program = [
        sys.executable,
        "-c",
        "import sys, time\nfor line in sys.stdin: [time.sleep(0) for _ in range(2000)]; print(flush=True)",
    ]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def work() -> None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()

        work()
        with TaskReader(process.pid) as reader:
            first = reader.read_time()
            work()
            part = reader.read_time()
            work()
            total = reader.read()
            assert first is not None and part is not None and total is not None
            assert part == first._replace(cpu_ns=part.cpu_ns, runq_ns=part.runq_ns, timeslices=part.timeslices)
            assert first.cpu_ns < part.cpu_ns < total.cpu_ns and first.switches < total.switches
            work()
            process.send_signal(signal.SIGSTOP)
            wait_for(lambda: state_of(process.pid) == "T", "its stop")
            reader.read_time()
            stopped = reader.read_time()
            fresh = read_task(process.pid)
            assert stopped is not None and fresh is not None and stopped.state == "T"
            assert stopped == fresh._replace(runq_ns=stopped.runq_ns)  # which may have sleep in it
        process.kill()


def test_threads_are_added_up_and_ended_ones_are_not_lost() -> None:
    stop, busy = threading.Event(), threading.Event()

    def spin() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        busy.set()
        stop.wait()

    with TaskReader(os.getpid()) as reader:
        thread = threading.Thread(target=spin)
        thread.start()
        busy.wait()
        during = reader.read()
        stop.set()
        thread.join()
        after = reader.read()
    assert during is not None and after is not None
    assert during.threads >= 2
    assert during.cpu_ns >= time.thread_time_ns() // 2 and during.cpu_ns >= 200_000_000
    assert after.cpu_ns >= during.cpu_ns


@pytest.mark.slow
def test_children_are_found_with_and_without_the_kernels_list() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert process.pid in children(os.getpid())
        assert process.pid in procfs.scan_children(os.getpid())
        process.kill()


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        (b"postgres: checkpointer \0\0\0", "checkpointer"),
        (b"postgres: bench ib [local] INSERT\0", "client backend"),
        (b"postgres: bench ib 10.0.0.7(53112) idle\0", "client backend"),
        (b"postgres: autovacuum worker ib\0", "autovacuum worker"),
        (b"postgres: autovacuum worker   \0", "autovacuum worker"),
        (b"postgres: parallel worker for PID 4711\0", "parallel worker"),
        (b"postgres: io worker 2\0", "io worker"),
        (b"postgres: main: walwriter \0", "walwriter"),
        (b"postgres: some extension\0", "other"),
        (b"/nix/store/x/bin/postgres\0-D\0/data\0", STARTING),
        (b"", STARTING),
    ],
)
def test_the_kind_of_a_process_is_told_by_its_title(title: bytes, kind: str) -> None:
    assert kind_of_title(title) == kind


@pytest.mark.slow
@pytest.mark.parametrize("leader", ["autovacuum worker", "client backend"])
def test_parallel_workers_of_autovacuum_are_its_own(leader: str) -> None:
    with ExitStack() as ends:

        def process(title: str) -> int:
            # It waits for a program that nobody writes.
            running = subprocess.Popen([f"postgres: {title}"], executable=sys.executable, stdin=subprocess.PIPE)
            ends.callback(running.wait)
            ends.callback(running.kill)
            return running.pid

        worker = process(f"parallel worker for PID {process(f'{leader} ib')} ")
        expected = leader if leader == "autovacuum worker" else "parallel worker"
        wait_for(lambda: process_kind(worker) == expected, expected)


@pytest.mark.parametrize("major", MAJORS)
def test_all_processes_of_a_server_are_found_by_kind(major: int, server: Servers) -> None:
    with ServerProcesses(server(major).pid) as every, server(major).connect() as connection:
        sample = every.sample()
        # A worker of autovacuum, which has no name at first; one that ends without a name stays among the kinds.
        while sample is not None and sample.kinds.get(STARTING, {}).get("processes_now"):
            sample = every.sample()
        assert sample is not None
        assert {"postmaster", "checkpointer", "background writer", "walwriter", "client backend"} <= sample.kinds.keys()
        assert connection.info.backend_pid in sample.tasks
        assert sample.total["cpu_ns"] == sum(kind["cpu_ns"] for kind in sample.kinds.values())
        assert sample.total["processes_now"] == len(sample.tasks) + 1
        assert sample.total["largest_rss_bytes_now"] > 1_000_000


def test_the_total_of_a_server_is_continuous_when_backends_end(server: Servers) -> None:
    def burn(connection: psycopg.Connection[object]) -> None:
        connection.execute("SELECT count(*) FROM generate_series(1, 1000000) a WHERE md5(a::text) = 'x'")

    running = server(16)
    with ServerProcesses(running.pid) as every:
        connection = running.connect()
        burn(connection)
        first = every.sample()
        assert first is not None
        before = first.tasks[connection.info.backend_pid].cpu_ns
        burn(connection)
        living = every.sample()
        assert living is not None
        spent = living.tasks[connection.info.backend_pid].cpu_ns - before
        pid = connection.info.backend_pid
        connection.close()
        wait_for(lambda: read_task(pid) is None, "the end of the backend")
        ended = every.sample()
        assert ended is not None and pid not in ended.tasks
    # The time of the dead backend stays in the total: it moved to the reaped, but for two ticks.
    assert difference(first.total, ended.total)["cpu_ns"] >= spent - 2 * TICK_NS
    assert all(ended.total[key] >= value for key, value in living.total.items() if not key.endswith("_now"))
    assert ended.kinds["client backend"]["cpu_ns"] >= living.kinds["client backend"]["cpu_ns"]


def test_backends_that_live_between_two_samples_are_counted(server: Servers) -> None:
    running = server(16)
    with ServerProcesses(running.pid) as every:
        first = every.sample()
        with running.connect() as connection:
            connection.execute(
                "CREATE TEMP TABLE short AS SELECT g, repeat('x', 100) FROM generate_series(1, 300000) g"
            )
            spent = read_task(connection.info.backend_pid)
        assert spent is not None
        wait_for(lambda: read_task(spent.pid) is None, "the end of the backend")
        last = every.sample()
    assert first is not None and last is not None
    unseen = difference(first.kinds[UNSEEN], last.kinds[UNSEEN])
    assert unseen["cpu_ns"] >= spent.cpu_ns - 2 * TICK_NS
    # Written to the page cache, but removed with the session before it came to the disk. The kernel counts pages
    # meant for a disk: on a tmpfs nothing is.
    on_disk = environment.record(running.data_dir)["storage"]["filesystem"] != "tmpfs"
    assert (spent.write_bytes > 0) == on_disk
    assert unseen["write_bytes"] < max(1, spent.write_bytes)


@pytest.mark.parametrize("many", [server_processes.MANY, 0])
def test_totals_never_go_back_while_backends_come_and_go(
    server: Servers, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_processes, "MANY", many)
    running, stop = server(17), threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            with running.connect() as connection:
                connection.execute("SELECT count(*) FROM generate_series(1, 20000)")

    thread = threading.Thread(target=come_and_go)
    with ServerProcesses(running.pid) as every:
        last = every.sample()
        thread.start()
        try:
            for _ in range(100):
                sample = every.sample(all_processes=False)
                assert last is not None and sample is not None
                for key, change in difference(last.total, sample.total).items():
                    assert change >= 0, key
                last = sample
                time.sleep(0.01)
        finally:
            stop.set()
            thread.join()
        backends = lambda: every.sample() is not None and every.readers.keys() == set(children(running.pid))  # noqa: E731
        wait_for(backends, "readers of those that are gone to be closed")


@pytest.mark.slow
def test_host_counters_move_and_states_are_there() -> None:
    with machine_counters.Host(machine_counters.device_of(Path("/"))) as machine:
        first = machine.host()
        with subprocess.Popen([sys.executable, "-c", SPIN.format(0.1)]) as process:
            process.wait()
        change = difference(first, machine.host())
        device = machine.device()
    assert change["user_ns"] + change["system_ns"] > 0
    assert change["switches"] > 0 and change["forks"] > 0
    assert {
        "idle_ns",
        "iowait_ns",
        "steal_ns",
        "running_now",
        "dirty_bytes_now",
        "writeback_bytes_now",
    } <= change.keys()
    assert (
        not device or {"reads", "read_kb", "writes", "written_kb", "io_ns", "flushes", "in_flight_now"} <= device.keys()
    )


@pytest.mark.parametrize(
    ("text", "flushes"),
    [(b"10 1 800 5 20 2 1600 7 3 9 12\n", 0), (b"10 1 800 5 20 2 1600 7 3 9 12 4 0 64 1 77 8\n", 77)],
    ids=("before discards and flushes", "since Linux 5.5"),
)
def test_device_counters_of_old_and_new_kernels(text: bytes, flushes: int) -> None:
    counters = machine_counters.parse_device(text)
    assert counters["reads"] == 10 and counters["read_kb"] == 400 and counters["read_ns"] == 5_000_000
    assert counters["writes"] == 20 and counters["written_kb"] == 800 and counters["write_ns"] == 7_000_000
    assert counters["in_flight_now"] == 3 and counters["io_ns"] == 9_000_000 and counters["weighted_ns"] == 12_000_000
    assert counters["flushes"] == flushes


def test_pressure_has_totals_in_ns() -> None:
    text = b"some avg10=0.00 avg60=0.08 avg300=0.21 total=3824448\nfull avg10=0.00 avg60=0.08 avg300=0.20 total=36\n"
    assert machine_counters.parse_pressure("io", text) == {
        "pressure_io_some_ns": 3_824_448_000,
        "pressure_io_full_ns": 36_000,
    }
    assert machine_counters.parse_pressure("cpu", text).keys() == {"pressure_cpu_some_ns"}


def test_the_device_of_a_file_is_a_whole_disk(tmp_path: Path) -> None:
    with machine_counters.Host(machine_counters.device_of(Path("/proc"))) as machine:
        assert machine.device() == {}
    name = machine_counters.device_of(tmp_path)
    if name is not None:  # a build sandbox may lie on tmpfs
        assert (machine_counters.DISKS / name / "stat").exists()
        assert not (machine_counters.DISKS / name / "partition").exists()


@pytest.mark.slow
def test_data_removed_before_writeback_is_not_written(tmp_path: Path) -> None:
    """Eight megabytes made dirty and cut off again; what the process then holds dirty is one page."""
    program = (
        "import os, sys\nfile = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)\nos.write(file, bytes(8 << 20))\n"
        "os.ftruncate(file, 0)\nos.write(file, b'x')\nprint(flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        task = read_task(process.pid)
        process.communicate()
    assert task is not None
    assert task.write_bytes <= 64 << 10
    io = b"rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 40960\ncancelled_write_bytes: 8192\n"
    status = b"Name:\tx\nState:\tS (sleeping)\nThreads:\t1\n"
    assert procfs.parse_status(1, b"5 6 7\n", status, io).write_bytes == 32768


def test_what_may_not_be_read_counts_as_nothing() -> None:
    task = procfs.parse_status(1, b"5 6 7\n", b"Name:\tx\nState:\tD (disk sleep)\nThreads:\t1\n", b"")
    assert task == Task(1, "D", 5, 6, 7, 0, 0, 0, 0, 1, 0, 0)
