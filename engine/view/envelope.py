"""From points to columns without losing a dip: every column keeps the least and the greatest value that fell into it.

A mean hides a stall of six seconds in a step of half an hour, and a maximum hides every stall there is. Columns
without data stay empty: a gap is drawn as a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

Span = tuple[float, float]  # least, greatest


class Envelope:
    """Columns over [start, end) that grow with the points: adding one costs the columns that it covers, no more."""

    def __init__(self, start: float, end: float, columns: int) -> None:
        self.start = start
        self.end = end
        self.columns: list[Span | None] = [None] * columns
        self._per_column = (end - start) / columns if columns else 0.0

    def add(self, until: float, length: float, value: float) -> None:
        """Take in a value that held from `until - length` to `until`; what lies outside the axis is left out."""
        self.extend((until,), (length,), (value,))

    def extend(self, untils: Sequence[float], lengths: Sequence[float], values: Sequence[float]) -> None:
        """Take in many. A step of two hours has 7,200 of each role: this loop is what a chart costs."""
        columns, start, end, per_column = self.columns, self.start, self.end, self._per_column
        if per_column <= 0:
            return
        most = len(columns) - 1
        for until, length, value in zip(untils, lengths, values, strict=True):
            if until <= start or until - length >= end:
                continue
            last = ceil((until - start) / per_column) - 1  # what ends on an edge does not reach over it
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
        """The greatest value on the axis, 0 without any."""
        return max((span[1] for span in self.columns if span is not None), default=0.0)


def envelope(points: Iterable[tuple[float, float, float]], start: float, end: float, columns: int) -> list[Span | None]:
    """The columns of points (until, length, value), all at once."""
    made = Envelope(start, end, columns)
    for until, length, value in points:
        made.add(until, length, value)
    return made.columns


def columns_of(start: float, end: float, from_: float, until: float, columns: int) -> range:
    """The columns of an axis that an interval touches; at least one if it touches the axis at all."""
    if end <= start or columns <= 0 or until < start or from_ >= end:
        return range(0)
    per_column = (end - start) / columns
    first = min(columns - 1, max(0, int((from_ - start) / per_column)))
    last = min(columns - 1, max(first, ceil((until - start) / per_column) - 1))
    return range(first, last + 1)
