"""A meter of stolen time: how late threads are woken that nothing else on the machine may delay.

The hypervisor, or the firmware, takes a CPU away without a trace in the guest's counters. A thread that sleeps on that
CPU for a few milliseconds at a time, at a real-time priority, is then woken late; nothing that servers and clients do
makes it late. It sees a part of the time only: a CPU that is away for less than a thread's sleep is noticed by chance.
Without a real-time priority it runs at nice -20; without either there is no meter, as it would measure how busy the
servers are. A wake-up is dear in a guest, so wake-ups are few, and a meter that costs too much ends itself.

    python -m engine.slices.meter FD CPU...        until standard input ends

It writes into the page of the descriptor, which others read at no cost. What else disturbs slices, and what servers do
not cause, is how many tasks of others want a CPU: they are counted between slices, while no server has anything to do.
"""

from __future__ import annotations

import mmap
import os
import select
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

WAKES_PER_S = 50  # on all CPUs together
MOST_CPUS = 4
USUAL_NS = 250_000  # a thread may be woken so late on any machine
MOST_COST = 0.01  # of a CPU
SETTLED_NS = 2_000_000_000  # before its cost is judged
LOADAVG = "/proc/loadavg"


class Priority(IntEnum):
    """What delays the meter's threads, or why there is no meter."""

    UNKNOWN = 0
    REAL_TIME = 1
    NICE = 2
    NONE = 3
    TOO_DEAR = 4

    @property
    def on(self) -> bool:
        return self in (Priority.REAL_TIME, Priority.NICE)


WORDS = {
    Priority.REAL_TIME: "stolen time is measured at real-time priority",
    Priority.NICE: "stolen time is measured at nice -20, as there is no real-time priority",
    Priority.NONE: "stolen time is not measured: neither real-time priority nor nice -20 is permitted",
    Priority.TOO_DEAR: f"stolen time is not measured: the meter cost more than {MOST_COST:.0%} of a CPU",
    Priority.UNKNOWN: "stolen time is not measured: the meter did not start",
}


class _Word(IntEnum):
    PRIORITY = 0
    SINCE_NS = 1  # when it began
    CPU_NS = 2  # CPU time used since
    CPUS = 3
    LATE_NS = 4  # of the first CPU; others follow


class Meter(NamedTuple):
    """A meter's state; `cost` is its CPU time, as a fraction of one CPU's."""

    priority: Priority
    cost: float

    @property
    def text(self) -> str:
        cost = f", for {self.cost:.2%} of a CPU" if self.priority.on else ""
        return WORDS[self.priority] + cost


class MeterPage:
    """The page that a meter writes: words of 64 bits, each with one writer."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.words = memoryview(mmap.mmap(fd, mmap.PAGESIZE)).cast("q")

    @classmethod
    def create(cls) -> MeterPage:
        fd = os.memfd_create("pgbed-meter")
        os.ftruncate(fd, mmap.PAGESIZE)
        return cls(fd)

    def close(self) -> None:
        os.close(self.fd)

    @property
    def state(self) -> Meter:
        since_ns = self.words[_Word.SINCE_NS]
        lasted_ns = time.monotonic_ns() - since_ns
        cost = self.words[_Word.CPU_NS] / lasted_ns if since_ns and lasted_ns > 0 else 0.0
        return Meter(Priority(self.words[_Word.PRIORITY]), cost)

    def late_ns(self) -> int | None:
        """Stolen time so far, the mean of the CPUs; None without a meter."""
        count = self.words[_Word.CPUS]
        if not count or not Priority(self.words[_Word.PRIORITY]).on:
            return None
        return sum(self.words[_Word.LATE_NS : _Word.LATE_NS + count]) // count


class Machine:
    """What the conductor reads of the machine; each reading costs it some microseconds."""

    def __init__(self, page_fd: int) -> None:
        self._page = MeterPage(page_fd) if page_fd >= 0 else None
        self._loadavg = os.open(LOADAVG, os.O_RDONLY)

    def late_ns(self) -> int | None:
        return self._page.late_ns() if self._page is not None else None

    def stolen_ns(self, before_ns: int | None) -> int | None:
        """Stolen time since it was `before_ns`; None if it was not measured all the time."""
        now_ns = self.late_ns()
        return None if before_ns is None or now_ns is None else now_ns - before_ns

    def runnable(self, own: int = 0) -> int | None:
        """Tasks that have a CPU or wait for one, without this one and `own`; None if the kernel does not say."""
        with suppress(OSError, ValueError, IndexError):
            return max(0, int(os.pread(self._loadavg, 128, 0).split()[3].partition(b"/")[0]) - 1 - own)
        return None


def metered_cpus(bound: Iterable[int]) -> list[int]:
    """The CPUs to watch, of those to which clients are bound; a negative number stands for none."""
    return sorted({cpu for cpu in bound if cpu >= 0})[:MOST_CPUS]


def _prioritised() -> Priority:
    """Raise the calling thread's priority as far as is permitted."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return Priority.REAL_TIME
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        return Priority.NICE
    return Priority.NONE


def _watch(words: memoryview, place: int, cpu: int, sleep_s: float, begun: threading.Barrier) -> None:
    """Sleep on a CPU, again and again, and add up how late the wake-ups were."""
    with suppress(OSError):  # the CPU was taken away
        os.sched_setaffinity(0, {cpu})
    words[_Word.PRIORITY] = _prioritised()
    begun.wait()
    sleep_ns = int(sleep_s * 1e9)
    while Priority(words[_Word.PRIORITY]).on:
        began_ns = time.monotonic_ns()
        time.sleep(sleep_s)
        late_ns = time.monotonic_ns() - began_ns - sleep_ns
        if late_ns > USUAL_NS:
            words[_Word.LATE_NS + place] += late_ns


def run(page: MeterPage, cpus: Sequence[int]) -> None:
    """Measure until standard input ends, or the meter costs too much."""
    words = page.words
    begun = threading.Barrier(len(cpus) + 1)
    for place, cpu in enumerate(cpus):
        arguments = (words, place, cpu, len(cpus) / WAKES_PER_S, begun)
        threading.Thread(target=_watch, args=arguments, daemon=True).start()
    begun.wait()
    used_ns, words[_Word.SINCE_NS] = time.process_time_ns(), time.monotonic_ns()
    words[_Word.CPUS] = len(cpus)
    sys.stdout.write("\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        words[_Word.CPU_NS] = time.process_time_ns() - used_ns
        lasted_ns = time.monotonic_ns() - words[_Word.SINCE_NS]
        if page.state.priority.on and lasted_ns > SETTLED_NS and words[_Word.CPU_NS] > MOST_COST * lasted_ns:
            words[_Word.PRIORITY] = Priority.TOO_DEAR


if __name__ == "__main__":
    run(MeterPage(int(sys.argv[1])), [int(cpu) for cpu in sys.argv[2:]])
    os._exit(0)  # its threads sleep
