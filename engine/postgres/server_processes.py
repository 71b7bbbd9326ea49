"""All processes of one server, together and by kind, including those that have ended.

`difference` of `engine.host.procfs` makes intervals of the counters.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.host.procfs import CHILDREN_FILES, HeldFiles, Task, TaskReader, added_up, children, read_whole

READ_ATTEMPTS = 3
# Above this many processes, switches, I/O and memory are read round-robin.
MANY, TURNS = 50, 4
STARTING = "starting"
UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class ServerSample:
    """All processes of a server at one moment; counters are cumulative, see `Task.counters`.

    `total` also has `processes_now`, and `largest_rss_bytes_now`: the memory of the process with the largest address
    space, as the Insert Benchmark reports it. `kinds` has the same counters by kind of process (`kind_of_title`; kinds
    not seen are absent), and for `unseen`: what processes did between their last sample and their end, or in all if
    they lived between two samples. The kinds add up to the total. `tasks` are the living children by pid: a role's
    backend is looked up here, not read again. `stopped`: the postmaster is stopped (SIGSTOP, debugger), so no process
    can connect and no background process starts.
    """

    total: Mapping[str, int]
    kinds: Mapping[str, Mapping[str, int]]
    tasks: dict[int, Task]
    stopped: bool = False


KINDS = (
    "checkpointer",
    "background writer",
    "walwriter",
    "walsummarizer",
    "walsender",
    "walreceiver",
    "autovacuum launcher",
    "autovacuum worker",
    "parallel worker",
    "logical replication",
    "stats collector",
    "io worker",
    "archiver",
    "startup",
    "logger",
    "slotsync worker",
)
AUTOVACUUM = "autovacuum worker"
LEADER = re.compile(rb"parallel worker for PID (\d{1,9})")
CLIENT_TITLE = re.compile(r"\[local\]|\S\(\d+\)|^client backend")


def kind_of_title(cmdline: bytes) -> str:
    """The kind of a server process by its title, in the words of `pg_stat_activity.backend_type`.

    `postgres: bench ib [local] INSERT` is a `client backend`; a title of unknown form is `other`; a process that has
    not set its title yet (it still shows the postmaster's command line) is `starting`.
    """
    title = cmdline.rstrip(b"\0 ").decode(errors="replace")
    if not title.startswith("postgres: "):
        return STARTING
    title = title.removeprefix("postgres: ")
    if CLIENT_TITLE.search(title) and not title.startswith("walsender"):
        return "client backend"
    # With cluster_name set the title begins with it.
    for kind in KINDS:
        if title.startswith(kind) or f": {kind}" in title:
            return kind
    return "other"


def process_kind(pid: int) -> str:
    """The kind of a process; from 19 on autovacuum has parallel workers, which are its own."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return STARTING
    leader = LEADER.search(title)
    if leader is not None and process_kind(int(leader[1])) == AUTOVACUUM:
        return AUTOVACUUM
    return kind_of_title(title)


class ServerProcesses(HeldFiles):
    """All processes of one server, including those that have ended. A context manager.

    The kernel adds a child's CPU time (ns) and block I/O (bytes) to its parent's "children" counters when it is reaped.
    So own + reaped + living is the total of everything the postmaster ever started, even a backend that began before
    the step or a vacuum worker that lived for half a second between two samples. Reaped CPU time can only be read in
    ticks: the error is under two ticks. Run-queue wait and switches are not inherited: the last value of an ended
    process is kept.
    """

    def __init__(self, postmaster_pid: int) -> None:
        super().__init__()
        self.pid = postmaster_pid
        self._postmaster = TaskReader(postmaster_pid)
        self._children_fd = -1
        if CHILDREN_FILES:
            self._children_fd = self._hold(f"/proc/{postmaster_pid}/task/{postmaster_pid}/children")
        self._listed: tuple[bytes, list[int]] = (b"", [])  # as read last
        self.readers: dict[int, TaskReader] = {}
        self._kinds: dict[int, str] = {}
        self._last: dict[int, Task] = {}
        self._dead: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._unseen_cpu_ns = 0
        self._samples = 0

    def sample(self, *, all_processes: bool = True) -> ServerSample | None:
        """All processes now; None once the postmaster is gone.

        A sample that is not `whole` costs less with many processes: CPU time and run-queue wait are current, but
        switches, I/O, memory and state of processes that have run since are up to `TURNS` samples old.
        """
        self._samples += 1
        for _ in range(READ_ATTEMPTS):
            before = self._children()
            living = self._read_all(before, TURNS if len(before) > MANY and not all_processes else 1)
            stat, postmaster = self._postmaster.stat(), self._postmaster.read()
            # A child reaped while we read is counted twice or not at all: read again.
            if (after := self._children()) is before or set(after).issuperset(before):
                break
        if stat is None or postmaster is None or postmaster.state in "ZX":
            return None
        for pid in self.readers.keys() - living.keys():
            self._bury(pid)
        self._last = living
        return self._sum(postmaster, stat.reaped_cpu_ns)

    def close(self) -> None:
        for reader in (self._postmaster, *self.readers.values()):
            reader.close()
        self.readers.clear()
        super().close()

    def _children(self) -> list[int]:
        if self._children_fd < 0:
            return children(self.pid)
        try:
            text = read_whole(self._children_fd)
        except OSError:
            return []
        if text != self._listed[0]:
            self._listed = text, [int(pid) for pid in text.split()]
        return self._listed[1]

    def _read_all(self, pids: Collection[int], turns: int) -> dict[int, Task]:
        """The living ones of these processes by pid; read in full every `turns` samples."""
        turn = self._samples % turns
        read = ((pid, self._read(pid, time_only=place % turns != turn)) for place, pid in enumerate(pids))
        return {pid: task for pid, task in read if task is not None}

    def _read(self, pid: int, *, time_only: bool) -> Task | None:
        """A living child, opened if new or if its pid was reused."""
        reader = self.readers.get(pid)
        if reader is not None:
            task = reader.read_time() if time_only else reader.read()
            if task is not None:
                return task
            self._bury(pid)
        try:
            self.readers[pid] = reader = TaskReader(pid)
        except OSError:
            return None
        return reader.read()

    def _kind(self, pid: int) -> str:
        kind = self._kinds.get(pid)
        if kind is None:
            kind = process_kind(pid)
            if kind != STARTING:
                self._kinds[pid] = kind
        return kind

    def _bury(self, pid: int) -> None:
        reader, last, kind = self.readers.pop(pid, None), self._last.pop(pid, None), self._kinds.pop(pid, STARTING)
        if reader is not None:
            reader.close()
        if last is not None:
            self._dead[kind].update(last.counters())

    def _sum(self, backends: Task, reaped_cpu_ns: int) -> ServerSample:
        kinds = defaultdict(Counter[str], {kind: counters.copy() for kind, counters in self._dead.items()})
        # The postmaster's own I/O counters already hold all I/O of its reaped children.
        reaped = {"cpu_ns": reaped_cpu_ns, "read_bytes": backends.read_bytes, "write_bytes": backends.write_bytes}
        for counters in self._dead.values():
            reaped = {key: value - counters[key] for key, value in reaped.items()}
        # Never backwards: moving from living to reaped loses up to two ticks. Bytes lose nothing.
        self._unseen_cpu_ns = max(self._unseen_cpu_ns, reaped["cpu_ns"])
        kinds[UNSEEN] = Counter(reaped | {"cpu_ns": self._unseen_cpu_ns})
        kinds["postmaster"] = Counter(backends.counters() | {"read_bytes": 0, "write_bytes": 0, "processes_now": 1})
        living = defaultdict[str, list[Task]](list)
        for pid, task in self._last.items():
            living[self._kind(pid)].append(task)
        for kind, tasks in living.items():
            kinds[kind].update(added_up(tasks) | {"processes_now": len(tasks)})
        largest = max((backends, *self._last.values()), key=lambda task: task.vsz_bytes)
        total = Counter[str]()
        for counters in kinds.values():
            total.update(counters)
        total["largest_rss_bytes_now"] = largest.rss_bytes
        return ServerSample(total, dict(kinds), dict(self._last), stopped=backends.state in "Tt")
