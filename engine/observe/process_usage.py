"""Resource usage of a step's connections' processes: a row for each, a column for each counter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.host.procfs import Task

Ints = npt.NDArray[np.int64]

COUNTERS = slice(Task._fields.index("cpu_ns"), Task._fields.index("write_bytes") + 1)
NOTHING = (0,) * (COUNTERS.stop - COUNTERS.start)


class Used(NamedTuple):
    cpu_ns: Ints
    runq_ns: Ints
    switches: Ints
    read_bytes: Ints
    write_bytes: Ints
    involuntary: Ints


class Tasks:
    """Processes of connections: usage in the last interval, and since each was first seen."""

    def __init__(self, tasks: Sequence[Task | None]) -> None:
        self._first = self._last = _counters(tasks)
        self._from_first = self._seen = _there(tasks)
        self.states = [task.state if task is not None else "" for task in tasks]

    def take(self, tasks: Sequence[Task | None]) -> Used:
        """Return each process's usage since the last reading. One that has exited uses nothing more."""
        there = _there(tasks)
        now = np.where(there[:, None], _counters(tasks), self._last)
        used = np.where(self._seen[:, None], now - self._last, 0)
        self._seen, self._last = self._seen | there, now
        self.states = [task.state if task else state for task, state in zip(tasks, self.states, strict=True)]
        return _used(used)

    def used(self) -> Used:
        """Usage since this was created; 0 for processes that were not there then."""
        return _used(np.where(self._from_first[:, None], self._last - self._first, 0))


def _there(tasks: Sequence[Task | None]) -> npt.NDArray[np.bool_]:
    return np.array([task is not None for task in tasks], dtype=bool)


def _counters(tasks: Sequence[Task | None]) -> Ints:
    rows = [NOTHING if task is None else task[COUNTERS] for task in tasks]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(NOTHING))


def _used(counters: Ints) -> Used:
    cpu_ns, runq_ns, _, voluntary, involuntary, read_bytes, write_bytes = counters.T
    return Used(cpu_ns, runq_ns, voluntary + involuntary, read_bytes, write_bytes, involuntary)
