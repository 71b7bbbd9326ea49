"""The top row: where one is, how the other screens are opened, and what to do next."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.journal import growing
from tests.support.screens import drive, place_of, until
from tui import MODES
from tui.app import Bench

pytestmark = pytest.mark.slow  # opens the interface


def top(pilot: Pilot[Any]) -> str:
    assert isinstance(pilot.app, Bench)
    return pilot.app.screen_text().splitlines()[0]


@pytest.mark.parametrize("columns", [80, 60])
def test_screens_are_in_the_top_row_and_open_by_a_click(recording: Path, columns: int) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        for number, mode in enumerate(MODES, 1):
            word = f"{number} {mode.capitalize()}"
            await pilot.click(offset=place_of(pilot, word))
            await pilot.pause()
            assert pilot.app.current_mode == mode
            row = " 1 Launch  2 Live  3 Compare  4 Probes  5 History ".replace(f" {word} ", f"[{word}]")
            assert top(pilot).startswith(row.rstrip())

    drive(script, recording, recording.parent, size=(columns, 24))


def test_in_a_small_terminal_the_row_gives_way(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert "Launch" not in top(pilot) and "too small" in pilot.app.screen_text()  # type: ignore[attr-defined]

    drive(script, recording, recording.parent, size=(50, 12))


def test_a_run_that_has_finished_is_compared_next(recording: Path, tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert top(pilot).endswith("finished: 3 compares")
        await pilot.press("3")
        await pilot.pause()
        assert "compares" not in top(pilot)

    drive(script, recording, recording.parent)


def test_the_end_of_a_run_is_told_on_another_screen(tmp_path: Path) -> None:
    with ExitStack() as engine:
        live = engine.enter_context(growing(tmp_path))
        live.second()

        async def script(pilot: Pilot[Any]) -> None:
            app = pilot.app
            assert isinstance(app, Bench)
            await pilot.press("5")
            app.notice_end()
            live.end_step()
            live.journal.end_attempt(live.attempt, live.hand.at_ns, "finished")
            engine.close()
            app.notice_end()
            await until(pilot, lambda: "has finished: 3 compares" in " ".join(app.screen_text().split()))

        drive(script, live.run, tmp_path, clock=live.hand.clock)
