"""From points to columns without losing a dip: every column keeps the least and the greatest value that fell into it.

A mean hides a stall of six seconds in a step of half an hour, and a maximum hides every stall there is. Columns
without data stay empty: a gap is drawn as a gap.
"""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]  # least, greatest


class Envelope:
    """Columns over [start, end) that grow with the points: adding one costs the columns that it covers, no more."""

    def __init__(self, start: float, end: float, columns: int) -> None:
        self.start = start
        self.end = end
        self.columns: list[Span | None] = [None] * columns
        self._per_column = (end - start) / columns if columns else 0.0

    def add(self, until: float, length: float, value: float) -> None:
        """Takes in a value that held from `until - length` to `until`; what lies outside the axis is left out."""
        if self._per_column <= 0 or until <= self.start or until - length >= self.end:
            return
        first = max(0, int((until - length - self.start) / self._per_column))
        last = min(len(self.columns) - 1, _before((until - self.start) / self._per_column))
        for column in range(min(first, last), last + 1):
            known = self.columns[column]
            self.columns[column] = (value, value) if known is None else (min(known[0], value), max(known[1], value))

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
    first = max(0, int((from_ - start) / per_column))
    last = min(columns - 1, max(first, _before((until - start) / per_column)))
    return range(first, last + 1)


def _before(position: float) -> int:
    """The column that ends at a position, or holds it: an interval that ends on an edge does not reach over it."""
    whole = int(position)
    return whole - 1 if position == whole else whole
