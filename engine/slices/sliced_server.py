"""A server as the conductor sees it: its gate, its clients' counts, its processes' usage, and which are stopped.

Clients that know no gate are stopped themselves, and then their backends, in the middle of their work: a backend left
running would do its client's work in others' slices, or uncounted. They continue in reverse order. Of a server whose
statements outlast slices, such as index builds, everything is stopped but the postmaster: parallel workers, too.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.core.model import Subject
from engine.host.procfs import possible_wait_ns, state_of
from workloads.client import client_gate, histogram, placement, slice_times
from workloads.client.counter_page import UNLIMITED, Control, Page, State, Word

DEVICE_POLL_S, DEVICE_PATIENCE_NS = 200e-6, 1_000_000_000  # a slower device answers in others' slices
BUSY_NS = 1_000_000  # background processes that used more CPU in a slice are stopped after it


class Side(msgspec.Struct, frozen=True):
    """One server: the page of its clients, the slots whose statements are counted, and its postmaster.

    `backends` are the clients'; they are stopped only if there are `clients`: processes that know no gate. `monitor` is
    the engine's backend, which is not counted.
    """

    subject: Subject
    page_fd: int
    roles: int
    primary_slots: tuple[int, ...]
    postmaster: int
    backends: tuple[int, ...] = ()
    monitor: int = 0
    clients: tuple[int, ...] = ()


class Count(NamedTuple):
    statements: int
    rows: int
    ended_ns: int


def count(page: Page, slot: int) -> Count:
    """Read until no statement ended in between, so that counts and time belong together."""
    while True:
        ended_ns = page.word(slot, Word.LAST_ENDED_NS)
        counts = Count(page.word(slot, Word.STATEMENTS), page.word(slot, Word.ROWS), ended_ns)
        if page.word(slot, Word.LAST_ENDED_NS) == ended_ns and (ended_ns or not counts.statements):
            return counts
        if page.word(slot, Word.STATE) >= State.DONE:  # it may have been killed while it counted
            return counts
        time.sleep(0)


def send(processes: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes by descriptor, ignoring those that have ended."""
    for process in processes:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)


class Processes:
    """CPU times of a server's processes, read from open files at 1 µs each; usage after the last reading is lost."""

    def __init__(self, postmaster: int, monitor: int) -> None:
        self._monitor = monitor
        self._children = Path(f"/proc/{postmaster}/task/{postmaster}/children")
        self._files: dict[int, int] = {}

    def pids(self) -> set[int]:
        with suppress(OSError):  # its clients notice its end, and give up the step
            return {int(pid) for pid in self._children.read_text(errors="replace").split()} - {self._monitor}
        return set()

    def used_ns(self) -> dict[int, tuple[int, int]]:
        """CPU time and run-queue wait by process; empty once the server has ended."""
        pids = self.pids()
        for pid in self._files.keys() - pids:
            os.close(self._files.pop(pid))
        for pid in pids - self._files.keys():
            with suppress(OSError):
                self._files[pid] = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)
        usage = {}
        for pid, file in self._files.items():
            with suppress(OSError):
                cpu, runq, *_ = os.pread(file, 64, 0).split()
                usage[pid] = int(cpu), int(runq)
        return usage


@dataclass(slots=True)
class SlicedServer:
    """A server under the conductor: its usage at the end of its last slice, and its stopped processes.

    `quota` is how many rounds of the step each role of the primary metric may begin, once its gate opens. `clients` are
    pidfds of those that know no gate, initially stopped: a reused pid is not mistaken for them. A `whole` server is
    stopped in the middle of its statements, with all its processes; `background` are those that no client needs.
    """

    side: Side
    page: Page
    processes: Processes
    quota: int = UNLIMITED
    whole: bool = False
    background: set[int] = field(default_factory=set)
    used: dict[int, tuple[int, int]] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)
    clients: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        for pid in self.side.clients:
            with suppress(ProcessLookupError):  # its launcher sees that it has ended
                self.clients.append(os.pidfd_open(pid))

    def bind(self) -> None:
        """Give each client and its backend one CPU, the same on every server, unless they have bound themselves.

        A few backends on CPUs of the scheduler's choice make equal servers differ; of more than there are CPUs, the
        choices even out.
        """
        cpus = placement.cpus()
        if len(self.side.backends) > len(cpus):
            return
        for slot, backend in enumerate(self.side.backends):
            client = self.page.word(slot, Word.CLIENT_PID)
            if backend and client and not self.page.word(slot, Word.CPU_PLUS_1):
                with suppress(OSError):
                    placement.bind(self.page, slot, backend, client, cpus[slot])

    def open(self) -> int:
        """Continue stopped processes and open the gate; return when."""
        for pid in reversed(self.stopped):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped = []
        was_shut = bool(self.page.words[Control.PAUSED_SINCE_NS])
        opened_ns = client_gate.open_now(self.page)
        client_gate.allow(self.page, self.quota)
        if self.gated and not self.whole:
            return opened_ns
        if was_shut:
            slice_times.begin(self.page, opened_ns)
        if not self.ended:  # a launcher whose step is over has stopped its clients itself
            self._send_clients(signal.SIGCONT)
        return opened_ns

    @property
    def gated(self) -> bool:
        return not self.side.clients

    def halt(self) -> int:
        """Stop clients that ignore the gate and their backends or, if it is whole, all of it; return when."""
        ended = self.whole and self.finished  # a pause after its end would count as one before it
        if not ended:
            client_gate.shut(self.page)
        self._send_clients(signal.SIGSTOP)
        halted_ns = time.monotonic_ns()
        if self.whole:
            halted_ns = self._when_idle(self.hold() or halted_ns)
        else:
            for pid in filter(None, self.side.backends):
                self._stop(pid)
        if not ended:
            client_gate.pause(self.page, halted_ns)
            slice_times.end(self.page, halted_ns)
        return halted_ns

    def hold(self) -> int:
        """Stop all processes but the postmaster, those at work first; return when, or 0 if all had been stopped."""
        held_ns = 0
        while new := self.processes.pids() - set(self.stopped):  # the postmaster starts processes requested before
            for pid in sorted(new, key=lambda pid: (pid not in self.background, pid), reverse=True):
                self._stop(pid)
                held_ns = held_ns or time.monotonic_ns()
        return held_ns

    def _when_idle(self, held_ns: int) -> int:
        """The time when the last process at work stopped: one that waits for a device stops only after its answer.

        Its device would answer while others run, which must not make its time shorter: until then it is its turn.
        """
        until_ns = held_ns + DEVICE_PATIENCE_NS
        while any(state_of(pid) == "D" for pid in self.stopped if pid not in self.background):
            held_ns = time.monotonic_ns()
            if held_ns > until_ns:
                break
            time.sleep(DEVICE_POLL_S)
        return held_ns

    def stop_busy(self, before: dict[int, tuple[int, int]]) -> None:
        """Stop the background processes that were busy in the slice since `before`."""
        for pid, (cpu_ns, _) in self.used.items():
            if pid not in self.side.backends and cpu_ns - before.get(pid, (0, 0))[0] > BUSY_NS:
                self._stop(pid)

    def _stop(self, pid: int) -> None:
        self.stopped.append(pid)  # first: whatever happens, it is continued
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def _send_clients(self, number: signal.Signals) -> None:
        send(self.clients, number)

    def spill_over_ns(self, now: dict[int, tuple[int, int]]) -> int:
        """CPU time used since its last slice, new processes included."""
        return sum(cpu - self.used.get(pid, (0, 0))[0] for pid, (cpu, _) in now.items())

    def used_since(self, before: dict[int, tuple[int, int]], before_ns: int) -> tuple[int, int]:
        """CPU time and run-queue wait from `before`, when no client worked, to the end of its last slice, i.e. now."""
        elapsed_ns = time.monotonic_ns() - before_ns
        both = [(now, before.get(pid, (0, 0))) for pid, now in self.used.items()]
        used = [(now[0] - then[0], now[1] - then[1]) for now, then in both]
        return sum(cpu for cpu, _ in used), sum(possible_wait_ns(waited, cpu, elapsed_ns) for cpu, waited in used)

    def work_until(self, until_ns: int) -> None:
        while (left_ns := until_ns - time.monotonic_ns()) > 0 and not self.ended:
            time.sleep(min(left_ns / 1e9, 0.1))

    def counts(self) -> list[Count]:
        return [count(self.page, slot) for slot in self.side.primary_slots]

    def service(self) -> histogram.Counts:
        return histogram.merge(dict(enumerate(self.page.counts(slot))) for slot in self.side.primary_slots)

    def used_quota(self, slot: int) -> bool:
        return self.page.word(slot, Word.QUOTA_USED) >= self.quota

    @property
    def given_up(self) -> bool:
        return bool(self.page.words[Control.STOP])

    @property
    def finished(self) -> bool:
        return all(self.page.word(slot, Word.STATE) >= State.DONE for slot in self.side.primary_slots)

    @property
    def ended(self) -> bool:
        return self.given_up or any(self.page.word(slot, Word.STATE) >= State.DONE for slot in self.side.primary_slots)

    @property
    def done(self) -> bool:
        return all(self.page.word(slot, Word.STATE) >= State.DONE for slot in range(self.page.roles))
