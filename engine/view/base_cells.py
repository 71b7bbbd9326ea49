"""The base's finished cells as the yardstick of one that is under way: at equal work, not the whole against a part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from statistics import median

from engine.core.model import Cell
from engine.journal.reader import Attempt, JournalReader
from engine.view.step_series import StepSeries


class BaseCells:
    """What finished cells of the base did in each step. Read once, as nothing is added to them."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._cells = {cell.id: cell.subject for cell in reader.manifest.cells}
        self._rates = cache(reader.rates)
        self._series = cache(self._read)

    def attempts(self, cell: Cell | None, attempts: Iterable[Attempt]) -> list[int]:
        """Those at the base's cells of the same config and kernel that have finished."""
        if cell is None:
            return []
        manifest, subject = self._reader.manifest, cell.subject
        first = next(iter(manifest.arms), "")
        base = replace(subject, arm="", workload=first)
        if subject.workload == first:  # else its own build under the first workload
            base = replace(base, build=manifest.base)
        return [each.id for each in attempts if each.state == "finished" and self._cells.get(each.cell) == base]

    def rate(self, attempts: Iterable[int], step: str) -> float | None:
        """The median rate over a whole step."""
        rates = [rate for attempt in attempts if (rate := self._rates(attempt).get(step))]
        return median(rates) if rates else None

    def relative(self, attempts: Iterable[int], series: StepSeries, kind: str, at_ns: int) -> float | None:
        """The rate up to a time over that of the base, the median of its cells, up to the same point of the step.

        A step has points that are alike by its work, where that is fixed (tables grow, and rates fall), else by its
        length. None where the base never came so far.
        """
        done, worked_s = series.done(kind, at_ns), series.worked_s(at_ns)
        found = []
        for attempt in attempts:
            base = self._series(attempt, series.step.name)
            if base is None or not worked_s:
                continue
            if series.step.work and kind == "insert":
                base_s = base.worked_for(kind, done)
                found += [base_s / worked_s] if base_s else []
            else:
                base_done = base.done_after(kind, worked_s)
                found += [done / base_done] if base_done else []
        return median(found) if found else None

    def _read(self, attempt: int, name: str) -> StepSeries | None:
        step = next((step for step in self._reader.steps(attempt) if step.name == name), None)
        if step is None:
            return None
        series = StepSeries(self._reader, step)
        series.catch_up()
        return series
