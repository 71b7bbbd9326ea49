"""Columns keep the least and the greatest of their points, and a gap stays a gap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.view.envelope import Envelope, ShareColumns, columns_of, envelope

Point = tuple[float, float, float]  # until, length, value

VALUES = st.floats(0, 1e9, allow_nan=False)
COLUMNS = st.integers(1, 40)


@st.composite
def recorded(draw: st.DrawFn) -> tuple[list[Point], float, float]:
    """Points in order, with gaps, as an engine leaves them, and an axis that they overlap or not."""
    points: list[Point] = []
    t = draw(st.integers(-50, 50))
    for _ in range(draw(st.integers(0, 60))):
        t += draw(st.sampled_from((0, 0, 0, 0, 1, 7, 40)))  # a gap before it
        length = draw(st.integers(1, 6))
        t += length
        points.append((float(t), float(length), draw(VALUES)))
    start = draw(st.integers(-60, 120))
    return points, float(start), float(start + draw(st.integers(1, 200)))


def touched(point: Point, start: float, end: float, columns: int) -> list[int]:
    """The columns that a point overlaps by more than its edge, by the definition."""
    until, length, _ = point
    per_column = (end - start) / columns
    return [
        column
        for column in range(columns)
        if until - length < start + (column + 1) * per_column - 1e-9 and until > start + column * per_column + 1e-9
    ]


@settings(deadline=None)
@given(recorded(), COLUMNS)
def test_every_column_keeps_its_extremes_and_gaps_remain(drawn: tuple[list[Point], float, float], columns: int) -> None:
    points, start, end = drawn
    spans = envelope(points, start, end, columns)
    for column, span in enumerate(spans):
        values = [point[2] for point in points if column in touched(point, start, end, columns)]
        if values:
            assert span is not None
            assert span[0] <= min(values) and span[1] >= max(values)
        if span is not None:  # nothing is made up: both ends are values of points that reach here, or its very edge
            near = [
                value
                for until, length, value in points
                if until - length <= start + (column + 1) * (end - start) / columns + 1e-6
                and until >= start + column * (end - start) / columns - 1e-6
            ]
            assert set(span) <= set(near)


@settings(deadline=None)
@given(recorded(), COLUMNS, st.integers(0, 20))
def test_adding_one_by_one_is_the_same_as_all_at_once(
    series: tuple[list[Point], float, float], columns: int, first: int
) -> None:
    points, start, end = series
    grown = Envelope(start, end, columns)
    for point in points[:first]:
        grown.extend(*zip(point, strict=True))
    assert grown.columns == envelope(points[:first], start, end, columns)
    for point in points[first:]:
        grown.extend(*zip(point, strict=True))
    assert grown.columns == envelope(points, start, end, columns)
    assert grown.greatest() == max((span[1] for span in grown.columns if span), default=0.0)


@pytest.mark.slow
@settings(deadline=None)
@given(recorded(), COLUMNS)
def test_an_interval_has_the_columns_that_its_value_has(series: tuple[list[Point], float, float], columns: int) -> None:
    points, start, end = series
    for until, length, value in points:
        spans = envelope([(until, length, value)], start, end, columns)
        filled = [column for column, span in enumerate(spans) if span is not None]
        if filled:
            assert filled == list(columns_of(start, end, until - length, until, columns))


@settings(deadline=None)
@given(st.floats(-10, 110), st.floats(0, 50), COLUMNS)
def test_an_interval_on_the_axis_has_at_least_one_column(from_: float, length: float, columns: int) -> None:
    covered = columns_of(0.0, 100.0, from_, from_ + length, columns)
    assert bool(covered) == (from_ < 100 and from_ + length >= 0)
    assert all(0 <= column < columns for column in covered)


def test_no_axis_and_no_columns_are_no_error() -> None:
    assert envelope([(1.0, 1.0, 5.0)], 0.0, 0.0, 10) == [None] * 10
    assert envelope([(1.0, 1.0, 5.0)], 0.0, 10.0, 0) == []
    assert list(columns_of(5, 5, 0, 9, 80)) == []
    assert list(columns_of(0, 9, 0, 9, 0)) == []


def test_shares_count_in_each_column_that_they_overlap() -> None:
    tally = ShareColumns(0.0, 4.0, 4)
    tally.extend((1.0, 2.5, 5.0, 9.0), (1.0, 1.5, 0.5, 4.0), ({1: 2.0}, {1: 1.0, 2: 3.0}, {7: 1.0}, {7: 1.0}))
    tally.extend((3.0,), (0.5,), ({2: 1.0},))
    assert tally.columns == [{1: 2.0}, {1: 1.0, 2: 3.0}, {1: 1.0, 2: 4.0}, None]
