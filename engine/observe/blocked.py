"""Backends that are stopped, or wait for a lock, and since when: they make no progress, even if waiting is usual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.postgres.activity import Observed
from workloads.client.counter_page import Word

Ints = npt.NDArray[np.int64]

LOCK = "Lock:"  # a heavyweight lock: the beginning of its wait events


class _Block(NamedTuple):
    """Since when, and how many statements the role had executed by then."""

    since_ns: int
    done: int
    lasted_ns: int = 0  # in active time, at the last look


class Blocked:
    """The blocked connections of a step, by slot; `live` are the counters of all, as rows that change.

    A block of `least_ns` is a stall. Of statements younger than half of that, nothing is read.
    """

    def __init__(self, pids: Sequence[int], names: Sequence[str], live: Ints, least_ns: int, t_ns: int) -> None:
        self._pids, self._names, self._live = pids, names, live
        self._least_ns, self._old_ns = least_ns, least_ns // 2
        self._sought_ns = t_ns
        self._blocks: dict[int, _Block] = {}
        self._were_busy = np.zeros(len(pids), dtype=bool)  # at the last look, with uncounted statements
        self._done: Ints = np.zeros(len(pids), dtype=np.int64)  # statements then

    @property
    def slots(self) -> list[int]:
        return list(self._blocks)

    def since_ns(self, slot: int) -> int:
        """Since when a backend has been blocked, if it was seen to last: without looks it may be over. Else 0."""
        block = self._blocks.get(slot)
        return block.since_ns if block is not None and block.lasted_ns >= self._least_ns else 0

    def seek(
        self,
        ages_ns: Ints,
        observed: Observed,
        is_stopped: Callable[[int], bool],
        aged: Callable[[int], int],
        t_ns: int,
    ) -> None:
        """Look at those that have long been in a statement; `ages_ns` are of the statements in flight.

        A wait counts only while the role does nothing else: connections that take turns usually wait.
        `aged` converts an age to active time.
        """
        since_ns, self._sought_ns = self._sought_ns, t_ns
        old = np.flatnonzero(ages_ns > self._old_ns).tolist() + self._long_busy()
        stopped = {slot for slot in old if is_stopped(self._pids[slot])}
        waits = {slot: wait.event for slot in old if (wait := observed.waits.get(self._pids[slot]))}
        locked = {slot for slot in old if waits.get(slot, "").startswith(LOCK)} - stopped
        at_work = {self._names[slot] for slot in old if slot not in stopped | locked}
        done_by = {name: self._done_by(name) for name in {self._names[slot] for slot in locked}}
        before, self._blocks = self._blocks, {}
        for slot in stopped | {slot for slot in locked if self._names[slot] not in at_work}:
            done = done_by[self._names[slot]] if slot in locked else 0
            block = before.get(slot)
            if block is None or block.done != done:
                told_ns = observed.ages_ns.get(self._pids[slot], t_ns - since_ns)  # of uncounted statements
                sent_ns = t_ns - (int(ages_ns[slot]) or told_ns)
                was_old = since_ns - sent_ns > self._old_ns  # else its state was not read at the last look
                block = _Block(since_ns if was_old else sent_ns, done)
            self._blocks[slot] = block._replace(lasted_ns=aged(t_ns - block.since_ns))

    def _long_busy(self) -> list[int]:
        """Connections that have been in an uncounted statement since the last look, as far as can be seen."""
        busy, done = self._live[:, Word.BUSY] > 0, self._live[:, Word.STATEMENTS].copy()
        long = busy & self._were_busy & (done == self._done)
        self._were_busy, self._done = busy, done
        return np.flatnonzero(long).tolist()

    def _done_by(self, name: str) -> int:
        """The number of statements that a role has executed."""
        slots = [slot for slot, slot_name in enumerate(self._names) if slot_name == name]
        return int(self._live[slots, Word.STATEMENTS].sum())
