"""The Live screen as text: of a run under way, of one that is over, of a cell replayed, and of a stall's detail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.journal import growing
from tests.support.screens import Act, check_screen, drive, replay, show_live, stalling, text_of
from tui.live.screen import LiveScreen

pytestmark = pytest.mark.slow  # opens the interface


def held(name: str) -> Act[LiveScreen]:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    return check


def test_screen_of_a_finished_run(recording: Path) -> None:
    show_live(recording, held("live"))


def test_screen_of_a_replay_in_a_stall(recording: Path) -> None:
    replay(recording, held("live-replay"), at_s=10.5)


def test_screen_of_a_stall_that_lasts(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        stalling(live)
        show_live(live.run, held("live-stalled"), clock=live.hand.clock)


def test_screen_of_the_detail_of_a_stall(recording: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        await pilot.press("space", "enter")
        await pilot.pause()
        check_screen(pilot.app, "live-detail")  # type: ignore[arg-type]

    replay(recording, check, at_s=13)


def test_no_run_says_how_to_come_to_one(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert "bench demo shows a recording" in " ".join(text_of(pilot).split())

    drive(script, None, tmp_path)
    drive(script, None, tmp_path, size=(60, 18))
