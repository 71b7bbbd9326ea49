"""Two rates on one axis: what is aligned by time or work keeps its least and greatest, its stalls and its gaps."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.view.step_series import SECOND_NS
from tui.compare.overlay_chart import columns, overlay, ribbon, scale
from tui.compare.rate_track import Track, by_own_time, by_time, by_work, kinds, recorded, track
from tui.glyphs import SETS

RATES = st.just(0.0) | st.floats(1e-6, 1e5)  # less than that has no width among floats that are divided by columns
SECONDS = st.lists(st.tuples(st.floats(0.2, 3.0), RATES), min_size=1, max_size=60)


def points(seconds: list[tuple[float, float]], start_ns: int = 5 * SECOND_NS) -> list[tuple[int, int, float]]:
    """Intervals of these lengths and rates, one after another."""
    ends = itertools.accumulate((int(length * SECOND_NS) for length, _ in seconds), initial=start_ns)
    return [
        (end, int(length * SECOND_NS), rate)
        for end, (length, rate) in zip(itertools.islice(ends, 1, None), seconds, strict=True)
    ]


def test_by_time_counts_from_the_begin_of_the_step() -> None:
    found = by_time(points([(1, 100), (1, 50)]), 5 * SECOND_NS, [(6 * SECOND_NS, 7 * SECOND_NS)])
    assert found.until == (1.0, 2.0)
    assert found.value == (100, 50)
    assert found.stalls == ((1.0, 2.0),)


def test_by_own_time_a_server_that_pauses_has_no_gaps() -> None:
    paused = [(6 * SECOND_NS, SECOND_NS // 2, 100.0), (7 * SECOND_NS, SECOND_NS // 4, 50.0)]
    found = by_own_time(paused, [(int(6.75 * SECOND_NS), 7 * SECOND_NS)])
    assert (found.until, found.length, found.value) == ((0.5, 0.75), (0.5, 0.25), (100, 50))
    assert found.stalls == ((0.5, 0.75),)
    assert None not in columns(found, found.end, 12)


def test_by_work_a_slower_one_stands_beside_the_same_work() -> None:
    fast = by_work(points([(1, 100), (1, 100)]), ())
    slow = by_work(points([(1, 50)] * 4), ())
    assert (fast.end, slow.end) == (200, 200)
    assert fast.until == (100, 200)
    assert slow.until == (50, 100, 150, 200)


@settings(deadline=None)
@given(SECONDS)
def test_by_work_the_axis_ends_at_all_that_was_done_and_never_turns_back(seconds: list[tuple[float, float]]) -> None:
    found = by_work(points(seconds), ())
    done = sum(length * value / SECOND_NS for _, length, value in points(seconds))
    assert found.end == pytest.approx(done)
    assert all(before <= after for before, after in itertools.pairwise((0.0, *found.until)))
    assert sum(found.length) == pytest.approx(done)


@settings(deadline=None)
@example([(1.0, 0.0), (1.0, 1.0)], "work", 1)
@example([(1.0, 1.0), (1.0, 0.0)], "work", 7)
@given(SECONDS, st.sampled_from(["time", "work"]), st.integers(1, 120))
def test_the_least_and_the_greatest_are_drawn_however_it_is_aligned(
    seconds: list[tuple[float, float]], by: str, cells: int
) -> None:
    found = by_work(points(seconds), ()) if by == "work" else by_time(points(seconds), 5 * SECOND_NS, ())
    assume(found.end > 0)
    spans = [span for span in columns(found, found.end, cells) if span is not None]
    assert min(low for low, _ in spans) == min(found.value)
    assert max(high for _, high in spans) == max(found.value)


def test_a_second_in_which_nothing_moved_keeps_its_place_on_the_axis_of_work() -> None:
    found = by_work(points([(1, 100), (1, 0), (1, 0), (1, 100)]), [(6 * SECOND_NS, 8 * SECOND_NS)])
    assert found.until == (100, 100, 100, 200)
    assert found.stalls == ((100, 100),)
    spans = columns(found, found.end, 10)
    assert min(span[0] for span in spans if span is not None) == 0
    assert sum(span is not None and span[0] == 0 for span in spans) == 1


def test_a_stall_within_an_interval_lies_at_its_share_of_the_work() -> None:
    found = by_work(points([(2, 100)]), [(6 * SECOND_NS, 7 * SECOND_NS)])
    assert found.stalls == ((100, 200),)


def test_a_gap_in_the_record_is_a_gap_in_the_chart() -> None:
    first, last = points([(1, 100)] * 2), points([(1, 100)] * 2, 11 * SECOND_NS)
    spans = columns(by_time([*first, *last], 5 * SECOND_NS, ()), 8.0, 8)
    assert [span is None for span in spans] == [False, False, True, True, True, True, False, False]


@settings(deadline=None)
@given(SECONDS, SECONDS, st.integers(1, 100), st.integers(1, 30), st.sampled_from(list(SETS)))
def test_the_chart_has_the_size_that_was_asked_for(
    ours: list[tuple[float, float]], theirs: list[tuple[float, float]], cells: int, rows: int, glyphs: str
) -> None:
    one, other = (by_time(points(side), 5 * SECOND_NS, ()) for side in (ours, theirs))
    drawn, top = overlay(one, other, cells, rows, SETS[glyphs])
    assert len(drawn) == rows
    assert {sum(len(text) for text, _ in row) for row in drawn} == {cells}
    assert top >= max(*one.value, *other.value)


@pytest.mark.parametrize("glyphs", list(SETS))
def test_the_two_are_told_apart_without_colour(glyphs: str) -> None:
    base, other = (by_time(points([(1, rate)] * 10), 5 * SECOND_NS, ()) for rate in (90, 30))
    drawn, _ = overlay(base, other, 40, 10, SETS[glyphs])
    shown = ["".join(text for text, _ in row) for row in drawn]
    dash = SETS[glyphs].dash
    assert sum(dash * 40 == row for row in shown) == 1
    assert any(row.strip() and dash not in row for row in shown)


def test_nothing_moved_is_no_chart() -> None:
    empty = Track((), (), (), ())
    assert overlay(empty, empty, 40, 10, SETS["braille"])[0] == []


def test_stalls_stand_below_the_chart_and_the_ribbon_ends_with_its_rate() -> None:
    track_ = Track((1, 2, 3, 4), (1, 1, 1, 1), (9, 9, 0, 9), ((2, 3),))
    (label, *spans) = ribbon(track_, 8.0, 16, "base", "base")
    assert label == ("base ", "base")
    assert "".join(text for text, _ in spans).rstrip() == "....!!.."
    assert "".join(text for text, _ in scale(8.0, False, 16, ("s", "rows"))) == "0            8 s"
    assert "".join(text for text, _ in scale(80000, True, 16, ("s", "rows"))) == "0    80,000 rows"


def test_a_recorded_step_is_read_with_its_stalls(recording: Path) -> None:
    side = recorded(recording, "002-16.3-prebuilt-auto-r1", "l.i1")
    assert side.primary_role == "insert"
    assert kinds([side]) == ["insert", "delete"]
    done = track(side, "insert", "work")
    assert done.end == pytest.approx(448_000)
    took = track(side, "insert", "time")
    assert took.end == pytest.approx(13.6, abs=0.1)
    assert took.stalled_s == pytest.approx(3.7, abs=0.1)
    assert min(took.value) == 0
    assert track(side, "query", "time").end == 0
    with pytest.raises(UserError, match="has no finished step qr9"):
        recorded(recording, "002-16.3-prebuilt-auto-r1", "qr9")
