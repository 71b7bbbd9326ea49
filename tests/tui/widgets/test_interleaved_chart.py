"""Lines of builds over each other, and the ratio that closes in."""

from __future__ import annotations

import pytest

from engine.view.slice_series import Course, SoFar
from engine.view.step_series import SECOND_NS, Series
from tui.glyphs import SETS
from tui.marks import SIDES, Line
from tui.widgets.column_cache import Axis
from tui.widgets.interleaved_chart import closing, columns, labels, limits, lines, ratio_labels

ASCII = SETS["ascii"]


def points(*values: float, length: int = SECOND_NS) -> Series:
    series = Series()
    for place, value in enumerate(values, 1):
        series.add(place * length, length, value)
    return series


def axis(seconds: int, at: float | None = None) -> Axis:
    return Axis(0, seconds * SECOND_NS, (seconds if at is None else at) * SECOND_NS)


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_a_column_has_its_mean_and_keeps_a_dip() -> None:
    assert columns(points(4, 6, 8, 8), axis(4), 2) == [(5, 5), (8, 8)]
    assert columns(points(4, 6), axis(4), 8) == [(4, 4), (4, 4), (6, 6), (6, 6), None, None, None, None]
    assert columns(points(9, 9, 9, 1), axis(4), 1) == [(7, 1)]
    assert columns(points(9, 9, 9, 1), axis(4, at=3.5), 2) == [(9, 9), (9, 9)]
    later = Axis(2 * SECOND_NS, 4 * SECOND_NS, 4 * SECOND_NS)
    assert columns(points(4, 6, 8, 2), later, 2) == [(8, 8), (2, 2)]


def test_builds_have_their_own_glyphs_and_overlaps_another() -> None:
    sides = [columns(points(*values), axis(3), 3) for values in ((10, 20, 30), (30, 20, 20))]
    drawn = lines(sides, (10, 30), 3, {}, ASCII)
    assert texts(drawn) == ["x o", " %x", "o  "]
    assert [mark for _, mark in drawn[0]] == [SIDES[1], "", SIDES[0]]


@pytest.mark.parametrize("glyphs", list(SETS))
def test_no_build_is_known_by_its_colour_alone(glyphs: str) -> None:
    known = SETS[glyphs]
    assert len({*known.sides, known.several}) == len(SIDES) + 1 == len(known.sides) + 1


def test_a_stall_and_the_cursor_are_marked_in_their_columns() -> None:
    drawn = lines([columns(points(10, 20, 30, 20), axis(4), 4)], (10, 30), 2, {1: "rate", 3: "cursor"}, ASCII)
    assert texts(drawn) == ["  o|", "ox o"]
    assert drawn[1][1] == ("x", "stall")


@pytest.mark.parametrize(
    ("values", "edges"),
    [
        ((8310, 8020), (8000, 8350)),
        ((8310, 100), (0, 10_000)),
        ((8310, 8310), (8300, 8350)),
        ((0.5, 0.4), (0.4, 0.5)),
        ((0,), (0, 1)),
        ((), (0, 1)),
    ],
)
def test_the_edges_are_near_what_is_compared(values: tuple[float, ...], edges: tuple[float, float]) -> None:
    assert limits([[(value, value) for value in values], [None]]) == pytest.approx(edges)


def course() -> Course:
    ratios = Course()
    for place in range(1, 11):
        half = None if place < 3 else 0.12 / place
        ratios.until.append(place * SECOND_NS)
        ratios.known.append(SoFar(0.98, half and 0.98 - half, half and 0.98 + half, place))
    return ratios


def test_the_bounds_of_the_ratio_close_in() -> None:
    drawn, edge = closing(course(), axis(12, at=10), 12, 5, ASCII)
    assert edge == pytest.approx(0.05)  # 1.5 times as far from 1 as the last bound
    assert texts(drawn) == ["            ", "  =         ", "---''==...--", "=========:  ", "  ..=='''   "]
    assert ratio_labels(edge, 5) == {0: "+5%", 2: "0%", 4: "-5%"}


@pytest.mark.parametrize("glyphs", list(SETS))
def test_of_what_is_to_come_and_of_nothing_no_ratio_is_drawn(glyphs: str) -> None:
    drawn, _ = closing(course(), axis(12, at=4), 12, 3, SETS[glyphs])
    upper, _, lower = texts(drawn)
    assert not upper[4:].strip() and not lower[4:].strip() and (upper + lower).strip()
    assert closing(course(), axis(12, at=0.5), 12, 3, SETS[glyphs]) == ([], 0.0)
    assert ratio_labels(0.0, 3) == {}


@pytest.mark.parametrize("bound", [1.2, 1.6, 3.0, 12.34, 1e4])
def test_no_axis_of_a_ratio_ends_below_nothing(bound: float) -> None:
    """A ratio and its inverse are as far from 1; a ratio beyond the edge is drawn at it."""
    wide = Course([SECOND_NS], [SoFar(1.0, 1 / bound, bound, 1)])
    drawn, edge = closing(wide, axis(1), 2, 5, ASCII)
    labels = ratio_labels(edge, 5)
    assert all(float(label.removesuffix("%")) > -100 for label in labels.values() if label.endswith("%"))
    rows = [bool(text.strip()) for text in texts(drawn)]
    assert bound == 1.2 or (rows == rows[::-1] and any(rows[:2])), "symmetric"
    assert labels[0] == {1.2: "+30%", 1.6: "x 2", 3.0: "x 5", 12.34: "x 50", 1e4: "x 100"}[bound]


def test_the_scale_says_that_it_does_not_begin_at_0() -> None:
    assert labels(8000, 8400, 6) == {0: "8400", 5: "8000"}
    assert labels(0, 9000, 6) == {0: "9000", 5: "0"}
