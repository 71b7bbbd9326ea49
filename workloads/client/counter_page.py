"""The shared counters page: a client process counts in it and the engine reads it, without either waiting.

One page serves one step. It is an anonymous memory file (`memfd`), so write-back can never stall a client. All words
are signed 64-bit integers of the machine's byte order; each has one writer, and an aligned word is read whole, so no
lock is needed.

words 0..63            the control block, written by the engine (`Control`)
then one slot per role `SLOT_WORDS` words, written by that role's process:
    words 0..63        the role's counters (`Word`)
    64..191            the text of its error, UTF-8, zero padded (1 KiB)
    192..239           insert role: the ring of rounds made, see `workloads.insert.coupling`
    256..3583          histogram of service time (send to last row), see `workloads.client.histogram`
    3584..6911         histogram of response time from the intended start (rate-limited roles only)
then the turns of a server whose clients ignore the gate, see `workloads.client.slice_times`

Times are CLOCK_MONOTONIC nanoseconds.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from enum import IntEnum

from workloads.client import histogram

CONTROL_WORDS = 64
SLOT_WORDS = 7168
ERROR_OFFSET, ERROR_BYTES = 64, 1024
RING_OFFSET = 192
SERVICE_OFFSET = 256
RESPONSE_OFFSET = SERVICE_OFFSET + histogram.BUCKETS
# The engine reads the counts this long after the full seconds of the step, when the limiter releases its bursts: a
# burst that fell on a reading would be counted now in one second, now in the next.
READ_OFFSET_NS = 100_000_000
KEPT_TURNS, TURN_WORDS = 4096, 4  # turns of 50 ms: more than three minutes
UNLIMITED = 2**63 - 1  # as a quota


class Control(IntEnum):
    """Words of the control block; the engine writes, every role reads.

    STOP and CHANGED_NS are exceptions: a role that fails, and the launcher when a role dies, also sets STOP, which
    only ever goes from 0 to 1.
    """

    START_NS = 0  # 0 until the engine opens the barrier; then the step's start
    STOP = 1  # 1: give up now (a partner failed, or the run is being stopped)
    RELEASE = 2  # 1: the end snapshot has been taken, disconnect and exit
    GATE = 3  # 1: statements may be sent; 0: another server's slice, see `workloads.client.client_gate`
    PAUSED_NS = 4  # total pause of the server; written before the gate opens
    PAUSED_SINCE_NS = 5  # start of the present pause: the gate is shut, and no statement in flight; else 0
    QUOTA = 6  # rounds of the step, from its start, that may be begun: see `workloads.client.client_gate`
    PAUSED_BEFORE_NS = 7  # PAUSED_NS at the start of the present pause
    TURNS = 8  # turns begun, with clients that ignore the gate: see `workloads.client.slice_times`
    ELSEWHERE = 9  # 1: the client processes run on another machine; their kernel's counters are in their slots
    LATENCY_NS = 10  # round trip of an order to remote clients
    CHANGED_NS = 11  # when a role last ended: set by roles, which wake the engine; see `client_gate.tell_change`


class State(IntEnum):
    STARTING = 0
    READY = 1  # connected, everything prepared, waiting at the barrier
    RUNNING = 2
    DONE = 3  # its work is done; still connected, waiting for RELEASE
    FAILED = 4  # its error text says why
    STOPPED = 5  # obeyed STOP


class Word(IntEnum):
    STATE = 0
    CLIENT_PID = 1
    BACKEND_PID = 2
    STARTED_NS = 3
    ENDED_NS = 4
    STATEMENTS = 5  # finished statements
    ROWS = 6  # rows requested, as the reference client counts (R per insert or delete, 10 per query)
    ROWS_ACTUAL = 7  # rows the server reported as inserted, deleted or returned
    IN_FLIGHT_NS = 8  # when the statement in flight was sent; 0 if none is
    SERVICE_NS = 9  # sum of service times
    MAX_NS = 10  # longest service time of the step
    ROUNDS_MADE = 11  # insert role: rounds released by limiter and lead
    LOW_KEY = 12  # insert role: the published lower key bound
    MIN_LOOKUPS = 13
    MIN_LOOKUP_NS = 14
    MAX_LOOKUPS = 15
    SHORT_DELETES = 16  # delete statements that removed a number of rows other than R
    LIMITED_NS = 17  # time slept by the rate limiter
    COUPLED_NS = 18  # time spent waiting for the partner stream
    CONNECT_NS = 20
    LATE_MAX_NS = 21  # longest response time from the intended start
    ROUNDS_STARTED = 23  # insert and delete roles: statements begun
    LAST_ENDED_NS = 22  # when the last finished statement ended; 0 while STATEMENTS and ROWS are being updated
    CPU_PLUS_1 = 24  # the CPU that the role and its backend are bound to (maybe by the conductor), plus 1; else 0
    SERIALIZATION = 42  # transactions that failed: not serializable
    DEADLOCK = 43  # in a deadlock
    FAILED = 44  # for another reason
    RETRIED = 45  # transactions that were retried
    RETRIES = 46  # all retries
    SKIPPED = 47  # transactions that were due but never begun
    LATE = 48  # transactions that took longer than the limit
    DROPPED = 49  # transactions in flight when their server was stopped for another one's slice: no time
    BUSY = 25  # 1 while an uncounted statement runs: a lookup, BEGIN, COMMIT
    QUOTA_USED = 26  # rounds made when the role last used up its quota, and waited for a larger one
    CLIENT_CPU_NS = 27  # of a client process on another machine, since it began, by its kernel; the following, too:
    CLIENT_RUNQ_NS = 28
    CLIENT_VOLUNTARY = 29
    CLIENT_INVOLUNTARY = 30
    CLIENT_STATE = 31  # the kernel's letter
    BUCKET_0 = 32  # the reference's ten counters, `histogram.REFERENCE_BUCKETS`, words 32..41


# Outcomes of transactions other than success in time at the first try, by their names in records.
OUTCOMES = {
    word.name.lower(): word
    for word in (
        Word.SERIALIZATION,
        Word.DEADLOCK,
        Word.FAILED,
        Word.RETRIED,
        Word.RETRIES,
        Word.SKIPPED,
        Word.LATE,
        Word.DROPPED,
    )
}


class Page:
    """A mapped counters page. `words` is a memoryview of signed 64-bit words."""

    def __init__(self, fd: int, roles: int) -> None:
        self.fd = fd
        self.roles = roles
        self._map = mmap.mmap(fd, page_bytes(roles))
        self.bytes = memoryview(self._map)
        self.words = self.bytes.cast("q")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    @classmethod
    def create(cls, roles: int) -> Page:
        """A new, zeroed page for `roles` roles. The descriptor is inheritable: hand it to the launcher."""
        fd = os.memfd_create("pgbed-counters", 0)
        os.ftruncate(fd, page_bytes(roles))
        page = cls(fd, roles)
        page.words[Control.GATE] = 1
        page.words[Control.QUOTA] = UNLIMITED
        return page

    def address(self, index: int) -> int:
        """Memory address of a word in this process, for the kernel."""
        return self._address + 8 * index

    def slot(self, role: int) -> int:
        return CONTROL_WORDS + role * SLOT_WORDS

    @property
    def turns(self) -> int:
        return self.slot(self.roles)

    def word(self, role: int, word: Word) -> int:
        return self.words[self.slot(role) + word]

    def counters(self, role: int) -> list[int]:
        first = self.slot(role)
        return self.words[first : first + ERROR_OFFSET].tolist()

    def set_word(self, role: int, word: Word, value: int) -> None:
        """Write a counter of a role; only that role's process may."""
        self.words[self.slot(role) + word] = value

    def error(self, role: int) -> str:
        """The error text of a failed role, else empty."""
        start = (self.slot(role) + ERROR_OFFSET) * 8
        return bytes(self.bytes[start : start + ERROR_BYTES]).rstrip(b"\0").decode(errors="replace")

    def set_error(self, role: int, text: str) -> None:
        start = (self.slot(role) + ERROR_OFFSET) * 8
        data = text.encode()[: ERROR_BYTES - 1]
        self.bytes[start : start + len(data)] = data

    def counts(self, role: int, offset: int = SERVICE_OFFSET) -> memoryview:
        first = self.slot(role) + offset
        return self.words[first : first + histogram.BUCKETS]

    def close(self) -> None:
        self.words.release()
        self.bytes.release()
        self._map.close()
        os.close(self.fd)


def page_bytes(roles: int) -> int:
    return (CONTROL_WORDS + roles * SLOT_WORDS + KEPT_TURNS * TURN_WORDS) * 8
