"""Slices of a step on their way to the journal; those whose counts come later wait for them."""

from __future__ import annotations

from collections import deque

from engine.journal.rows import SliceRow
from engine.journal.writer import JournalWriter
from engine.slices.slice_record import Slice
from workloads.client import slice_times
from workloads.client.counter_page import KEPT_TURNS, Page


class SliceRecord:
    def __init__(self, journal: JournalWriter, step: int, page: Page) -> None:
        self._journal, self._step, self._page = journal, step, page
        self._waiting: deque[Slice] = deque()

    def add(self, new: Slice) -> None:
        self._waiting.append(new)

    def keep(self) -> None:
        """Record, in order, the slices whose counts are known."""
        while self._waiting:
            counted = self._counted(self._waiting[0])
            if counted is not None:
                row = {name: value for name, value in counted._asdict().items() if name not in ("side", "turn")}
                self._journal.add_slice(SliceRow(step_id=self._step, **row))
            elif slice_times.begun(self._page) - self._waiting[0].turn < KEPT_TURNS:
                break
            self._waiting.popleft()  # its counts will never arrive

    def _counted(self, slice: Slice) -> Slice | None:
        if slice.turn < 0:
            return slice
        before, after = slice_times.reported(self._page, slice.turn - 1), slice_times.reported(self._page, slice.turn)
        return None if before is None or after is None else slice._replace(ops=after - before, cpu_ops=after - before)
