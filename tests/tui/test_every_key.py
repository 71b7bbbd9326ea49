"""Each key of each screen is pressed, and each key of the last row is clicked: something comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from engine.plan.request import Request
from tests.support.cases import CASES, open_case, run_of
from tests.support.screens import drive, shown_keys, until
from tui import MODES, keys
from tui.app import Bench
from tui.history.screen import HistoryScreen
from tui.launch.screen import LaunchScreen
from tui.screens.bench_screen import BenchScreen
from tui.screens.dialogs import HelpScreen
from tui.widgets.key_row import KeyRow

pytestmark = pytest.mark.slow  # opens the interface

LEAVING = {"app.leave", "app.stop", "dialog.yes"}
MOVING = ("up", "down", "left", "right", "first", "last", "page", "less", "more", "before", "back", "on", "again")


def shown(pilot: Pilot[Any]) -> str:
    assert isinstance(pilot.app, Bench)
    return pilot.app.screen_text()


async def back_to(pilot: Pilot[Any], screen: BenchScreen, mode: str) -> None:
    """Closes what a key opened."""
    for _ in range(5):
        if pilot.app.screen is screen:
            break
        if pilot.app.current_mode != mode:
            await pilot.press(str(MODES.index(mode) + 1))
        else:
            await pilot.press("escape")
        await pilot.pause()
    assert pilot.app.screen is screen, (mode, pilot.app.screen)
    if isinstance(pilot.app.focused, Input):
        await pilot.press("escape")
    if isinstance(screen, LaunchScreen):
        await until(pilot, lambda: not screen.doing)
        screen.change(Request())
    if isinstance(screen, HistoryScreen):
        screen.action_back()
        await until(pilot, lambda: not screen.reading)
    screen.notify_line("")
    await pilot.pause()


@pytest.mark.parametrize("mode", MODES)
def test_each_key_does_something_and_breaks_nothing(
    recording: Path, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    async def script(pilot: Pilot[Any]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, BenchScreen)
        await until(pilot, lambda: not screen.unready)
        await pilot.pause()
        clicked = []
        row = screen.query_one(KeyRow)
        for action in [key.action for key in row.keys if key.description != "quit"]:
            (key,) = (key_shown for key_shown in row.keys if key_shown.action == action)
            before = shown(pilot)
            await pilot.click(row, offset=(key.place, 0))
            await pilot.pause()
            if shown(pilot) == before:
                await pilot.pause(0.3)  # for the answer of another process
            assert shown(pilot) != before, (mode, key.description)
            clicked.append(key.description)
            await back_to(pilot, screen, mode)
        assert "help" in clicked and len(clicked) >= 4
        holding = keys.holding(screen)
        for id, (active, pressed) in holding.items():
            if id in LEAVING or (id.startswith("app.") and mode != "live"):  # those hold everywhere: once is enough
                continue
            before = shown(pilot)
            await pilot.press(active.binding.key)
            await pilot.pause()
            assert "internal error" not in shown(pilot), id
            quiet = id.startswith("app.") or id.rpartition(".")[2].startswith(MOVING)
            if not quiet and shown(pilot) == before:
                await pilot.pause(0.3)
                assert shown(pilot) != before, (id, pressed)
            await back_to(pilot, screen, mode)
        assert pilot.app.return_code is None

    drive(script, recording, recording.parent, screen=mode, size=(110, 30))


@pytest.mark.parametrize(
    "name",
    ["live-replay", "live-stalled", "live-interleaved", "live-detail", "compare-cells", "compare-slices", "flame"],
)
def test_each_key_of_the_last_row_acts_on_further_screens(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[name]

    async def script(pilot: Pilot[Any]) -> None:
        await open_case(pilot, case)
        front = type(pilot.app.screen)
        # The step has one stall, so that the next one is the same; one role; and no lower speed.
        alone = ("leave", "back", "stall(1)", "role", "speed(-1)")
        for key, binding in [pair for pair in shown_keys(pilot.app.screen) if pair[1].action not in alone]:
            before = pilot.app.screen, shown(pilot)
            await pilot.press(key)
            await until(pilot, lambda before=before: (pilot.app.screen, shown(pilot)) != before)  # type: ignore[misc]
            while len(pilot.app.screen_stack) > 1 and not isinstance(pilot.app.screen, front):
                await pilot.press("escape")
            if not isinstance(pilot.app.screen, front):
                await pilot.press(str(MODES.index(case.mode) + 1), case.keys[-1][0])
            await until(pilot, lambda: isinstance(pilot.app.screen, front) and case.words in shown(pilot))
            assert "internal error" not in shown(pilot), binding

    with run_of(case, tmp_path) as (run, clock):
        drive(script, run, run.parent, screen=case.mode, clock=clock, replayed=case.replayed)


def test_each_key_of_what_lies_over_a_screen_can_be_clicked(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        box = pilot.app.screen
        assert isinstance(box, HelpScreen)
        for words in ("page down", "back", "?", "close"):
            row = box.query_one(KeyRow)
            (key,) = (hint for hint in row.keys if words in (hint.description, hint.display))
            before = shown(pilot)
            await pilot.click(row, offset=(key.end - 1, 0))
            await pilot.pause()
            assert shown(pilot) != before, words
        assert pilot.app.screen is not box

    drive(script, recording, recording.parent)
