"""The mouse: the keys of the last row, lists and rows can be clicked, and turn with the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList

from tests.support.screens import drive, place_of, read, screen_of, text_of, until
from tui.compare.screen import CompareScreen
from tui.history.screen import HistoryScreen
from tui.probes.screen import ProbesScreen
from tui.screens.dialogs import PickScreen, TickScreen
from tui.widgets.key_row import KeyRow
from tui.widgets.tabs import Tabs

pytestmark = pytest.mark.slow  # opens the interface


def test_what_can_be_clicked_lights_up_under_the_mouse(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        def lit() -> list[str]:
            rows = [line for part in pilot.app.screen.query(KeyRow) for line in part.lines]
            rows += pilot.app.screen.query_one(Tabs).lines
            return [text for row in rows for text, mark in row if mark == "cursor"]

        for words in ("? help", "q quit", "3 Compare"):
            await pilot.hover(offset=place_of(pilot, words))
            await pilot.pause()
            assert lit() == [words]
        await pilot.hover(offset=(40, 12))
        await pilot.pause()
        assert lit() == []

    drive(script, recording, recording.parent)


def test_one_and_some_of_a_list_are_clicked(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        answers: list[tuple[str, ...] | None] = []
        choices = [(name, f"choice {name}") for name in "abc"]
        pilot.app.push_screen(PickScreen("which one", choices, "b"), answers.append)
        await until(pilot, lambda: "> choice b" in text_of(pilot))
        await pilot.click(offset=place_of(pilot, "choice c"))
        await pilot.pause()
        pilot.app.push_screen(TickScreen("which", choices, ["a"]), answers.append)
        await until(pilot, lambda: "> [x] choice a" in text_of(pilot))
        await pilot.click(offset=place_of(pilot, "choice b"))
        await until(pilot, lambda: "> [x] choice b" in text_of(pilot))
        await pilot.press("up", "space", "enter")
        await pilot.pause()
        assert answers == [("c",), ("b",)]

    drive(script, None, tmp_path)


def test_a_long_list_scrolls_to_its_cursor(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        answers: list[tuple[str, ...] | None] = []
        choices = [(str(number), f"choice {number}") for number in range(100)]
        pilot.app.push_screen(PickScreen("which one", choices, "50"), answers.append)
        await until(pilot, lambda: "> choice 50" in text_of(pilot))
        await pilot.press("end", "k")
        await until(pilot, lambda: "> choice 98" in text_of(pilot))
        assert pilot.app.screen.query_one(OptionList).scroll_offset.y > 50
        await pilot.press("enter")
        await pilot.pause()
        assert answers == [("98",)]

    drive(script, None, tmp_path)


def test_a_run_is_opened_by_two_clicks(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen: HistoryScreen = await read(pilot, HistoryScreen)
        assert screen_of(pilot.app, HistoryScreen) is screen
        await pilot.click(offset=place_of(pilot, "14.10"), times=2)
        await read(pilot, HistoryScreen)
        assert screen.listing.opened == recording

    drive(script, recording, recording.parent, screen="history")


@pytest.mark.parametrize("mode", ["compare", "probes"])
def test_a_table_row_is_clicked_and_the_wheel_scrolls(recording: Path, mode: str) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, (CompareScreen, ProbesScreen))

        def at() -> str:
            rows: list[str] = pilot.app.screen_text().splitlines()  # type: ignore[attr-defined]
            return next(row for row in rows[3:] if row.startswith(">")).removeprefix(">")[:20]

        await until(pilot, lambda: not screen.unready and "\n>" in pilot.app.screen_text())  # type: ignore[attr-defined]
        table = screen.query_one("#table").region
        first = pilot.app.screen_text().splitlines()[table.y + 1][1:21]  # type: ignore[attr-defined]
        await pilot.click(offset=(table.x + 5, table.y + 3))
        await pilot.pause()
        clicked = at()
        assert clicked != first
        await pilot.click(offset=(table.x + 5, table.y))  # the heading
        await pilot.pause()
        assert at() == clicked
        for turn in (events.MouseScrollDown, events.MouseScrollUp):
            x, y = table.x + 5, table.y + 3
            screen._forward_event(turn(None, x, y, 0, 1, 0, False, False, False, screen_x=x, screen_y=y))  # noqa: SLF001
            await pilot.pause()
            assert (at() == clicked) == (turn is events.MouseScrollUp)

    drive(script, recording, recording.parent, screen=mode)
