"""Drawings of columns: the least and the greatest of each, in every set of glyphs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.glyphs import SETS, Glyphs, choose
from tui.widgets.raster import (
    BRAILLE,
    behind,
    columns_per_cell,
    dots_per_cell,
    filled,
    level,
    level_line,
    raster,
    scatter,
    seen_behind,
)

SPANS = st.one_of(st.none(), st.tuples(st.floats(0, 120), st.floats(0, 120)).map(lambda pair: (min(pair), max(pair))))
COLUMNS = st.lists(SPANS, min_size=1, max_size=24)
ROWS = st.integers(1, 8)
TOP = 100.0

LEFT, RIGHT = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)


def dots(rows: list[str], column: int) -> set[int]:
    """The dots of a column of braille, from the bottom up."""
    bits = (LEFT, RIGHT)[column % 2]
    dots_set = set()
    for y, row in enumerate(rows):
        cell = ord(row[column // 2])
        cell = cell - BRAILLE if cell >= BRAILLE else 0
        dots_set |= {(len(rows) - 1 - y) * 4 + dot for dot, bit in enumerate(bits) if cell & bit}
    return dots_set


@settings(deadline=None)
@given(COLUMNS, ROWS)
def test_braille_draws_the_extremes_of_every_column(columns: list[tuple[float, float] | None], rows: int) -> None:
    drawn = raster(columns, TOP, rows, SETS["braille"])
    before: tuple[int, int] | None = None
    for x, span in enumerate(columns):
        marked = dots(drawn, x)
        if span is None:
            assert not marked  # a gap
            before = None
            continue
        low, high = level(span[0], TOP, rows * 4), level(span[1], TOP, rows * 4)
        assert set(range(low, high + 1)) <= marked
        reach = (low, high) if before is None else (min(low, before[1] + 1), max(high, before[0] - 1))
        assert marked == set(range(reach[0], reach[1] + 1))  # and the join to the column before, no more
        before = (low, high)


@pytest.mark.parametrize("name", ["block", "ascii"])
@settings(deadline=None)
@given(columns=COLUMNS, rows=ROWS)
def test_bars_reach_the_least_and_shade_up_to_the_greatest(
    name: str, columns: list[tuple[float, float] | None], rows: int
) -> None:
    glyphs = SETS[name]
    full = len(glyphs.levels) - 1
    drawn = raster(columns, TOP, rows, glyphs)
    for x, span in enumerate(columns):
        cells = [row[x] for row in drawn][::-1]  # from the bottom up
        if span is None:
            assert set(cells) == {" "}
            continue
        low, high = (round(min(value, TOP) / TOP * rows * full) for value in span)
        assert cells[: low // full] == [glyphs.levels[full]] * (low // full)
        reached = max(-(-high // full), 1)  # rows that hold some of it, and one where nothing moved
        assert all(cell != " " for cell in cells[:reached])
        assert set(cells[reached:]) <= {" "}
        for row in range(-(-low // full) if low else 0, -(-high // full)):
            assert cells[row] == glyphs.shade


@settings(deadline=None)
@given(COLUMNS, ROWS)
def test_a_fill_tells_the_least_and_the_greatest_of_every_column(
    columns: list[tuple[float, float] | None], rows: int
) -> None:
    drawn = filled(columns, TOP, rows, SETS["braille"])
    for x, span in enumerate(columns):
        marked = dots(drawn, x)
        if span is None:
            assert not marked  # a gap
            continue
        low, high = level(span[0], TOP, rows * 4), level(span[1], TOP, rows * 4)
        assert max(marked) == high
        solid = next(dot for dot in range(rows * 4 + 1) if dot not in marked) - 1  # from the bottom up
        assert solid == (high if high == low + 1 else low)


@pytest.mark.parametrize("name", SETS)
@settings(deadline=None)
@given(columns=COLUMNS, ghost=COLUMNS, rows=ROWS)
def test_a_line_behind_hides_neither_the_least_nor_the_greatest(
    name: str, columns: list[tuple[float, float] | None], ghost: list[tuple[float, float] | None], rows: int
) -> None:
    glyphs = SETS[name]
    ghost = (ghost * len(columns))[: len(columns)]
    front, back = filled(columns, TOP, rows, glyphs), level_line(ghost, TOP, rows, glyphs)
    seen = behind(front, back, glyphs)
    solid = "⣿" if name == "braille" else glyphs.levels[-1]
    for y in range(rows):
        for x, (glyph, other) in enumerate(zip(front[y], back[y], strict=True)):
            assert seen[y][x] == (other != " " and glyph in (" ", solid)), "where an edge is, the line gives way to it"
            if seen[y][x]:
                assert seen_behind(glyph, other, glyphs) not in (glyph, " "), "and is seen elsewhere"


@pytest.mark.parametrize("glyphs", SETS.values(), ids=lambda glyphs: glyphs.name)
@settings(deadline=None)
@given(columns=st.lists(SPANS, max_size=24), rows=ROWS, top=st.sampled_from((0.0, 1e-9, 1.0, 100.0)))
def test_there_are_as_many_rows_and_cells_as_asked_for(
    glyphs: Glyphs, columns: list[tuple[float, float] | None], rows: int, top: float
) -> None:
    cells = -(-len(columns) // columns_per_cell(glyphs))
    for draw in (raster, filled, level_line):
        assert [len(row) for row in draw(columns, top, rows, glyphs)] == [cells] * rows


@pytest.mark.parametrize("glyphs", SETS.values(), ids=lambda glyphs: glyphs.name)
def test_nothing_moved_is_not_the_same_as_no_data(glyphs: Glyphs) -> None:
    for draw in (raster, filled):
        still, gap = draw([(0.0, 0.0)] * 2, TOP, 3, glyphs), draw([None] * 2, TOP, 3, glyphs)
        assert still[:2] == gap[:2]
        assert still[2].strip() and not gap[2].strip()


def test_every_glyph_is_one_cell_wide_and_the_ascii_set_is_ascii() -> None:
    from rich.cells import cell_len

    for glyphs in SETS.values():
        for name in glyphs.__slots__:
            if name != "name":
                value = getattr(glyphs, name)
                assert [cell_len(character) for character in value] == [1] * len(value)
                assert glyphs.name != "ascii" or value.isascii()


def test_what_cannot_show_braille_gets_ascii() -> None:
    assert choose("auto", {"TERM": "linux"}, "UTF-8").name == "ascii"
    assert choose("auto", {"TERM": "xterm"}, "ANSI_X3.4-1968").name == "ascii"
    assert choose("auto", {"TERM": "xterm-256color"}, "utf8").name == "braille"
    assert choose("block", {"TERM": "linux"}, "ascii").name == "block"


@given(st.lists(st.tuples(st.floats(-1, 2), st.floats(-1, 2)), max_size=20), ROWS, st.integers(1, 12))
def test_every_point_is_a_dot_at_its_place(points: list[tuple[float, float]], rows: int, cells: int) -> None:
    drawn = scatter(points, cells, rows, SETS["braille"])
    assert [len(row) for row in drawn] == [cells] * rows
    marked = {(column, dot) for column in range(2 * cells) for dot in dots(drawn, column)}
    assert marked == {(level(x, 1, 2 * cells), level(y, 1, 4 * rows)) for x, y in points}


def test_coinciding_points_are_counted() -> None:
    points = [(0.0, 0.0), (0.01, 0.01), (1.0, 1.0), *[(0.5, 0.5)] * 12]
    assert scatter(points, 3, 3, SETS["ascii"]) == ["  o", " 9 ", "2  "]
    assert dots_per_cell(SETS["block"]) == (1, 1)
