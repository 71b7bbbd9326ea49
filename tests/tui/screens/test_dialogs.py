"""Dialogs over a screen: the line that is typed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.screens import drive, text_of, until
from tui.app import Bench
from tui.screens.dialogs import LineScreen

pytestmark = pytest.mark.slow  # opens the interface


@pytest.mark.parametrize("size", [(80, 24), (60, 18), (200, 60)])
def test_what_is_typed_is_seen(recording: Path, size: tuple[int, int]) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert isinstance(pilot.app, Bench)
        pilot.app.push_screen(LineScreen("What?", "as it was"))
        await until(pilot, lambda: "as it was" in text_of(pilot))
        await pilot.press("end", "comma", "n", "e", "w")
        await pilot.pause()
        assert "as it was,new" in pilot.app.screen_text()

    drive(script, recording, recording.parent, size=size)


def test_a_question_lies_over_the_screen_which_is_still_seen(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert isinstance(pilot.app, Bench)
        title = pilot.app.screen_text().splitlines()[0]
        await pilot.press("question_mark")
        await pilot.pause()
        assert len(pilot.app.screen_stack) > 1
        assert pilot.app.screen_text().splitlines()[0] == title

    drive(script, recording, recording.parent)


@pytest.mark.parametrize("mode", ["live", "launch", "history"])
def test_the_palette_is_plain_text_and_names_each_thing_once(recording: Path, mode: str) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert isinstance(pilot.app, Bench)
        named = [command.title for command in pilot.app.get_system_commands(pilot.app.screen)]
        ids = {active.binding.id for active in pilot.app.screen.active_bindings.values() if active.binding.id}
        assert len(named) == len(ids)
        await pilot.press("ctrl+p")
        await pilot.pause(0.5)
        text = pilot.app.screen_text()
        assert text.isascii(), [character for character in text if not character.isascii()]
        assert "question_mark" not in text
        entries = [row for row in text.splitlines() if re.search(r"\|  \S.* {2,}\S+ +\|", row)]
        assert len(entries) >= 12, f"a row each:\n{text}"
        await pilot.press("escape", "question_mark")
        await pilot.pause()
        assert "+--" in pilot.app.screen_text()

    drive(script, recording, recording.parent, screen=mode, glyphs="ascii")
