"""From points to columns without losing a dip: each column keeps its minimum and maximum.

A mean would hide a stall of six seconds in a step of half an hour, a maximum would hide every stall. Columns without
data stay empty, so that a gap is drawn as a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

Span = tuple[float, float]  # minimum, maximum


class Envelope:
    """Columns over [start, end) that grow with the points. Adding one costs only the columns that it covers."""

    def __init__(self, start: float, end: float, columns: int) -> None:
        self.start = start
        self.end = end
        self.columns: list[Span | None] = [None] * columns
        self._per_column = (end - start) / columns if columns else 0.0

    def add(self, until: float, length: float, value: float) -> None:
        """Add a value that held from `until - length` to `until`."""
        self.extend((until,), (length,), (value,))

    def extend(self, untils: Sequence[float], lengths: Sequence[float], values: Sequence[float]) -> None:
        """Add many values. A two-hour step has 7,200 per role, so this loop dominates the cost of a chart."""
        columns, start, end, per_column = self.columns, self.start, self.end, self._per_column
        if per_column <= 0:
            return
        most = len(columns) - 1
        for until, length, value in zip(untils, lengths, values, strict=True):
            if until <= start or until - length >= end:
                continue
            last = ceil((until - start) / per_column) - 1  # an interval that ends on an edge does not cross it
            if last > most:
                last = most
            first = int((until - length - start) / per_column)
            if first < 0:
                first = 0
            if first > last:
                first = last
            for column in range(first, last + 1):
                known = columns[column]
                if known is None:
                    columns[column] = (value, value)
                elif value < known[0]:
                    columns[column] = (value, known[1])
                elif value > known[1]:
                    columns[column] = (known[0], value)

    def greatest(self) -> float:
        return max((span[1] for span in self.columns if span is not None), default=0.0)


def envelope(points: Iterable[tuple[float, float, float]], start: float, end: float, columns: int) -> list[Span | None]:
    made = Envelope(start, end, columns)
    for until, length, value in points:
        made.add(until, length, value)
    return made.columns


def columns_of(start: float, end: float, from_: float, until: float, columns: int) -> range:
    """The columns that an interval touches; at least one if it touches the axis at all."""
    if end <= start or columns <= 0 or until < start or from_ >= end:
        return range(0)
    per_column = (end - start) / columns
    first = min(columns - 1, max(0, int((from_ - start) / per_column)))
    last = min(columns - 1, max(first, ceil((until - start) / per_column) - 1))
    return range(first, last + 1)
