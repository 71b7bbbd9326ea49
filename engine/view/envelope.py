"""Columns made of points: an envelope keeps the minimum and maximum of each, a tally adds up shares by sort.

A mean would hide a stall of six seconds in a step of half an hour, a maximum would hide every stall. Columns without
data stay empty, so that a gap is drawn as a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Generic, TypeVar

Span = tuple[float, float]  # minimum, maximum
Sort = int | str
Value = TypeVar("Value")
Content = TypeVar("Content")


class Columns(Generic[Value, Content]):
    """Columns over [start, end) that grow with the points. Adding one costs only the columns that it covers.

    A point is a value that held from `until - length` to `until`; it counts in each column that it overlaps.
    """

    def __init__(self, start: float, end: float, columns: int) -> None:
        self.start = start
        self.end = end
        self.columns: list[Content | None] = [None] * columns
        self._per_column = (end - start) / columns if columns else 0.0

    def extend(self, untils: Sequence[float], lengths: Sequence[float], values: Sequence[Value]) -> None:
        """Add many values. A two-hour step has 7,200 per role, so this loop dominates the cost of a chart."""
        columns, start, end, per_column, joined = self.columns, self.start, self.end, self._per_column, self._joined
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
                columns[column] = joined(columns[column], value)

    def _joined(self, content: Content | None, value: Value) -> Content:
        raise NotImplementedError


class Envelope(Columns[float, Span]):
    """Columns of the minimum and the maximum."""

    def _joined(self, content: Span | None, value: float) -> Span:
        if content is None:
            return value, value
        low, high = content
        return (value, high) if value < low else (low, value) if value > high else content

    def greatest(self) -> float:
        return max((span[1] for span in self.columns if span is not None), default=0.0)


class ShareColumns(Columns[Mapping[Sort, float], dict[Sort, float]]):
    """Columns of shares: the weights of each sort added up, where values cannot be averaged."""

    def _joined(self, content: dict[Sort, float] | None, value: Mapping[Sort, float]) -> dict[Sort, float]:
        content = {} if content is None else content
        for sort, weight in value.items():
            content[sort] = content.get(sort, 0.0) + weight
        return content


def envelope(points: Iterable[tuple[float, float, float]], start: float, end: float, columns: int) -> list[Span | None]:
    filled = Envelope(start, end, columns)
    for until, length, value in points:
        filled.extend((until,), (length,), (value,))
    return filled.columns


def columns_of(start: float, end: float, from_: float, until: float, columns: int) -> range:
    """The columns that an interval touches; at least one if it touches the axis at all."""
    if end <= start or columns <= 0 or until < start or from_ >= end:
        return range(0)
    per_column = (end - start) / columns
    first = min(columns - 1, max(0, int((from_ - start) / per_column)))
    last = min(columns - 1, max(first, ceil((until - start) / per_column) - 1))
    return range(first, last + 1)
