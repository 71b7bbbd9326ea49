"""Columns of points on an axis, kept while the axis stays, so that a new point is cheap."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from engine.view.envelope import Columns


class Points(Protocol):
    """Values over an axis, in order and append-only: each held from `until - length` to `until`."""

    @property
    def until(self) -> Sequence[float]: ...

    @property
    def length(self) -> Sequence[float]: ...

    @property
    def value(self) -> Sequence[Any]: ...


Kind = TypeVar("Kind", bound=Columns[Any, Any])


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a chart from `start` to `end`, with data up to `at`."""

    start: float
    end: float
    at: float


class ColumnCache(Generic[Kind]):
    """`make(start, end, count)` returns empty columns."""

    def __init__(self, make: Callable[[float, float, int], Kind]) -> None:
        self._make = make
        self._columns: Kind | None = None
        self._points: Points | None = None  # a reference, since other points could get the same id
        self._key: tuple[float, float, int] | None = None
        self._count = 0
        self._newest = 0.0

    def of(self, points: Points, axis: Axis, columns: int) -> Kind:
        key = (axis.start, axis.end, columns)
        if self._columns is None or key != self._key or self._points is not points or self._newest > axis.at:
            self._points, self._key, self._newest = points, key, axis.start
            self._count = bisect_right(points.until, axis.start)  # skip points that ended before the axis
            self._columns = self._make(axis.start, axis.end, columns)
        end = bisect_right(points.until, axis.at, lo=self._count)
        if end > self._count:
            new = slice(self._count, end)
            self._columns.extend(points.until[new], points.length[new], points.value[new])
            self._count, self._newest = end, points.until[end - 1]
        return self._columns

    def forget(self) -> None:
        self._columns = self._points = None
