"""Live: of a step whose transactions are timed one by one, each is in the chart, instead of a rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine.journal.reader import JournalReader
from tests.support.screens import show_live, text_of
from tests.support.timed import STEP, timed_run
from tui.live.screen import LiveScreen

ENDED = {"16.3": [(1, 0.05, 50.0), (2, 0.06, 60.0), (1, 0.12, 70.0), (2, 0.2, 140.0)], "17.0": [(1, 0.2, 100.0)]}


def test_each_transaction_is_drawn_while_it_ran(tmp_path: Path) -> None:
    run = timed_run(tmp_path / "20261120-131303-16.3-17.0", ENDED)
    with JournalReader(run) as reader:
        cell = next(attempt.cell for attempt in reader.attempts() if "16.3" in attempt.cell)

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert screen.player is not None and screen.view is not None and screen.view.step is not None
        start_ns = screen.view.step.started_ns
        shown = []
        for at_s in (0.01, 0.13, 0.21):
            screen.player.seek(start_ns + int(at_s * 1e9))
            screen.repaint()
            await pilot.pause()
            shown.append(text_of(pilot))
        assert "last -  median -  n 0" in shown[0]
        assert "ms of each transaction, last 70" in shown[1] and "median 60" in shown[1] and "n 3" in shown[1]
        assert "last 140" in shown[2] and "n 4" in shown[2]
        await pilot.press("left")
        assert "ms 140" in text_of(pilot).splitlines()[3], "what is read out is what is drawn, and no rate"
        await pilot.press("escape")
        lines = shown[2].splitlines()
        top = next(place for place, line in enumerate(lines) if line.startswith("   150"))
        assert any(letter not in " 0123456789" for letter in lines[top + 1])
        # The first was under way from the step's begin on, the last one's line is the highest, up to four fifths.
        drawn = [line[7:] for line in lines[top : top + 12]]
        assert max(place for line in drawn[:2] for place, letter in enumerate(line.rstrip()) if letter != " ") < 70

    show_live(run, check, replayed=(cell, STEP))
