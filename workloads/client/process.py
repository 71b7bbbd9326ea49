"""Common work of every role's process: it names itself, waits at the barrier, obeys STOP, counts.

The measured path is `record`: a few words of shared memory, no allocation that outlives the statement.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from psycopg.pq import abc

from workloads.client import client_gate, histogram, placement
from workloads.client.counter_page import RESPONSE_OFFSET, SERVICE_OFFSET, Control, Page, State, Word

# Variable that names the command for Python on a host without an installed Python.
PYTHON = "PGBED_PYTHON"
STOP_CHECK_S = 0.1
BARRIER_EVERY_S = 0.002
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
SIGKILL = 9
BOUNDS_NS = tuple(bound for _, bound in histogram.REFERENCE_BUCKETS if bound is not None)

clock = time.monotonic_ns
RecordFn = Callable[[int, int, int, int], None]


class Stopped(Exception):
    """STOP was set: give up; this is not a failure."""


def name_process(name: str) -> None:
    """Set the name that `ps` and `top` show (15 bytes)."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # the parent ended before the request was made
        os._exit(1)


def stop_on_signals(page: Page) -> None:
    """Let SIGTERM and Ctrl-C set STOP: a launcher ends its step in good order."""

    def stop(_signal: int, _frame: object) -> None:
        page.words[Control.STOP] = 1

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def check_stop(page: Page) -> None:
    if page.words[Control.STOP]:
        raise Stopped


def active(page: Page) -> int:
    """The clock of limiters and intended starts: it stops during pauses (see `workloads.client.client_gate`)."""
    return client_gate.active_ns(page, clock())


def await_slice(page: Page, slot: int) -> int:
    """Wait at the gate, with no statement in flight; mark the next one as begun and return its start time."""
    words, in_flight = page.words, page.slot(slot) + Word.IN_FLIGHT_NS
    while True:
        words[in_flight] = 0
        while not words[Control.GATE]:
            check_stop(page)
            client_gate.wait_while_shut(page, STOP_CHECK_S)
        words[in_flight] = began_ns = clock()
        if words[Control.GATE]:
            return began_ns


def await_quota(page: Page, slot: int, number: int) -> None:
    """Wait until round `number`, from 0, may begin. If the quota is used up, record that `number` rounds are done."""
    words, used = page.words, page.slot(slot) + Word.QUOTA_USED
    words[used] = number
    client_gate.wake(page, used)
    while number >= (quota := words[Control.QUOTA]):
        check_stop(page)
        client_gate.wait_while(page, Control.QUOTA, quota, STOP_CHECK_S)


@contextlib.contextmanager
def untimed(page: Page, slot: int) -> Iterator[None]:
    """Let a role send uncounted statements: they, too, are sent in the server's own slices, and end in them."""
    while True:
        page.set_word(slot, Word.BUSY, 1)
        if page.words[Control.GATE]:
            break
        page.set_word(slot, Word.BUSY, 0)
        check_stop(page)
        client_gate.wait_while_shut(page, STOP_CHECK_S)
    try:
        yield
    finally:
        page.set_word(slot, Word.BUSY, 0)


def sleep_until(page: Page, until_ns: int) -> None:
    """Sleep until a time of the active clock, in parts, so that STOP is seen."""
    while (left_ns := until_ns - active(page)) > 0:
        check_stop(page)
        if page.words[Control.PAUSED_SINCE_NS]:
            client_gate.wait_while_shut(page, STOP_CHECK_S)
        else:
            time.sleep(min(left_ns / 1e9, STOP_CHECK_S))


def wait_once(page: Page, wake_fd: int, until_ns: int | None = None) -> None:
    """Block until `wake_fd` (an eventfd) is written, active time is `until_ns`, or it is time to check STOP."""
    check_stop(page)
    if until_ns is not None and page.words[Control.PAUSED_SINCE_NS]:
        client_gate.wait_while_shut(page, STOP_CHECK_S)  # the time cannot come during a pause
        return
    timeout_s = STOP_CHECK_S
    if until_ns is not None:
        timeout_s = min(timeout_s, max(0, until_ns - active(page)) / 1e9)
    if select.select([wake_fd], [], [], timeout_s)[0]:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(wake_fd)


def wait_for(page: Page, ready: Callable[[], bool], wake_fd: int) -> None:
    """Block until `ready()`, which is called again whenever `wake_fd` is written."""
    while not ready():
        wait_once(page, wake_fd)


@dataclass(frozen=True, slots=True)
class Gates:
    """The pipes on which a step's roles wait without polling: their reading ends.

    The launcher holds the writing ends, watches the page for all roles, and closes an end when the engine opens the
    barrier or releases the roles, or wants them to stop. Hundreds of polling processes would keep the machine busy
    while others still have to connect.
    """

    start_fd: int
    release_fd: int

    @classmethod
    def create(cls) -> tuple[Gates, tuple[int, int]]:
        """Shut gates, and the descriptors that open them when closed: start, release."""
        start, release = os.pipe(), os.pipe()
        return cls(start[0], release[0]), (start[1], release[1])

    def await_start(self, page: Page, slot: int) -> int:
        """Report READY, wait for the engine to open the barrier, report RUNNING; return the step's start."""
        page.set_word(slot, Word.STATE, State.READY)
        select.select([self.start_fd], [], [])
        check_stop(page)
        start_ns = page.words[Control.START_NS]
        sleep_until(page, start_ns)
        page.set_word(slot, Word.STARTED_NS, clock())
        page.set_word(slot, Word.STATE, State.RUNNING)
        return start_ns

    def await_release(self) -> None:
        """Keep the connection until the engine has taken its end snapshot, or the step is abandoned."""
        select.select([self.release_fd], [], [])


def begin_alone(page: Page) -> None:
    """Wait at the barrier as the only role of a step, until it begins."""
    page.set_word(0, Word.STATE, State.READY)
    while not page.words[Control.START_NS]:
        check_stop(page)
        time.sleep(BARRIER_EVERY_S)
    while clock() < page.words[Control.START_NS]:
        time.sleep(BARRIER_EVERY_S / 4)
    page.set_word(0, Word.STARTED_NS, clock())
    page.set_word(0, Word.STATE, State.RUNNING)


def end_alone(page: Page, ended_ns: int) -> None:
    """Report the end of the only role's work, and wait until the engine has taken its end snapshot."""
    page.set_word(0, Word.IN_FLIGHT_NS, 0)
    page.set_word(0, Word.ENDED_NS, ended_ns)
    page.set_word(0, Word.STATE, State.DONE)
    client_gate.tell_change(page)
    while not page.words[Control.RELEASE]:
        time.sleep(BARRIER_EVERY_S)


def pair_with_backend(page: Page, slot: int, connection: abc.PGconn, place: int) -> None:
    """Bind this process and its backend to one CPU, where possible: same host, same user.

    The two alternate, so neither loses; it saves waking an idle CPU for every message, which in a virtual machine costs
    more than a short query.
    """
    if not _is_on_this_machine(connection):
        return
    cpus = placement.cpus()
    with contextlib.suppress(PermissionError, ProcessLookupError):
        placement.bind(page, slot, connection.backend_pid, 0, cpus[place % len(cpus)])


def _is_on_this_machine(connection: abc.PGconn) -> bool:
    """Whether the server runs here: by its socket, or by an address that is also the client's."""
    if connection.host.startswith(b"/"):
        return True
    with socket.socket(fileno=os.dup(connection.socket)) as ours:
        return bool(ours.getsockname()[0] == ours.getpeername()[0])


def recorder(page: Page, slot: int, rows_per_statement: int, *, limited: bool = False) -> RecordFn:
    """A function to call after every statement with (began_ns, ended_ns, rows_actual, intended_ns).

    It clears the mark of the statement in flight and counts. `limited` roles also have a response time from the
    intended start. Counts are kept in locals and written through: this process is their only writer.
    """
    words = page.words
    base = page.slot(slot)
    in_flight, counters, last_ended = base + Word.IN_FLIGHT_NS, base + Word.STATEMENTS, base + Word.LAST_ENDED_NS
    rows_word, actual_word = base + Word.ROWS, base + Word.ROWS_ACTUAL
    service_word, longest_word, late_word = base + Word.SERVICE_NS, base + Word.MAX_NS, base + Word.LATE_MAX_NS
    service, response = base + SERVICE_OFFSET, base + RESPONSE_OFFSET
    bucket_0, bounds, bisect, index = base + Word.BUCKET_0, BOUNDS_NS, bisect_left, histogram.index
    statements = rows = actual = service_ns = longest_ns = late_ns = 0

    def record(began_ns: int, ended_ns: int, rows_actual: int, intended_ns: int) -> None:
        nonlocal statements, rows, actual, service_ns, longest_ns, late_ns
        took_ns = ended_ns - began_ns
        words[last_ended] = 0  # invalid until counts and time belong together again
        words[counters] = statements = statements + 1
        words[rows_word] = rows = rows + rows_per_statement
        words[last_ended] = ended_ns
        words[in_flight] = 0  # last, so that a role that looks quiet has counted its statement
        words[actual_word] = actual = actual + rows_actual
        words[service_word] = service_ns = service_ns + took_ns
        if took_ns > longest_ns:
            words[longest_word] = longest_ns = took_ns
        us = took_ns // 1000
        words[service + (us if us < 256 else index(us))] += 1
        words[bucket_0 + bisect(bounds, took_ns)] += 1
        if limited:
            took_ns = max(0, ended_ns - intended_ns)
            words[response + index(took_ns // 1000)] += 1
            if took_ns > late_ns:
                words[late_word] = late_ns = took_ns

    return record
