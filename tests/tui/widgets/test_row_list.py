"""A list longer than the screen: by keys, by the wheel and by clicks."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from tui.marks import Line, line
from tui.widgets.row_list import Rows

pytestmark = pytest.mark.slow  # opens the interface


class Shown(App[None]):
    """A hundred rows, of which ten are seen."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[int] = []
        self.clicked: list[tuple[int, bool]] = []

    def compose(self) -> ComposeResult:
        yield Rows(self.draw, id="rows")

    def draw(self, place: int) -> Line:
        self.drawn.append(place)
        return line(f"row {place}")

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        self.clicked.append((event.place, event.twice))


@pytest.mark.parametrize("cursor", [0, 9, 10, 50, 99])
def test_the_cursor_is_within_what_is_seen_and_no_more_is_drawn(cursor: int) -> None:
    async def act() -> None:
        app = Shown()
        async with app.run_test(size=(20, 10)) as pilot:
            await pilot.pause()
            rows = app.query_one(Rows)
            app.drawn.clear()
            rows.show(100, cursor)
            await pilot.pause()
            assert rows.top <= cursor < rows.top + 10 and 0 <= rows.top <= 90
            assert len(set(app.drawn)) <= 20
            rows.show(3, 2)  # it has become short
            await pilot.pause()
            assert rows.top == 0

    asyncio.run(act())


def test_only_rows_that_are_others_than_before_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = dict.fromkeys(range(100), "as before")
    monkeypatch.setattr(Shown, "draw", lambda _, place: line(f"{place} {texts[place]}"))

    async def act() -> None:
        app = Shown()
        async with app.run_test(size=(20, 10)) as pilot:
            rows, asked = app.query_one(Rows), list[tuple[Region, ...]]()
            rows.show(100, 0)
            monkeypatch.setattr(rows, "refresh", lambda *regions, **_: asked.append(regions))
            rows.show(100, 0)
            assert asked == []
            texts[3] = texts[40] = "another"
            rows.show(100, 0)
            assert asked == [(Region(0, 3, rows.size.width, 1),)] and "3 another" in rows.render_line(3).text
            rows.show(100, 45)
            await pilot.pause()
            assert () in asked and "40 another" in rows.render_line(40 - rows.top).text

    asyncio.run(act())


def test_the_wheel_leaves_the_cursor_and_a_click_tells_the_row() -> None:
    async def act() -> None:
        app = Shown()
        async with app.run_test(size=(20, 10)) as pilot:
            rows = app.query_one(Rows)
            rows.show(100, 0)
            await pilot.pause()
            rows.scroll_down(animate=False)  # as the wheel does
            rows.scroll_down(animate=False)
            await pilot.pause()
            assert rows.top == 2
            rows.show(100, 0)  # drawn anew, the cursor has not moved
            await pilot.pause()
            assert rows.top == 2
            await pilot.click(Rows, offset=(3, 4))
            await pilot.click(Rows, offset=(3, 4), times=2)
            await pilot.pause()
            assert app.clicked[0] == (6, False) and (6, True) in app.clicked

    asyncio.run(act())
