"""A server as the conductor drives it: its gate, what its clients counted, what its processes use, who is stopped."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.core.model import Stopping, Subject
from workloads import gate, histogram
from workloads.page import UNLIMITED, Control, Page, State, Word

BUSY_NS = 1_000_000  # background processes that used more CPU in a slice are stopped after it


class Side(msgspec.Struct, frozen=True):
    """One server: the page of its clients, the slots whose statements are counted, and its postmaster.

    `backends` are the clients': they obey the gate, and are never stopped. What `monitor` does is the engine's doing,
    and not counted.
    """

    subject: Subject
    page_fd: int
    roles: int
    headline: tuple[int, ...]
    postmaster: int
    backends: tuple[int, ...] = ()
    monitor: int = 0


class Count(NamedTuple):
    """What a role had done when its last statement ended."""

    statements: int
    rows: int
    ended_ns: int


def count(page: Page, slot: int) -> Count:
    """Reads until no statement ended in between, so that counts and time belong together."""
    while True:
        ended_ns = page.word(slot, Word.LAST_ENDED_NS)
        found = Count(page.word(slot, Word.STATEMENTS), page.word(slot, Word.ROWS), ended_ns)
        if page.word(slot, Word.LAST_ENDED_NS) == ended_ns and (ended_ns or not found.statements):
            return found
        if page.word(slot, Word.STATE) >= State.DONE:  # it may have been killed while it counted
            return found
        time.sleep(0)


class Processes:
    """The CPU time of a server's processes, their files kept open: a microsecond for each.

    What a process uses between the last look and its end is not seen.
    """

    def __init__(self, postmaster: int, monitor: int) -> None:
        self._monitor = monitor
        self._children = Path(f"/proc/{postmaster}/task/{postmaster}/children")
        self._files: dict[int, int] = {}

    def used_ns(self) -> dict[int, tuple[int, int]]:
        """CPU time and run-queue wait of each process; of none where the server has ended."""
        pids = set()
        with suppress(OSError):  # its clients see that it has ended, and give the step up
            pids = {int(pid) for pid in self._children.read_text().split()} - {self._monitor}
        for pid in self._files.keys() - pids:
            os.close(self._files.pop(pid))
        for pid in pids - self._files.keys():
            with suppress(OSError):
                self._files[pid] = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)
        found = {}
        for pid, file in self._files.items():
            with suppress(OSError):
                cpu, runq, *_ = os.pread(file, 64, 0).split()
                found[pid] = int(cpu), int(runq)
        return found


@dataclass(slots=True)
class Driven:
    """A server under the conductor: what it had used at the end of its last slice, and what of it is stopped.

    `quota` is how many rounds of the step each role of the headline may begin, once its gate opens.
    """

    side: Side
    page: Page
    processes: Processes
    quota: int = UNLIMITED
    used: dict[int, tuple[int, int]] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)

    def open(self) -> int:
        """Continues what was stopped and opens the gate; returns when."""
        for pid in self.stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped = []
        opened_ns = gate.open_now(self.page)
        gate.allow(self.page, self.quota)
        return opened_ns

    def stop(self, which: Stopping, before: dict[int, tuple[int, int]]) -> None:
        """Stops background processes: those at work in the slice since `before`, or all."""
        for pid, (cpu_ns, _) in self.used.items():
            busy = cpu_ns - before.get(pid, (0, 0))[0] > BUSY_NS
            if pid not in self.side.backends and (which == "all" or (which == "busy" and busy)):
                self.stopped.append(pid)  # first: whatever happens, it is continued
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)

    def counts(self) -> list[Count]:
        """What the headline's roles have done."""
        return [count(self.page, slot) for slot in self.side.headline]

    def service(self) -> histogram.Counts:
        """The histogram of the service times of the headline's roles."""
        return histogram.merge(dict(enumerate(self.page.counts(slot))) for slot in self.side.headline)

    def used_quota(self, slot: int) -> bool:
        """Whether a role has made all the rounds that it may."""
        return self.page.word(slot, Word.QUOTA_USED) >= self.quota

    @property
    def given_up(self) -> bool:
        """Whether the step is to be given up."""
        return bool(self.page.words[Control.STOP])

    @property
    def ended(self) -> bool:
        """Whether a headline role has ended, or the step is given up."""
        return self.given_up or any(self.page.word(slot, Word.STATE) >= State.DONE for slot in self.side.headline)

    @property
    def done(self) -> bool:
        """Whether all roles have ended."""
        return all(self.page.word(slot, Word.STATE) >= State.DONE for slot in range(self.page.roles))
