"""Finished base cells as the yardstick for one under way: at equal work, not the whole against a part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from statistics import median

from engine.core.model import Cell
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt
from engine.view.ghost import BaseCurve, base_place
from engine.view.step_series import StepSeries


class BaseCells:
    """Results of the base's finished cells. Read once, as they no longer change."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._cells = {cell.id: cell.subject for cell in reader.manifest.cells}
        self.rates = cache(reader.rates)  # of a finished attempt by step
        self._series = cache(self._read)
        self._of: tuple[int, int, str] | None = None  # key of the ghost: (cell, series, kind of role)
        self._ghost: BaseCurve | None = None

    def attempts(self, cell: Cell | None, attempts: Iterable[Attempt]) -> list[int]:
        """Finished attempts at the base's cells of the same config and kernel."""
        if cell is None:
            return []
        base = replace(cell.subject, control="", build=self._reader.manifest.design.base)
        return [
            attempt.id for attempt in attempts if attempt.state == "finished" and self._cells.get(attempt.cell) == base
        ]

    def rate(self, attempts: Iterable[int], step: str) -> float | None:
        rates = [rate for attempt in attempts if (rate := self.rates(attempt).get(step))]
        return median(rates) if rates else None

    def relatives(self, attempts: Iterable[int], series: StepSeries, kind: str, at_ns: int) -> list[float]:
        """Rate so far over that of each base cell that got that far, compared at the ghost's points."""
        done, worked_s = series.done(kind, at_ns), series.worked_s(at_ns)
        ratios = []
        for attempt in attempts:
            base = self._series(attempt, series.step.name)
            if base is None or base.step.id == series.step.id or not worked_s:
                continue  # unknown, or this very cell
            base_s = base_place(base, series, at_ns)
            base_done = base.done_after(kind, base_s) if base_s else None
            ratios += [done / worked_s * base_s / base_done] if base_s and base_done else []
        return sorted(ratios)

    def ghost(self, attempts: Iterable[int], series: StepSeries, kind: str) -> BaseCurve | None:
        """The curve of the base's cell with the median rate. The latest one is kept, as it grows with its series."""
        others = (attempt_id for attempt_id in attempts if attempt_id != series.step.attempt_id)
        rates = sorted(
            (rate, attempt_id) for attempt_id in others if (rate := self.rates(attempt_id).get(series.step.name))
        )
        base = self._series(rates[(len(rates) - 1) // 2][1], series.step.name) if rates else None
        if base is None:
            return None
        key = (id(base), id(series), kind)
        if self._ghost is None or key != self._of:
            self._of, self._ghost = key, BaseCurve(base, series, kind)
        self._ghost.catch_up()
        return self._ghost

    def _read(self, attempt: int, name: str) -> StepSeries | None:
        step = next((step for step in self._reader.steps(attempt) if step.name == name), None)
        if step is None:
            return None
        series = StepSeries(self._reader, step)
        series.catch_up()
        return series
