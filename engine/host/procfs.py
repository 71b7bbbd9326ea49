"""Counters of processes from /proc.

Parsers take bytes and are pure. Readers keep their files open and use `pread`, which is cheaper than opening and safe
from pid reuse: a file below `/proc/PID` belongs to one process and reads as ESRCH once that is gone. Counters are
cumulative; `difference` makes intervals of them. Keys that end in `_now` are states, not counters. Nothing here raises
for a vanished process or an unreadable file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine.core.resource import Closing

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
CHILDREN_FILES = Path(f"/proc/self/task/{os.getpid()}/children").exists()  # kernel option PROC_CHILDREN
STOPPED = ("T", "t")  # states of a process: by a signal, by a debugger
GONE = (FileNotFoundError, ProcessLookupError)


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Counts between two samples; keys ending in `_now` and keys new in `after` keep their value."""
    return {key: value if key.endswith("_now") else value - before.get(key, 0) for key, value in after.items()}


class Task(NamedTuple):
    """Counters of one process over all its threads. Times in ns since it started.

    `state` is the kernel's letter: R on CPU or run queue, S asleep, D uninterruptible, T stopped, t traced, Z zombie.
    `cpu_ns` and `runq_ns` (ready, waiting for a CPU) come from the scheduler; `runq_ns`, which a reader corrects
    (`RunQueueWait`), is 0 on kernels without scheduler information. I/O is 0 if unreadable (another user's process).
    `read_bytes` were fetched from the device; `write_bytes` were dirtied in the page cache, less those truncated or
    removed before being written (proc(5): write_bytes - cancelled_write_bytes). That may include another process's
    pages, so it can decrease.
    `engine.host.machine_counters` counts what the device writes.
    """

    pid: int
    state: str
    cpu_ns: int
    runq_ns: int
    timeslices: int
    voluntary: int
    involuntary: int
    read_bytes: int
    write_bytes: int
    threads: int = 1
    vsz_bytes: int = 0
    rss_bytes: int = 0

    @property
    def switches(self) -> int:
        return self.voluntary + self.involuntary

    def counters(self) -> dict[str, int]:
        return added_up((self,))


COUNTERS = ("cpu_ns", "runq_ns", "timeslices", "voluntary", "involuntary", "read_bytes", "write_bytes")  # of a task


def added_up(tasks: Collection[Task]) -> dict[str, int]:
    sums = dict.fromkeys(COUNTERS, 0) | {
        name: sum(values)
        for name, values in zip(Task._fields, zip(*tasks, strict=True), strict=False)
        if name in COUNTERS
    }
    return sums | {"switches": sums["voluntary"] + sums["involuntary"]}


@dataclass(frozen=True, slots=True)
class Stat:
    """Fields of `/proc/PID/stat`: times in ns, truncated to ticks; `start_ticks` tells reused pids apart."""

    state: str
    parent: int
    cpu_ns: int
    reaped_cpu_ns: int
    start_ticks: int


def parse_stat(data: bytes) -> Stat:
    """The name in parentheses may itself contain spaces and parentheses."""
    fields = data[data.rindex(b")") + 2 :].split()
    utime, stime, cutime, cstime = (int(value) for value in fields[11:15])
    return Stat(
        fields[0].decode(errors="replace"),
        int(fields[1]),
        (utime + stime) * TICK_NS,
        (cutime + cstime) * TICK_NS,
        int(fields[19]),
    )


def state_of(pid: int) -> str:
    """The kernel's letter for a process's state, see `Task`; empty once it has ended."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return chr(os.read(file, 128).rpartition(b") ")[2][0])
    except (OSError, IndexError):
        return ""
    finally:
        os.close(file)


def parse_schedstat(data: bytes) -> tuple[int, int, int]:
    """`/proc/PID/schedstat`: ns on CPU, ns waited on a run queue, timeslices."""
    cpu_ns, runq_ns, timeslices = data.split()
    return int(cpu_ns), int(runq_ns), int(timeslices)


def possible_wait_ns(waited_ns: int, cpu_ns: int, elapsed_ns: int) -> int:
    """The run-queue wait of a task that did not wait at the beginning: no longer than its CPU time leaves of the time.

    Since Linux 6.12 a task that falls asleep may stay queued for a moment. If it is moved to another CPU then, the
    kernel counts its sleep as wait when it runs again. 1% allows for different clocks.
    """
    return min(waited_ns, max(0, elapsed_ns + elapsed_ns // 100 - cpu_ns))


def number_after(data: bytes, label: bytes) -> int:
    """The number after a label such as `Threads:`; 0 without the label."""
    start = data.find(label)
    if start < 0:
        return 0
    start += len(label)
    return int(data[start : data.index(b"\n", start)].removesuffix(b" kB"))


def parse_status(pid: int, schedstat: bytes, status: bytes, io: bytes) -> Task:
    """A task from its three files; `io` may be empty. Searches forward only, as it runs hundreds of times a second."""
    cpu_ns, runq_ns, timeslices = parse_schedstat(schedstat)
    state, at = _state(status)
    vsz_kb, at = _number_from(status, b"\nVmSize:", at)
    rss_kb, at = _number_from(status, b"\nVmRSS:", at)
    threads, _ = _number_from(status, b"\nThreads:", at)
    read, write = _block_io(io)
    return Task(
        pid, state, cpu_ns, runq_ns, timeslices, *_switches(status), read, write, threads, vsz_kb * 1024, rss_kb * 1024
    )


def _state(status: bytes) -> tuple[str, int]:
    """The letter of the state, and its position."""
    at = status.index(b"\nState:") + 7
    return status[at : at + 4].strip()[:1].decode(), at


def _number_from(data: bytes, label: bytes, start: int) -> tuple[int, int]:
    """The number after a label, searched for from `start` on, and its position; 0 if it is absent."""
    at = data.find(label, start)
    if at < 0:
        return 0, start
    at += len(label)
    return int(data[at : data.index(b"\n", at)].removesuffix(b" kB")), at


def _switches(status: bytes) -> tuple[int, int]:
    at = status.rfind(b"\nvoluntary_ctxt_switches:")
    if at < 0:
        return 0, 0
    _, voluntary, _, involuntary, *_ = status[at:].split(None, 4)
    return int(voluntary), int(involuntary)


def _block_io(io: bytes) -> tuple[int, int]:
    """Bytes read from the device, and dirtied less cancelled: the last lines of `/proc/PID/io`."""
    at = io.find(b"\nread_bytes:")
    if at < 0:
        return 0, 0
    _, read, _, written, _, cancelled, *_ = io[at:].split(None, 6)
    return int(read), int(written) - int(cancelled)


class RunQueueWait:
    """A task's run-queue wait (ns) over its samples, where the kernel may count sleep as wait (`possible_wait_ns`).

    At most the time since the last sample that saw the task asleep is left of it, less CPU time.
    """

    def __init__(self) -> None:
        self._asleep: tuple[int, int, int] | None = None  # when last seen asleep; CPU time and wait by then
        self._slept_ns = 0  # counted as wait so far
        self._wait_ns = 0

    def see_asleep(self, at_ns: int, cpu_ns: int) -> None:
        self._asleep = at_ns, cpu_ns, self._wait_ns

    def corrected(self, at_ns: int, cpu_ns: int, run_delay_ns: int) -> int:
        wait_ns = run_delay_ns - self._slept_ns
        if self._asleep is not None:
            seen_ns, used_ns, waited_ns = self._asleep
            wait_ns = waited_ns + possible_wait_ns(wait_ns - waited_ns, cpu_ns - used_ns, at_ns - seen_ns)
        self._wait_ns = max(self._wait_ns, wait_ns)  # the CPU time of a running task may lag, and catch up
        self._slept_ns = run_delay_ns - self._wait_ns
        return self._wait_ns


class HeldFiles(Closing):
    def __init__(self) -> None:
        self._files: list[int] = []

    def _hold(self, path: str, folder: int | None = None) -> int:
        """An open descriptor of a file; -1 without permission. Raises OSError if it is missing."""
        try:
            self._files.append(os.open(path, os.O_RDONLY, dir_fd=folder))
        except PermissionError:
            return -1
        return self._files[-1]

    def close(self) -> None:
        for fd in self._files:
            os.close(fd)
        self._files.clear()


class TaskReader(HeldFiles):
    """One process held open for sampling: three reads per sample. A context manager; raises OSError if it is gone.

    Without `io`, two reads, and its I/O is 0. Two also if the process has not run since the last sample, and a single
    one for only its CPU time (`read_time`). Further threads (a client's helper, io_uring's workers) are added, ended
    ones with the last value seen. `start_ticks` tells two processes with the same pid apart. The run-queue wait of the
    first thread is corrected (`RunQueueWait`).
    """

    def __init__(self, pid: int, *, io: bool = True) -> None:
        super().__init__()
        self.pid = pid
        self._threads: dict[str, tuple[int, int, int, int, int]] = {}
        self._ran = b""  # the scheduler's counters at the last read
        self._last: Task | None = None  # at the last full read
        self._resting: Task | None = None  # the same, if it was not running
        self._wait = RunQueueWait()
        # The folder is opened first: below it only this process can be found, even if the pid is reused.
        self._folder = self._hold(f"/proc/{pid}")
        try:
            self.start_ticks = parse_stat(self._text("stat")).start_ticks
            self._schedstat, self._status = (self._hold(name, self._folder) for name in ("schedstat", "status"))
            self._io = self._hold("io", self._folder) if io else -1
        except BaseException:
            self.close()
            raise

    def read(self) -> Task | None:
        return self._read()

    def read_time(self) -> Task | None:
        """Like `read`, but with only CPU time, run-queue wait and timeslices up to date while the process runs."""
        return self._read(time_only=True)

    def _read(self, *, time_only: bool = False) -> Task | None:
        try:
            began_ns = time.monotonic_ns()
            schedstat = os.pread(self._schedstat, 128, 0)  # first: anything it does from now on shows next time
            read_ns = time.monotonic_ns()
            if schedstat == self._ran:
                if self._resting is not None:
                    if not time_only and _state(os.pread(self._status, 4096, 0))[0] != "R":  # not waiting for a CPU
                        self._wait.see_asleep(began_ns, self._resting.cpu_ns)
                    return self._resting
            elif time_only and self._last is not None and self._last.threads == 1:
                cpu_ns, runq_ns, timeslices = parse_schedstat(schedstat)
                self._ran, self._resting = schedstat, None
                runq_ns = self._wait.corrected(read_ns, cpu_ns, runq_ns)
                return self._last._replace(cpu_ns=cpu_ns, runq_ns=runq_ns, timeslices=timeslices)
            status = os.pread(self._status, 4096, 0)
            try:
                io = os.pread(self._io, 512, 0) if self._io >= 0 else b""
            except PermissionError:
                io = b""
            task = parse_status(self.pid, schedstat, status, io)
        except (OSError, ValueError):  # ValueError: an empty read of a dying task
            return None
        task = task._replace(runq_ns=self._wait.corrected(read_ns, task.cpu_ns, task.runq_ns))
        if task.state != "R":
            self._wait.see_asleep(began_ns, task.cpu_ns)
        if task.threads > 1 or self._threads:  # other threads may run while the first does not
            self._last = None
            return self._with_threads(task)
        # For a running process the kernel updates the time only now and then; without scheduler information, never.
        self._ran, self._last = schedstat, task
        self._resting = task if task.state != "R" and task.timeslices else None
        return task

    def stat(self) -> Stat | None:
        """Times in ticks, including reaped children; None once it is gone."""
        try:
            return parse_stat(self._text("stat"))
        except (OSError, ValueError):
            return None

    def _text(self, name: str) -> bytes:
        fd = os.open(name, os.O_RDONLY, dir_fd=self._folder)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)

    def _with_threads(self, first: Task) -> Task:
        with suppress(OSError):
            for thread in Path(f"/proc/self/fd/{self._folder}/task").iterdir():
                if thread.name == str(self.pid):
                    continue
                with suppress(OSError, ValueError):
                    status = self._text(f"task/{thread.name}/status")
                    schedstat = self._text(f"task/{thread.name}/schedstat")
                    self._threads[thread.name] = (*parse_schedstat(schedstat), *_switches(status))
        counters = (first.cpu_ns, first.runq_ns, first.timeslices, first.voluntary, first.involuntary)
        cpu_ns, runq_ns, timeslices, voluntary, involuntary = map(
            sum, zip(counters, *self._threads.values(), strict=True)
        )
        return first._replace(
            cpu_ns=cpu_ns, runq_ns=runq_ns, timeslices=timeslices, voluntary=voluntary, involuntary=involuntary
        )


def children(pid: int) -> list[int]:
    """Pids of a process's children, including zombies; empty if it is gone."""
    pids: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(*GONE):
                pids += map(int, (thread / "children").read_bytes().split())
    except OSError:
        return []
    return pids or (scan_children(pid) if not CHILDREN_FILES else [])


def scan_children(pid: int) -> list[int]:
    """The slow way, for kernels built without the `children` files."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError):
                if parse_stat((folder / "stat").read_bytes()).parent == pid:
                    pids.append(int(folder.name))
    return pids


def read_whole(fd: int) -> bytes:
    """A proc file of unknown length; one read returns no more than the kernel has buffered."""
    parts, offset = [], 0
    while chunk := os.pread(fd, 65536, offset):
        parts.append(chunk)
        offset += len(chunk)
    return b"".join(parts)


def processes_in(data_dir: Path) -> tuple[int, ...]:
    """Processes whose working directory is the cluster: its postmaster and all backends, orphans included."""
    home = os.path.realpath(data_dir)  # of a link to itself, too
    pids: list[int] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 (as below)
        with suppress(OSError):  # it ended meanwhile, or is another user's
            # a Path of each process takes ten times longer
            if os.readlink(f"/proc/{name}/cwd").removesuffix(" (deleted)") == home:  # noqa: PTH115
                pids.append(int(name))
    return tuple(pids)
