"""Drives servers that are up side by side in turn: one slice each, in blocks of an order and its mirror image.

A process of its own, so that what the engine writes never lengthens a slice. It alone opens and shuts the gates of the
counters pages (`workloads.gate`). A slice is over when its time is and no statement is in flight; then the counters are
read, and background processes that were at work get SIGSTOP until their server's next slice. The postmaster never does:
it must obey its death signal.

    python -m engine.run.conductor        `Orders` as JSON on standard input, which stays open while the engine lives

Each slice is a record of `SLICE` on standard output. It ends when a headline role has ended, when STOP is set, or when
the engine goes; whatever it stopped goes on then, and all gates are open.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.core.model import Stopping, Subject
from engine.plan.slices import SliceSeed, blocks
from workloads import gate
from workloads.page import Control, Page, State, Word

LOOK_S = 50e-6  # between two looks at whether a server is quiet
WARM_NS = 2_000_000  # not counted: the first statements after a switch are slower
SLOW_STATEMENT_NS = 1_000_000  # where statements last longer there is no warm part: the first would never count
BUSY_NS = 1_000_000  # background processes that used more CPU in a slice are stopped after it
QUIET_PATIENCE_S = 300.0


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


class Orders(msgspec.Struct, frozen=True):
    """What the conductor does: which servers, in slices how long, in the orders of which seed."""

    sides: tuple[Side, ...]
    slice_ms: float
    seed: SliceSeed
    stop: Stopping = "busy"


class Slice(NamedTuple):
    """One turn of one server. Times are CLOCK_MONOTONIC nanoseconds.

    `ops` and `rows` are statements and rows of the headline's roles that ended in the counted part, `counted_ns` the
    mean of those roles' counted parts; `cpu_ns`, `cpu_ops` and `runq_ns` are of the whole slice. `leak_ns` is CPU time
    that the server used since its slice before this one, in others' slices. `stopped` processes were stopped after it;
    `switch_ns` is what passed from the end of its time until the gate of the next could open.
    """

    block: int
    place: int
    side: int
    opened_ns: int
    counted_from_ns: int
    counted_ns: int
    ops: int
    rows: int
    cpu_ns: int
    cpu_ops: int
    runq_ns: int
    leak_ns: int
    stopped: int
    switch_ns: int


SLICE = struct.Struct(f"<{len(Slice._fields)}q")


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
        """CPU time and run-queue wait of each process."""
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
    """A server under the conductor: what it had used at the end of its last slice, and what of it is stopped."""

    side: Side
    page: Page
    processes: Processes
    used: dict[int, tuple[int, int]] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)

    def open(self) -> int:
        """Continues what was stopped and opens the gate; returns when."""
        for pid in self.stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped = []
        return gate.open_now(self.page)

    def stop(self, which: Stopping, before: dict[int, tuple[int, int]]) -> None:
        """Stops background processes: those at work in the slice since `before`, or all."""
        for pid, (cpu_ns, _) in self.used.items():
            busy = cpu_ns - before.get(pid, (0, 0))[0] > BUSY_NS
            if pid not in self.side.backends and (which == "all" or (which == "busy" and busy)):
                self.stopped.append(pid)  # first: whatever happens, it is continued
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)

    @property
    def ended(self) -> bool:
        """Whether a headline role has ended, or the step is given up."""
        page = self.page
        return bool(page.words[Control.STOP]) or any(
            page.word(slot, Word.STATE) >= State.DONE for slot in self.side.headline
        )


class Conductor:
    """The loop over blocks and slices."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._unsent: deque[bytes] = deque()
        self._warm_ns: int | None = None  # decided by the first block, which is not counted
        self._driven = []
        for side in orders.sides:
            page = Page(side.page_fd, side.roles)
            gate.shut(page)
            self._driven.append(Driven(side, page, Processes(side.postmaster, side.monitor)))
        os.set_blocking(sys.stdout.fileno(), False)

    def run(self) -> None:
        """Conducts until there is nothing more to do; raises TimeoutError when a server does not go quiet."""
        try:
            if not self._await_start():
                return
            subjects = [side.subject for side in self.orders.sides]
            for block in blocks(subjects, self.orders.seed, self.orders.slice_ms):
                found = []
                for place, subject in enumerate(block.order):
                    if self._over():
                        return
                    found.append(self._slice(block.ordinal, place, subjects.index(subject), block.slice_ns))
                if self._warm_ns is None:
                    mean_ns = sum(each.counted_ns for each in found) / max(1, sum(each.ops for each in found))
                    self._warm_ns = WARM_NS if mean_ns < SLOW_STATEMENT_NS else 0
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for driven in self._driven:
                driven.open()
            self._send(last=True)

    def _await_start(self) -> bool:
        """Waits until every step has begun, with the gates shut."""
        while not all(driven.page.words[Control.START_NS] for driven in self._driven):
            if self._over():
                return False
            time.sleep(0.001)
        for driven in self._driven:
            gate.pause(driven.page, driven.page.words[Control.START_NS])
        latest_ns = max(driven.page.words[Control.START_NS] for driven in self._driven)
        time.sleep(max(0, latest_ns - time.monotonic_ns()) / 1e9)
        for driven in self._driven:
            driven.used = driven.processes.used_ns()
        return True

    def _over(self) -> bool:
        """Whether a step has ended or the engine is gone."""
        return any(driven.ended for driven in self._driven) or bool(select.select([sys.stdin], [], [], 0)[0])

    def _slice(self, block: int, place: int, side: int, length_ns: int) -> Slice:
        driven = self._driven[side]
        page, headline = driven.page, driven.side.headline
        before = driven.processes.used_ns()
        leak_ns = sum(cpu - driven.used.get(pid, (cpu, 0))[0] for pid, (cpu, _) in before.items())
        first = [count(page, slot) for slot in headline]
        opened_ns = driven.open()
        begun = self._warmed_up(driven, [each._replace(ended_ns=opened_ns) for each in first])
        until_ns = opened_ns + length_ns
        while (left_ns := until_ns - time.monotonic_ns()) > 0 and not driven.ended:
            time.sleep(min(left_ns / 1e9, 0.1))
        due_ns = time.monotonic_ns()
        gate.shut(page)
        self._await_quiet(driven)
        gate.pause(page, time.monotonic_ns())
        last = [count(page, slot) for slot in headline]
        driven.used = driven.processes.used_ns()
        driven.stop(self.orders.stop, before)
        used = [
            sum(now[which] - before.get(pid, (0, 0))[which] for pid, now in driven.used.items()) for which in (0, 1)
        ]
        made = Slice(
            block, place, side, opened_ns,
            counted_from_ns=min(each.ended_ns for each in begun),
            counted_ns=sum(
                max(0, end.ended_ns - start.ended_ns) for start, end in zip(begun, last, strict=True)
            ) // len(headline),
            ops=sum(end.statements - start.statements for start, end in zip(begun, last, strict=True)),
            rows=sum(end.rows - start.rows for start, end in zip(begun, last, strict=True)),
            cpu_ns=used[0],
            cpu_ops=sum(end.statements - start.statements for start, end in zip(first, last, strict=True)),
            runq_ns=used[1],
            leak_ns=leak_ns,
            stopped=len(driven.stopped),
            switch_ns=time.monotonic_ns() - due_ns,
        )  # fmt: skip
        if self._warm_ns is not None:
            self._unsent.append(SLICE.pack(*made))
        self._send()
        return made

    def _warmed_up(self, driven: Driven, opened: list[Count]) -> list[Count]:
        """Where counting begins: each role's first end of a statement after the warm part, if there is one."""
        if not self._warm_ns:
            return opened
        time.sleep(self._warm_ns / 1e9)
        begun = []
        for slot in driven.side.headline:
            warm = found = count(driven.page, slot)
            while found.statements == warm.statements and not driven.ended:
                time.sleep(LOOK_S)
                found = count(driven.page, slot)
            begun.append(found)
        return begun

    def _await_quiet(self, driven: Driven) -> None:
        until_s = time.monotonic() + QUIET_PATIENCE_S
        while not gate.is_quiet(driven.page):
            if time.monotonic() > until_s:
                raise TimeoutError(f"a statement has been in flight for {QUIET_PATIENCE_S:.0f} s after its slice")
            if driven.page.words[Control.STOP] or select.select([sys.stdin], [], [], 0)[0]:
                return
            time.sleep(LOOK_S)

    def _send(self, last: bool = False) -> None:
        """Hands records to the engine, which may be late: a slice never waits for it."""
        if last:
            os.set_blocking(sys.stdout.fileno(), True)
        while self._unsent:
            try:
                os.write(sys.stdout.fileno(), self._unsent[0])
            except (BlockingIOError, BrokenPipeError):
                return
            self._unsent.popleft()


def main() -> None:
    """Conducts as standard input says; one line on standard error and exit code 1 where that is not possible."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("slices: ended by SIGTERM"))  # nothing may stay stopped
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    conductor = Conductor(orders)
    sys.stdout.buffer.write(b"\n")
    sys.stdout.flush()
    try:
        conductor.run()
    except (OSError, TimeoutError) as error:
        sys.exit(f"slices: {error}")


if __name__ == "__main__":
    main()
