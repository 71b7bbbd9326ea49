"""Interleaves servers that are up side by side: one slice each, in blocks of an order and its mirror image.

A process of its own, so that the engine's writing never lengthens a slice. It alone opens and shuts the gates of the
counters pages (`workloads.client.client_gate`). A slice is over when its time is, or its rounds are made, and no
statement is in flight; then the counters are read, and background processes that were at work get SIGSTOP until their
server's next slice. The postmaster never does: it must obey its death signal. Clients that know no gate, such as
pgbench, get SIGSTOP when the time is over, wherever they are, and so do their backends; the work of such a slice
is reported later.

By time all slices of a block are of one length: for steps in which it does not matter how much was done. By work each
role of the primary metric makes as many rounds in all slices of a block, so that tables are of one size at its end:
for steps that have a fixed amount to do. How many is measured first, and follows when rounds become slower or faster.
Whole, for statements that last longer than slices: all processes of a server but the postmaster get SIGSTOP when its
time is over, and its clients see only active time. Such slices are longer: in slices of 20 ms an index build takes a
third more time, as caches hold the other server's pages. They alternate until each server has done its work; one
that is done keeps its turns, idle, so that the others run under the same conditions to their end. By time, too,
statements that may be `cut` are whole if in the first block they last longer than slices.

    python -m engine.slices.conductor        `Orders` as JSON on standard input, which stays open while the engine lives

Each slice of a complete block is a line of JSON on standard output, the fields of `Slice`; the first block is not
recorded, nor is an incomplete one at the end when a role has done its work (whole: every slice is). It ends when a
primary role has ended (by work: when all roles have; whole: when all primary ones have), when STOP is set, or when the
engine goes; whatever it stopped continues, and all gates are open.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Literal

import msgspec

from engine.core.lines import LineChannel
from engine.core.model import Subject
from engine.slices.block_order import LEAST_WHOLE_MS, WARM_NS, Block, SliceSeed, blocks, next_rounds, rounds_of
from engine.slices.slice_record import Slice
from engine.slices.sliced_server import Count, Processes, Side, SlicedServer, count
from workloads.client import client_gate, histogram, slice_times
from workloads.client.counter_page import UNLIMITED, Control, Page, Word

POLL_S = 50e-6  # between checks whether a server is quiet
EARLY_NS = 10_000_000  # start of the counted part, which should not be slower than the rest
END_POLL_S = 0.02  # between checks whether a role has ended, or the step is over
SLOW_STATEMENT_US = 1000  # a longer median leaves no warm part: the first statement would never count
QUIET_PATIENCE_S = 300.0
LATE_S = 0.01  # between checks for processes that a server that is held has started since
REMEMBERED = 16  # slices that determine the next ones' rounds


class Orders(msgspec.Struct, frozen=True):
    """The servers, the base first, the length of slices, and the seed of their order."""

    sides: tuple[Side, ...]
    slice_ms: float
    seed: SliceSeed
    by: Literal["time", "work", "whole"] = "time"
    cut: bool = False


class Conductor:
    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._unsent: deque[bytes] = deque()
        self._warm_ns: int | None = None  # decided by the first block, which is not counted
        self._by_work, self._whole = orders.by == "work", orders.by == "whole"
        self._rounds = 1  # of a slice: by work
        self._lengths: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)  # of slices, and their imbalance
        self._servers = []
        for side in orders.sides:
            server = SlicedServer(side, Page(side.page_fd, side.roles), Processes(side.postmaster, side.monitor))
            client_gate.shut(server.page)
            server.bind()
            if self._by_work:
                server.quota = server.page.words[Control.QUOTA] = 0
            self._servers.append(server)
        os.set_blocking(sys.stdout.fileno(), False)

    def run(self) -> None:
        """Interleave the servers until no work is left. Raises TimeoutError if a server does not become idle."""
        try:
            if self._await_start():
                if not self._whole:
                    self._conduct()
                if self._whole:  # from the beginning, or since statements turned out to last longer than slices
                    self._conduct_whole()
                if self._by_work:
                    self._finish()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for server in self._servers:
                server.quota = UNLIMITED
                server.open()
            self._send(last=True)

    def _conduct(self) -> None:
        subjects = [server.side.subject for server in self._servers]
        for block in blocks(subjects, self.orders.seed, self.orders.slice_ms):
            first = self._warm_ns is None
            if first and self.orders.cut:  # one statement of each is enough to see how long they are
                block = replace(block, order=block.order[: len(subjects)])
            slices = self._measure() if first and self._by_work else self._block(block, subjects)
            if slices is None:
                return
            if first and self.orders.cut and self._median_us() > 1000 * self.orders.slice_ms:
                self._whole = True
                return
            if first:
                self._warm_ns = self._warm_part()
            else:
                self._unsent.extend(msgspec.json.encode(slice) + b"\n" for slice in slices)
                self._send()

    def _conduct_whole(self) -> None:
        subjects = [server.side.subject for server in self._servers]
        for server in self._servers:
            server.whole, server.background = True, server.processes.pids() - set(server.side.backends)
            server.hold()
        for block in blocks(subjects, self.orders.seed, max(self.orders.slice_ms, LEAST_WHOLE_MS)):
            for place, subject in enumerate(block.order):
                if self._over():
                    return
                slice = self._cut_slice(block, place, subjects.index(subject))
                self._unsent.append(msgspec.json.encode(slice) + b"\n")
                self._send()

    def _block(self, block: Block, subjects: Sequence[Subject]) -> list[Slice] | None:
        rounds = rounds_of(block, self._rounds, self.orders.slice_ms) if self._by_work else 0
        slices = []
        for place, subject in enumerate(block.order):
            if self._over():
                return None
            slice = self._slice(block, place, subjects.index(subject), rounds)
            if slice is None:
                return None
            slices.append(slice)
        if self._by_work:
            self._follow()
        return slices

    def _measure(self) -> list[Slice] | None:
        """Work mode, first block: find the base's rounds per slice, checked twice as a first statement may be slow."""
        block = Block(0, (), round(self.orders.slice_ms * 1e6))
        done, rounds, long_enough = 0, 1, 0
        while long_enough < 2:
            if self._slice(block, 0, 0, rounds) is None:
                return None
            done += rounds
            length_ns, _ = self._lengths[-1]
            following = next_rounds(rounds, length_ns / 1e6, 0.0, self.orders.slice_ms)
            long_enough = long_enough + 1 if following == rounds else 0
            rounds = following
        for side in range(1, len(self._servers)):
            if self._slice(block, 0, side, done) is None:
                return None
        self._rounds = max(1, round(rounds * block.slice_ns / length_ns))
        self._lengths.clear()
        return []

    def _follow(self) -> None:
        """Work mode: adapt the rounds of the next blocks, for all sides."""
        lengths, imbalance = zip(*self._lengths, strict=True)
        rounds = next_rounds(self._rounds, median(lengths) / 1e6, sum(imbalance) / sum(lengths), self.orders.slice_ms)
        if rounds != self._rounds:
            self._rounds = rounds
            self._lengths.clear()

    def _finish(self) -> None:
        """Work mode: let each server finish its remaining rounds, uncounted, as these differ between servers.

        A finished server's gate stays open: a pause after its end would count as one before it.
        """
        for server in sorted(self._servers, key=lambda server: not server.page.words[Control.GATE]):
            server.quota = UNLIMITED
            server.open()
            while not server.done and not self._given_up():
                time.sleep(END_POLL_S)

    def _warm_part(self) -> int:
        """The uncounted start of each slice; 0 if counts come from a log, which may sample too coarsely for it."""
        if not all(server.gated for server in self._servers):
            return 0
        return 0 if self._median_us() > SLOW_STATEMENT_US else WARM_NS

    def _median_us(self) -> int:
        counts = histogram.merge(server.service() for server in self._servers)
        return histogram.quantile_us(counts, 0.5) or 0

    def _await_start(self) -> bool:
        """Wait, with the gates shut, until every step has begun."""
        while not all(server.page.words[Control.START_NS] for server in self._servers):
            if self._over():
                return False
            time.sleep(0.001)
        for server in self._servers:
            client_gate.pause(server.page, server.page.words[Control.START_NS])
        latest_ns = max(server.page.words[Control.START_NS] for server in self._servers)
        time.sleep(max(0, latest_ns - time.monotonic_ns()) / 1e9)
        for server in self._servers:
            server.used = server.processes.used_ns()
        return True

    def _over(self) -> bool:
        if self._whole:
            return all(server.finished for server in self._servers) or self._given_up()
        return any(server.ended for server in self._servers) or self._given_up()

    def _given_up(self) -> bool:
        return any(server.given_up for server in self._servers) or bool(select.select([sys.stdin], [], [], 0)[0])

    def _slice(self, block: Block, place: int, side: int, rounds: int) -> Slice | None:
        """Run one turn of `rounds` rounds, or of the block's time if that is 0. None if a role ended before."""
        server = self._servers[side]
        if not server.gated:
            return self._cut_slice(block, place, side)
        page = server.page
        before_ns, before = time.monotonic_ns(), server.processes.used_ns()
        spill_over_ns = server.spill_over_ns(before)
        first = server.counts()
        server.quota += rounds
        opened_ns = server.open()
        begun = early = [end._replace(ended_ns=opened_ns) for end in first]
        if self._warm_ns:
            begun = self._next_ends(server, self._warm_ns)
            early = self._next_ends(server, EARLY_NS)
        if rounds and not self._await_rounds(server):
            return None
        if not rounds:
            server.work_until(opened_ns + block.slice_ns)
        due_ns = time.monotonic_ns()
        client_gate.shut(page)
        self._await_quiet(server)
        client_gate.pause(page, time.monotonic_ns())
        last = server.counts()
        ends = [end.ended_ns for end in last]
        imbalance_ns = max(ends) - min(ends) if rounds else 0
        if rounds:
            due_ns = max(ends)
            self._lengths.append((due_ns - opened_ns, imbalance_ns))
        server.used = server.processes.used_ns()
        server.stop_busy(before)
        counted_ns, ops = _between(begun, last)
        early_ns, early_ops = _between(begun, early)
        cpu_ns, runq_ns = server.used_since(before, before_ns)
        return Slice(
            block.ordinal, place, side, opened_ns,
            counted_from_ns=min(end.ended_ns for end in begun),
            counted_ns=counted_ns,
            ops=ops,
            rows=sum(end.rows - start.rows for start, end in zip(begun, last, strict=True)),
            cpu_ns=cpu_ns,
            cpu_ops=sum(end.statements - start.statements for start, end in zip(first, last, strict=True)),
            runq_ns=runq_ns,
            spill_over_ns=spill_over_ns,
            stopped=len(server.stopped),
            switch_ns=time.monotonic_ns() - due_ns,
            imbalance_ns=imbalance_ns,
            early_ns=early_ns,
            early_ops=early_ops,
        )  # fmt: skip

    def _cut_slice(self, block: Block, place: int, side: int) -> Slice:
        """Run one turn of a server that is stopped wherever it is: all of it counts, and its counts come later."""
        server = self._servers[side]
        before_ns, before = time.monotonic_ns(), server.processes.used_ns()
        spill_over_ns = server.spill_over_ns(before)
        opened_ns = server.open()
        turn = -1 if self._whole else slice_times.begun(server.page) - 1
        work = self._hold_others if self._whole else SlicedServer.work_until
        work(server, opened_ns + block.slice_ns)
        halted_ns = server.halt()
        server.used = server.processes.used_ns()
        if not self._whole:
            server.stop_busy(before)
        cpu_ns, runq_ns = server.used_since(before, before_ns)
        return Slice(
            block.ordinal, place, side, opened_ns,
            counted_from_ns=opened_ns,
            counted_ns=halted_ns - opened_ns,
            ops=0,
            rows=0,
            cpu_ns=cpu_ns,
            cpu_ops=0,
            runq_ns=runq_ns,
            spill_over_ns=spill_over_ns,
            stopped=len(server.stopped) + len(server.clients),
            switch_ns=time.monotonic_ns() - halted_ns,
            imbalance_ns=0,
            turn=turn,
        )  # fmt: skip

    def _hold_others(self, server: SlicedServer, until_ns: int) -> None:
        """Let one server work until then, also one that is done; stop what others' postmasters start meanwhile."""
        others = [other for other in self._servers if other is not server]
        while (left_ns := until_ns - time.monotonic_ns()) > 0 and not self._given_up():
            time.sleep(min(left_ns / 1e9, LATE_S))
            for other in others:
                other.hold()

    def _next_ends(self, server: SlicedServer, after_ns: int) -> list[Count]:
        """Each primary role at its first statement's end after this time, or when it has finished."""
        time.sleep(after_ns / 1e9)
        ends = []
        for slot in server.side.primary_slots:
            before = now = count(server.page, slot)
            while now.statements == before.statements and not server.ended and not server.used_quota(slot):
                time.sleep(POLL_S)
                now = count(server.page, slot)
            ends.append(now)
        return ends

    def _await_rounds(self, server: SlicedServer) -> bool:
        for slot in server.side.primary_slots:
            word = server.page.slot(slot) + Word.QUOTA_USED
            while (used := server.page.words[word]) < server.quota:
                if server.ended or self._given_up():
                    return False
                client_gate.wait_while(server.page, word, used, END_POLL_S)
        return True

    def _await_quiet(self, server: SlicedServer) -> None:
        until_s = time.monotonic() + QUIET_PATIENCE_S
        while not client_gate.is_quiet(server.page):
            if time.monotonic() > until_s:
                raise TimeoutError(f"a statement has been in flight for {QUIET_PATIENCE_S:.0f} s after its slice")
            if server.page.words[Control.STOP] or select.select([sys.stdin], [], [], 0)[0]:
                return
            time.sleep(POLL_S)

    def _send(self, last: bool = False) -> None:
        """Hand lines to the engine, which may be late: a slice never waits for it. A pipe takes a short line whole."""
        if last:
            os.set_blocking(sys.stdout.fileno(), True)
        while self._unsent:
            try:
                os.write(sys.stdout.fileno(), self._unsent[0])
            except (BlockingIOError, BrokenPipeError):
                return
            self._unsent.popleft()


def _between(first: Sequence[Count], last: Sequence[Count]) -> tuple[int, int]:
    """The mean time between two counts of some roles, and the statements that ended in it."""
    pairs = list(zip(first, last, strict=True))
    ns = sum(max(0, end.ended_ns - start.ended_ns) for start, end in pairs) // len(pairs)
    return ns, sum(end.statements - start.statements for start, end in pairs)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("slices: ended by SIGTERM"))  # nothing may stay stopped
    orders = msgspec.json.decode(LineChannel(sys.stdin.fileno()).receive(), type=Orders)
    conductor = Conductor(orders)
    sys.stdout.buffer.write(b"\n")
    sys.stdout.flush()
    try:
        conductor.run()
    except (OSError, TimeoutError) as error:
        sys.exit(f"slices: {error}")


if __name__ == "__main__":
    main()
