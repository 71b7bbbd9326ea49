"""Strips beside the rates: sizes of service times, waits, times and events on the axis, last minutes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.journal.rows import EventRow
from engine.view.envelope import ShareColumns
from engine.view.step_details import Weighed, band, band_us
from engine.view.step_series import SECOND_NS, Series
from tui.glyphs import SETS, Glyphs
from tui.live.pointer import column_of, moment_of
from tui.marks import Line, width
from tui.widgets.axis_row import APART, axis_row, ticks, time_words
from tui.widgets.column_cache import Axis, ColumnCache
from tui.widgets.heat_map import heat
from tui.widgets.sparkline import sparkline
from tui.widgets.wait_strip import legend, strip_of
from workloads.client import histogram

GLYPHS = pytest.mark.parametrize("glyphs", SETS.values(), ids=lambda glyphs: glyphs.name)
WEIGHTS = st.dictionaries(st.integers(0, 64), st.floats(1, 1e9), max_size=5)


def text(line: Line) -> str:
    return "".join(part for part, _ in line)


@given(st.integers(0, 2**32 - 1))
def test_a_band_holds_the_service_times_of_its_bucket(us: int) -> None:
    bucket = histogram.index(us)
    least = histogram.bounds(bucket)[0]
    assert band_us(band(bucket)) <= max(1, least) * 1.000001 < band_us(band(bucket) + 1) * 1.000002


@GLYPHS
@given(columns=st.lists(st.one_of(st.none(), WEIGHTS), min_size=1, max_size=20), rows=st.integers(2, 14))
def test_whatever_was_counted_is_seen_on_the_heat_map(
    glyphs: Glyphs, columns: list[dict[int | str, float] | None], rows: int
) -> None:
    drawn, labels = heat(columns, rows, {}, glyphs)
    assert len(drawn) == rows and {width(row) for row in drawn} == {len(columns)}
    assert set(labels) <= set(range(rows)) and all(len(words) <= 6 for words in labels.values())
    for x, column in enumerate(columns):
        seen = [text(row)[x] for row in drawn]
        assert (set(seen) != {" "}) == bool(column), "a gap is a gap, and one operation of a billion is not"
        assert len(column or ()) >= sum(character != " " for character in seen)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.floats(0, 100)), min_size=1, max_size=30),
    st.integers(1, 40),
    st.integers(0, 200),
)
def test_columns_that_grow_are_those_that_are_made_at_once(
    pieces: list[tuple[int, float]], columns: int, first: int
) -> None:
    points, taken = Weighed(), ColumnCache(ShareColumns)
    for length, value in pieces:
        until = (points.until[-1] if points.until else 0) + length
        points.add(until, length, {"a": value, length % 3: 1.0})
        grown = taken.of(points, Axis(first, first + 300, until), columns)
    at_once = ShareColumns(first, first + 300, columns)
    at_once.extend(points.until, points.length, points.value)
    assert grown.columns == at_once.columns


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(10, 200))
def test_times_on_the_axis_are_round_apart_and_where_they_say(length_s: int, from_s: int, cells: int) -> None:
    axis = Axis(from_s * SECOND_NS, (from_s + length_s) * SECOND_NS, 0)
    places = ticks(axis, 0, cells)
    for (one, _), (other, _) in pairwise(places):
        assert other - one >= APART - 1
    row = text(axis_row(axis, 0, cells, [], SETS["ascii"]))
    assert len(row) == cells
    for column, words in places:
        begin, end = column_of(axis, moment_of(axis, cells, column), cells)
        seconds = next(s for s in range(int(begin // SECOND_NS), int(end // SECOND_NS) + 2) if time_words(s) == words)
        assert begin - SECOND_NS * 1e-6 <= seconds * SECOND_NS <= end + SECOND_NS * 1e-6


def test_checkpoints_marks_and_autovacuum_have_axis_letters() -> None:
    def event(id: int, kind: str) -> EventRow:
        return EventRow(id, 1, 1, kind, 0, None, None, {})

    axis = Axis(0, 60 * SECOND_NS, 60 * SECOND_NS)
    lasting = [
        (event(1, "checkpoint"), 12.5e9, 16.5e9),
        (event(2, "autovacuum"), 31.5e9, 32e9),
        (event(3, "mark"), 45.5e9, 45.5e9),
        (event(4, "autovacuum"), 45.5e9, 46e9),
        (event(5, "lock_wait"), 50e9, 51e9),
    ]
    row = text(axis_row(axis, 0, 60, lasting, SETS["ascii"]))
    assert row[12:17] == "c----" and row[31] == "v" and row[45] == "m"
    assert "'0s" in row and "'20s" in row and not set(row) - set("'0123456789smcv- ")


def test_the_strip_of_waits_has_the_letter_of_what_took_most() -> None:
    columns: list[dict[int | str, float] | None] = [
        None,
        {"": 9.0, "IO:DataFileRead": 1.0},
        {"IO:DataFileRead": 9.0, "Lock:relation": 8.0},
        {"Client:ClientRead": 1.0},
        {"NoSuch:Thing": 1.0},
    ]
    assert text(strip_of(columns, {})) == " cI.?"
    assert legend([columns]) == "c on CPU  . its client  I I/O  ? unknown to pgbed"


def test_a_wait_has_one_letter_in_all_versions() -> None:
    locks = ("LWLock:buffer_content", "LWLock:BufferContent", "Buffer:BufferShared", "BufferPin:BufferPin")
    others = ("LWLock:BufferIO", "IPC:BufferIo", "LWLock:WALWrite", "IPC:Promote")
    columns: list[dict[int | str, float] | None] = [{event: 1.0} for event in (*locks, *others)]
    assert text(strip_of(columns, {})) == "BBBBIIWP"
    assert legend([columns]) == "I I/O  W lightweight lock  B buffer lock  P another process"


@GLYPHS
def test_a_sparkline_shows_the_last_minute_with_gaps(glyphs: Glyphs) -> None:
    points = Series()
    for second in (*range(40), *range(50, 90)):
        points.add((second + 1) * SECOND_NS, SECOND_NS, 1000.0)
    row = sparkline(points, 90 * SECOND_NS, 60 * SECOND_NS, 30, glyphs)
    assert len(row) == 30 and not row[5:10].strip() and len(set(row[:5])) == 1 and row[:5].strip()
    assert sparkline(Series(), 90 * SECOND_NS, 60 * SECOND_NS, 30, glyphs) == " " * 30
