"""Keys that are pressed while a screen still reads act when it has read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.screens import drive, folder_of_runs, show_launch, until
from tui import bench
from tui.compare.cells_screen import CellsScreen
from tui.compare.screen import CompareScreen
from tui.history.screen import HistoryScreen
from tui.launch.item_panel import Panel
from tui.launch.screen import LaunchScreen

pytestmark = pytest.mark.slow  # opens the interface


def test_history_moves_once_it_has_read(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("5", "down", "down")
        screen = pilot.app.screen
        assert isinstance(screen, HistoryScreen)
        await until(pilot, lambda: not screen.unready and screen.listing.cursor == 2)

    drive(script, recording, folder_of_runs(recording))


def test_compare_moves_and_opens_once_it_has_compared(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("3", "down", "down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, CellsScreen))
        compare = pilot.app.screen_stack[0]
        assert isinstance(compare, CompareScreen) and compare.cursor == (2, 0)

    drive(script, recording, recording.parent)


def test_who_leaves_meanwhile_wants_nothing_any_more(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("3", "ctrl+c")
        assert "q quits, the run continues" in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("enter", "2")
        await pilot.press("3")
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        await until(pilot, lambda: not screen.unready)
        await pilot.pause(0.1)
        assert pilot.app.screen is screen

    drive(script, recording, recording.parent)


def test_launch_moves_once_it_knows_the_builds(tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        screen.query_one("#builds", Panel).focus()
        await pilot.press("down", "space")
        await until(pilot, lambda: bool(screen.plan.builds))
        assert screen.query_one("#builds", Panel).cursor == 1

    show_launch(act, tmp_path, ready=False)


def test_a_screen_that_failed_to_read_answers_its_keys(recording: Path, monkeypatch: Any) -> None:
    async def run(*_: str, console: object = None) -> tuple[int, str, str]:
        return 2, "", "bench: no such luck"

    monkeypatch.setattr(bench, "run", run)

    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("3", "enter")
        await until(pilot, lambda: "no such luck" in pilot.app.screen_text())  # type: ignore[attr-defined]
        await until(pilot, lambda: "no ratio to open" in pilot.app.screen_text())  # type: ignore[attr-defined]

    drive(script, recording, recording.parent)
