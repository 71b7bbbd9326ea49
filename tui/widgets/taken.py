"""Columns of points on an axis: what was taken in before is kept while the axis stays, so that a new point is cheap."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class Points(Protocol):
    """Values over an axis, in order and only ever added to: each held from `until - length` to `until`."""

    @property
    def until(self) -> Sequence[float]: ...

    @property
    def length(self) -> Sequence[float]: ...

    @property
    def value(self) -> Sequence[Any]: ...


class Columns(Protocol):
    """What points are taken into: an `Envelope`, or a `Tally`."""

    def extend(self, untils: Sequence[float], lengths: Sequence[float], values: Sequence[Any]) -> None: ...


Made = TypeVar("Made", bound=Columns)


@dataclass(frozen=True, slots=True)
class Axis:
    """What a chart shows: the axis from `start` to `end`, of which data is shown up to `at`."""

    start: float
    end: float
    at: float


class Taken(Generic[Made]):
    """`make` gives empty columns over a start, an end, and so many."""

    def __init__(self, make: Callable[[float, float, int], Made]) -> None:
        self._make = make
        self._made: Made | None = None
        self._points: Points | None = None  # held, lest another has its id
        self._key: tuple[float, float, int] | None = None
        self._count = 0
        self._newest = 0.0

    def of(self, points: Points, axis: Axis, columns: int) -> Made:
        """The columns of the points up to `axis.at`."""
        key = (axis.start, axis.end, columns)
        if self._made is None or key != self._key or self._points is not points or self._newest > axis.at:
            self._points, self._key, self._newest = points, key, axis.start
            self._count = bisect_right(points.until, axis.start)  # what ended before is not on the axis
            self._made = self._make(axis.start, axis.end, columns)
        end = bisect_right(points.until, axis.at, lo=self._count)
        if end > self._count:
            new = slice(self._count, end)
            self._made.extend(points.until[new], points.length[new], points.value[new])
            self._count, self._newest = end, points.until[end - 1]
        return self._made

    def forget(self) -> None:
        """Nothing was taken in."""
        self._made = self._points = None
