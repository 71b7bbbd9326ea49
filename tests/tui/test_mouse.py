"""What a mouse does: the keys of the last row, lists and rows can be clicked, and turn with the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import OptionList

from tests.support.driving import drive, place_of
from tests.support.driving_history import history, read
from tui.history.screen import HistoryScreen
from tui.live.screen import LiveScreen
from tui.screens.over import HelpScreen, PickScreen, TickScreen


def test_a_key_of_the_last_row_can_be_clicked(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert isinstance(pilot.app.screen, LiveScreen)
        await pilot.click(offset=place_of(pilot, "? help"))
        await pilot.pause()
        assert isinstance(pilot.app.screen, HelpScreen)
        await pilot.click(offset=place_of(pilot, "esc close"))
        await pilot.pause()
        assert isinstance(pilot.app.screen, LiveScreen)

    drive(script, recording, recording.parent)


def test_one_and_some_of_a_list_are_clicked(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        answers: list[tuple[str, ...] | None] = []
        choices = [(name, f"choice {name}") for name in "abc"]
        pilot.app.push_screen(PickScreen("which one", choices, "b"), answers.append)
        await pilot.pause()
        assert "> choice b" in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.click(offset=place_of(pilot, "choice c"))
        await pilot.pause()
        pilot.app.push_screen(TickScreen("which", choices, ["a"]), answers.append)
        await pilot.pause()
        await pilot.click(offset=place_of(pilot, "choice b"))
        await pilot.pause()
        assert "> [x] choice b" in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("up", "space", "enter")
        await pilot.pause()
        assert answers == [("c",), ("b",)]

    drive(script, None, tmp_path)


def test_a_long_list_scrolls_to_its_cursor(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        answers: list[tuple[str, ...] | None] = []
        choices = [(str(number), f"choice {number}") for number in range(100)]
        pilot.app.push_screen(PickScreen("which one", choices, "50"), answers.append)
        await pilot.pause()
        assert "> choice 50" in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("end", "k")
        await pilot.pause()
        assert "> choice 98" in pilot.app.screen_text()  # type: ignore[attr-defined]
        assert pilot.app.screen.query_one(OptionList).scroll_offset.y > 50
        await pilot.press("enter")
        await pilot.pause()
        assert answers == [("98",)]

    drive(script, None, tmp_path)


def test_a_run_is_opened_by_two_clicks(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen: HistoryScreen = await read(pilot)
        assert history(pilot.app) is screen  # type: ignore[arg-type]
        await pilot.click(offset=place_of(pilot, "14.10"), times=2)
        await read(pilot)
        assert screen.listing.opened == recording

    drive(script, recording, recording.parent, screen="history")
