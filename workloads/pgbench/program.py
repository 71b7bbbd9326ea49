"""One pgbench process: started, signalled, its log read as it comes, ended.

Its log is in memory (a memfd for each thread), where it comes in blocks of 4 KiB, some hundred lines. For slow
transactions it goes to pseudo-terminals instead: these deliver each line at once, but each wakes the kernel's worker
for terminals, which costs some 20 us of CPU in a virtual machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import stat
import tty
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workloads.client.process import die_with_parent
from workloads.pgbench.scripts import Script, error_of

APPLICATION = "pgbed-pgbench"
PART_BYTES = 65536
GIVEN_BACK_BYTES = 1 << 20
PRINTED_MAX_BYTES = 1 << 20  # of its output, which is in memory; the rest is discarded
KEEP_SIZE, PUNCH_HOLE = 1, 2
_LIBC = ctypes.CDLL(None, use_errno=True)


class PgbenchFailed(Exception):
    """pgbench cannot continue; the text says why."""


@dataclass(eq=False)
class PgbenchProcess:
    """One pgbench process, its log and its output. A context manager, whose end the process does not outlive."""

    argv: Sequence[str]
    folder: Path
    threads: int
    by_line: bool = False  # the log comes line by line
    waiting: bool = False  # stopped before it begins
    pid: int = 0
    code: int | None = None  # exit code
    _logs: list[tuple[int, int]] = field(default_factory=list)  # of each thread: the reading and the writing end
    _places: dict[int, int] = field(default_factory=dict)  # offset in each up to which it has been read and freed
    _rests: dict[int, bytes] = field(default_factory=dict)

    def __enter__(self) -> PgbenchProcess:
        self.output_fd, self.errors_fd = (os.memfd_create(name) for name in ("output", "errors"))
        for _ in range(self.threads):
            if self.by_line:
                ours, theirs = os.openpty()
                tty.setraw(theirs)
                os.set_blocking(ours, False)
            else:
                ours = theirs = os.memfd_create("pgbench-log")
            self._logs.append((ours, theirs))
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._become(parent)
            finally:
                os._exit(127)
        self._ended = os.pidfd_open(self.pid)
        self._poller = select.poll()
        self._poller.register(self._ended, select.POLLIN)
        if self.waiting:
            os.waitpid(self.pid, os.WUNTRACED)
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            self.send(signal.SIGKILL)
            self.reap()
        os.close(self._ended)
        for fd in {self.output_fd, self.errors_fd, *(fd for pair in self._logs for fd in pair)}:
            os.close(fd)

    def _become(self, parent: int) -> None:
        """Put links to the logs where pgbench will open them, and exec it. Called in the child."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent(parent)
        for number, (_, theirs) in enumerate(self._logs):
            name = f"log.{os.getpid()}" + (f".{number}" if number else "")
            place = os.ttyname(theirs) if self.by_line else f"/proc/{parent}/fd/{theirs}"
            os.symlink(place, self.folder / name)  # noqa: PTH211 (before exec: as little as can be)
        with open(os.devnull) as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        os.dup2(self.output_fd, 1)
        os.dup2(self.errors_fd, 2)
        if self.waiting:
            os.kill(os.getpid(), signal.SIGSTOP)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        os.execve(self.argv[0], list(self.argv), environment | {"PGAPPNAME": APPLICATION, "LC_ALL": "C"})

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; ignored once it has ended."""
        if self.code is None:
            os.kill(self.pid, number)

    def has_ended(self, timeout_ms: int = 0) -> bool:
        """Whether it ends within the timeout."""
        if self.code is None:
            if self._poller.poll(timeout_ms):
                self.reap()
            for printed in (self.output_fd, self.errors_fd):
                _bound(printed)
        return self.code is not None

    def reap(self) -> None:
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def lines(self) -> list[list[bytes]]:
        """Lines of the log since the last call, grouped by thread, in order."""
        lines_of = []
        for ours, _ in self._logs:
            parts = [self._rests.get(ours, b"")]
            with contextlib.suppress(BlockingIOError):
                while part := self._next(ours):
                    parts.append(part)
            *complete, self._rests[ours] = b"".join(parts).split(b"\n")
            lines_of.append(complete)
        return lines_of

    def _next(self, log: int) -> bytes:
        """Read the next part of a log; free the part of a file in memory that has been read."""
        if self.by_line:
            return os.read(log, PART_BYTES)
        place = self._places.get(log, 0)
        part = os.pread(log, PART_BYTES, place)
        self._places[log] = place + len(part)
        if place // GIVEN_BACK_BYTES < self._places[log] // GIVEN_BACK_BYTES:
            _LIBC.fallocate(log, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(place))
        return part

    def has_opened_logs(self) -> bool:
        """Whether it has opened the log of its first thread, which it does after inspecting the tables.

        It opens the log for writing only. Before the exec, the child has our own descriptor.
        """
        name = os.readlink(f"/proc/self/fd/{self._logs[0][1]}")  # noqa: PTH115
        with contextlib.suppress(OSError):  # it ends, or closes one
            for entry in os.scandir(f"/proc/{self.pid}/fd"):
                if os.readlink(entry.path) == name and not os.lstat(entry.path).st_mode & stat.S_IRUSR:  # noqa: PTH115
                    return True
        return False

    @property
    def output(self) -> str:
        return _text(self.output_fd)

    @property
    def errors(self) -> str:
        return _text(self.errors_fd)

    def reason(self, scripts: Sequence[Script]) -> str:
        if self.code is not None and self.code < 0:
            return f"pgbench ended: signal {-self.code}"
        return error_of(self.errors, scripts, str(self.folder))


def _bound(fd: int) -> None:
    size = os.fstat(fd).st_size
    if size > PRINTED_MAX_BYTES:
        length = ctypes.c_long(size - PRINTED_MAX_BYTES)
        _LIBC.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(PRINTED_MAX_BYTES), length)


def _text(fd: int) -> str:
    return os.pread(fd, PRINTED_MAX_BYTES, 0).decode(errors="replace")
