"""The rate chart and the stall ribbon as they come to the screen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.strip import Strip

from engine.view.step_series import SECOND_NS, Series
from tui.glyphs import SETS
from tui.marks import STYLES
from tui.widgets.axes import WINDOWS, window
from tui.widgets.chart import RateChart, nice
from tui.widgets.column_cache import Axis
from tui.widgets.ribbon import ribbon

pytestmark = pytest.mark.slow  # opens the interface

ROWS, CELLS = 8, 80


class Shown(App[None]):
    """One chart, nothing else."""

    CSS = "RateChart { height: 1fr; }"

    def __init__(self, glyphs: str) -> None:
        super().__init__()
        self.theme = "textual-dark"
        self.chart = RateChart(SETS[glyphs])

    def compose(self) -> ComposeResult:
        """The chart."""
        yield self.chart


def on_chart(act: Callable[[RateChart], None], glyphs: str = "braille") -> None:
    async def drive() -> None:
        app = Shown(glyphs)
        async with app.run_test(size=(CELLS, ROWS)) as pilot:
            await pilot.pause()
            act(app.chart)

    asyncio.run(drive())


def rows(chart: RateChart) -> list[str]:
    return [chart.render_line(y).text for y in range(ROWS)]


def steady(seconds: int, value: float = 1000.0) -> Series:
    points = Series()
    for second in range(seconds):
        points.add((second + 1) * SECOND_NS, SECOND_NS, value)
    return points


def minutes(of: int, at: int | None = None) -> Axis:
    return Axis(0, of * 60 * SECOND_NS, (of if at is None else at) * 60 * SECOND_NS)


def marks(strip: Strip, theme: str = "bench-mono") -> list[bool]:
    """Every cell's reversal."""
    assert STYLES[theme]["stall"].reverse
    return [bool(segment.style and segment.style.reverse) for segment in strip for _ in segment.text]


@pytest.mark.parametrize("glyphs", SETS)
def test_a_stall_is_a_glyph_and_reversed_and_nothing_else_is(glyphs: str) -> None:
    def act(chart: RateChart) -> None:
        chart.show(steady(3600), minutes(60), [(1800 * SECOND_NS, 1806 * SECOND_NS)])
        bottom = rows(chart)[-1]
        assert bottom.count("!") == 1 and bottom.index("!") == CELLS // 2
        for y in range(ROWS):
            assert [x for x, reverse in enumerate(marks(chart.render_line(y))) if reverse] == [CELLS // 2]
        chart.show(steady(3600), minutes(60))
        assert "!" not in "".join(rows(chart)) and not any(marks(chart.render_line(ROWS - 1)))

    on_chart(act, glyphs)


def test_a_one_second_stall_shows_in_its_column() -> None:
    points = Series()
    for second in range(1800):
        points.add((second + 1) * SECOND_NS, SECOND_NS, 290.0 if second == 900 else 29_000.0)

    def act(chart: RateChart) -> None:
        chart.show(points, minutes(30))
        assert {x for x, character in enumerate(rows(chart)[-1]) if character != "⣿"} == {CELLS // 2}  # it is shaded

    on_chart(act)


@pytest.mark.parametrize("glyphs", SETS)
def test_missing_seconds_and_what_is_to_come_are_blank(glyphs: str) -> None:
    points = Series()
    for second in [*range(600), *range(1200, 1800)]:
        points.add((second + 1) * SECOND_NS, SECOND_NS, 500.0)

    def act(chart: RateChart) -> None:
        chart.show(points, minutes(60, at=30))
        columns = ["".join(row[x] for row in rows(chart)).strip() for x in range(CELLS)]
        recorded = [x for x, column in enumerate(columns) if column]
        tenth = CELLS // 6  # ten minutes
        assert set(range(tenth)) <= set(recorded) <= {*range(tenth + 1), *range(2 * tenth, CELLS // 2)}

    on_chart(act, glyphs)


def test_one_point_more_draws_what_all_at_once_does() -> None:
    random_source = random.Random(7)
    points, all_ = Series(), Series()

    def act(chart: RateChart) -> None:
        for second in range(900):
            value = random_source.gauss(1000, 200)
            for series in (points, all_):
                series.add((second + 1) * SECOND_NS, SECOND_NS, value)
            if second % 50 == 0:
                chart.show(points, Axis(0, 900 * SECOND_NS, (second + 1) * SECOND_NS), base=900.0)
        chart.show(points, minutes(15), base=900.0)
        grown = rows(chart)
        chart.clear()
        assert not "".join(rows(chart)).strip()
        chart.show(all_, minutes(15), base=900.0)
        assert rows(chart) == grown

    on_chart(act)


def test_an_empty_second_does_not_hide_its_column_in_log_scale() -> None:
    points = Series()
    for second, value in enumerate((0.0, 500.0, 0.0)):
        points.add((second + 1) * SECOND_NS, SECOND_NS, value)

    def act(chart: RateChart) -> None:
        chart.logarithmic = True
        chart.show(points, minutes(600))
        assert (chart.foot, chart.top) == (100.0, 1000.0)

    on_chart(act, "ascii")


def test_going_back_shows_less_again() -> None:
    points = steady(900)

    def act(chart: RateChart) -> None:
        chart.show(points, minutes(15, at=5))
        early = rows(chart)
        chart.show(points, minutes(15))
        assert rows(chart) != early
        chart.show(points, minutes(15, at=5))
        assert rows(chart) == early
        assert all(not row[CELLS // 3 + 1 :].strip() for row in early)

    on_chart(act)


@pytest.mark.parametrize("name,seconds", WINDOWS)
def test_a_window_shows_its_last_seconds_only(name: str, seconds: int) -> None:
    points = steady(3600, 100.0)
    points.value[10] = 5000.0  # far before the window
    points.value[3590] = 1000.0

    def act(chart: RateChart) -> None:
        chart.show(points, window(minutes(60), seconds))
        assert chart.top == nice(1000.0 if seconds else 5000.0)
        assert all(any(row[x] != " " for row in rows(chart)) for x in range(CELLS)), name

    on_chart(act)


def test_the_base_is_a_line_with_its_name() -> None:
    def act(chart: RateChart) -> None:
        chart.show(steady(60, 10.0), minutes(60, at=1), base=31_100.0, base_label="base 13.22")
        (labelled,) = [row for row in rows(chart) if "base 13.22 31.1k" in row]
        assert labelled.count("╌") > CELLS // 2
        assert chart.top == 40_000.0

    on_chart(act)


def test_the_cursor_of_a_replay_is_a_column() -> None:
    def act(chart: RateChart) -> None:
        chart.show(steady(60), minutes(2), cursor=90 * SECOND_NS)
        assert {row[60] for row in rows(chart)} == {"│"}

    on_chart(act)


@settings(deadline=None)
@given(st.floats(1e-3, 1e12))
def test_the_upper_edge_is_near_and_above(value: float) -> None:
    top = nice(value)
    assert value <= top <= max(2 * value, 0.1)


@settings(deadline=None)
@given(st.integers(1, 120), st.floats(0, 1), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.3)), max_size=5))
def test_the_ribbon_marks_every_stall(cells: int, at: float, stalls: list[tuple[float, float]]) -> None:
    intervals = [(start * 1000, (start + length) * 1000) for start, length in stalls if start < 1]
    row = ribbon(cells, (0, 1000), at * 1000, [(*interval, "worse") for interval in intervals])
    text = "".join(character for character, _ in row)
    assert len(text) == cells
    assert ("!" in text) == bool(intervals)
    for start, until in intervals:
        for place in (start / 1000 * cells, max(start, min(until, 1000)) / 1000 * cells - 1e-6):
            near = {min(cells - 1, int(max(0.0, place + error))) for error in (-1e-5, 1e-5)}  # on an edge: either cell
            assert "!" in {text[cell] for cell in near}


def test_the_ribbon_tells_where_it_stands() -> None:
    text = ribbon(10, (0, 100), 50, [(20, 29, "worse")], cursor=(45, 45))
    assert "".join(character for character, _ in text) == "..!.|     "
    on_stall = ribbon(10, (0, 100), 50, [(20, 29, "worse")], cursor=(20, 29))
    assert on_stall[:2] == (("..", "dim"), ("!", "cursor"))
