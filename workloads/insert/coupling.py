"""The coupling of one client's insert and delete streams: two processes, a ring of rounds, two eventfds.

The insert role makes the rounds (`workloads.insert.maker`). It writes each into a ring in its slot of the counters
page and counts it in `Word.ROUNDS_MADE`; the delete role reads it from there. Both count the statements that they
have begun in `Word.ROUNDS_STARTED`. Only those words are authoritative; an eventfd merely wakes the partner, so
continuing costs one non-blocking system call and waiting costs no CPU.

    word 192 + 3 * (round % 16)    go_ns, intended_ns, low_key
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from workloads.client.connection import lookup, open_connection
from workloads.client.counter_page import RING_OFFSET, Page, State, Word
from workloads.client.process import active, clock, untimed, wait_for, wait_once
from workloads.insert.maker import Maker

RING_ROUNDS = 16  # more than a queue on either side of the present round


@dataclass(frozen=True, slots=True)
class Partners:
    """The slots of one client's two streams and the descriptors that wake them. `delete_slot` None: no deletes."""

    insert_slot: int
    delete_slot: int | None
    wake_insert: int
    wake_delete: int
    drains: bool  # otherwise a stream ends as soon as the other has


class PartnerEnded(Exception):
    """The other stream has finished, and this generation does not drain."""


class LowKeyLookup:
    """Look up the smallest key while the insert stream continues, on its own connection, in its own thread.

    The reference's maker waits for a lookup, but its queues keep both streams going meanwhile. `kept`: one connection
    for all lookups; otherwise each opens one. In slices, a lookup begins and ends in the server's own slice.
    """

    def __init__(self, dsn: str, sql: str, kept: bool, wake_fd: int, page: Page, slot: int) -> None:
        self._dsn, self._sql, self._wake_fd = dsn, sql.encode(), wake_fd
        self._page, self._slot = page, slot
        self._kept = open_connection(dsn) if kept else None
        self._lookups = ThreadPoolExecutor(max_workers=1)
        self._running: Future[tuple[int, int]] | None = None

    def now(self) -> tuple[int, int]:
        """(low key, duration in ns); the key is 0 for an empty table."""
        with untimed(self._page, self._slot):
            began_ns = clock()
            return lookup(self._kept, self._dsn, self._sql), clock() - began_ns

    def poll(self) -> tuple[int, int] | None:
        """Start a lookup, or return the result of the one under way; None while it runs."""
        if self._running is None:
            self._running = self._lookups.submit(self.now)
            self._running.add_done_callback(lambda _: os.eventfd_write(self._wake_fd, 1))
            return None
        if not self._running.done():
            return None
        ended, self._running = self._running, None
        return ended.result()


class InsertGate:
    """Admits each statement of the insert role; makes the rounds on the way."""

    def __init__(self, page: Page, partners: Partners, maker: Maker, lookup: LowKeyLookup | None) -> None:
        self._page, self._words = page, page.words
        self._partners, self._maker, self._lookup = partners, maker, lookup
        self._base = base = page.slot(partners.insert_slot)
        self._ring = base + RING_OFFSET
        self._made, self._started = base + Word.ROUNDS_MADE, base + Word.ROUNDS_STARTED
        self._low_key = base + Word.LOW_KEY
        self._partner = None if partners.delete_slot is None else page.slot(partners.delete_slot)
        self._round = 0

    def enter(self, number: int) -> int:
        """Wait until the insert statement of this round may start; return its intended start in active time."""
        self._round = number
        if not self._ready():
            self._wait()
        ring = self._ring + 3 * (number % RING_ROUNDS)
        ready = self._maker.rounds_made > number
        intended_ns = self._words[ring + 1] if ready else self._maker.intended_ns
        self._words[self._started] = self._round = number + 1
        self._make()
        if self._partner is not None:
            os.eventfd_write(self._partners.wake_delete, 1)
        return intended_ns

    def finish(self) -> None:
        """Make the remaining rounds, for the last delete statements."""
        if self._maker.rounds_made < self._maker.rounds:
            wait_for(self._page, self._all_made, self._partners.wake_insert)
        if self._partner is not None:
            os.eventfd_write(self._partners.wake_delete, 1)

    def _all_made(self) -> bool:
        self._make()
        return self._maker.rounds_made >= self._maker.rounds or self._partner_ended()

    def _partner_ended(self) -> bool:
        return self._partner is not None and self._words[self._partner + Word.STATE] >= State.DONE

    def _make(self) -> None:
        words, maker = self._words, self._maker
        deletes_started = 0 if self._partner is None else words[self._partner + Word.ROUNDS_STARTED]
        while (round_made := maker.make(self._round, deletes_started, active(self._page))) is not None:
            ring = self._ring + 3 * (round_made.number % RING_ROUNDS)
            words[ring], words[ring + 1], words[ring + 2] = round_made.go_ns, round_made.intended_ns, round_made.low_key
            words[self._made] = round_made.number + 1
        if self._partner is not None and 0 < self._round <= maker.rounds_made:
            # Also if the round's lookup ended later: point queries would search for deleted keys until the next one.
            words[self._low_key] = words[self._ring + 3 * ((self._round - 1) % RING_ROUNDS) + 2]
        if maker.lookup_due and self._lookup is not None and (low := self._lookup.poll()) is not None:
            maker.looked_up(low[0])
            words[self._base + Word.MIN_LOOKUPS] += 1
            words[self._base + Word.MIN_LOOKUP_NS] += low[1]
            self._make()
            if self._partner is not None:
                os.eventfd_write(self._partners.wake_delete, 1)

    def _go_ns(self) -> int:
        if self._maker.rounds_made > self._round:
            return self._words[self._ring + 3 * (self._round % RING_ROUNDS)]
        return self._maker.go_ns

    def _ready(self) -> bool:
        self._make()
        if not self._partners.drains and self._partner_ended():
            raise PartnerEnded
        if self._maker.rounds_made < self._round:
            return False
        go_ns = self._go_ns()
        return go_ns == 0 or active(self._page) >= go_ns

    def _wait(self) -> None:
        began_ns = active(self._page)
        while not self._ready():
            held = self._maker.rounds_made < self._round
            until_ns = None if held else self._go_ns()
            wait_once(self._page, self._partners.wake_insert, until_ns)
            now_ns = active(self._page)
            self._words[self._base + (Word.COUPLED_NS if held else Word.LIMITED_NS)] += now_ns - began_ns
            began_ns = now_ns
