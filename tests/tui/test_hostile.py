"""Somebody else's record on every screen: its text is shown, and does nothing to the terminal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.report import follow
from engine.report.console import PlainConsole
from tests.support.hostile import EVIL, poison
from tests.support.journal import growing
from tests.support.screens import drive, until
from tui.app import Bench
from tui.marks import line
from tui.screens.dialogs import AskScreen, LineScreen, PagesScreen, PickScreen, TickScreen

pytestmark = pytest.mark.slow  # opens the interface

SHOWN = "[/red][bold]\\u202e"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    with growing(tmp_path) as live:
        live.second()
        stall = live.stall("insert", ("backend 1 is stopped",))
        live.second(insert=0)
        live.end_stall(stall, "backend 1 is stopped")
        for kind in ("mark", "server_error", "probe", "probe_gap", "drift", "checkpoint", "autovacuum", "progress"):
            live.journal.add_event(
                kind, live.hand.at_ns, {"text": "words", "message": "words", "probe": "planner", "cause": "time"},
                ended_ns=live.hand.at_ns, attempt=live.attempt, step=live.step,
            )  # fmt: skip
        live.second()
        live.end_step()
        live.journal.end_attempt(live.attempt, live.hand.at_ns, "failed", "disk full")
    return poison(live.run)


def harmless(pilot: Pilot[Any]) -> str:
    """Hostile text on the screen moves no cursor, turns no text round and rings no bell."""
    assert isinstance(pilot.app, Bench)
    shown = pilot.app.screen_text()
    assert all(row.isprintable() for row in shown.splitlines()), repr(shown)
    return shown


@pytest.mark.parametrize("size", [(80, 24), (130, 36)])
def test_every_screen_shows_it_as_text(hostile: Path, size: tuple[int, int]) -> None:
    seen: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        keys = "2 enter escape 4 5 v T escape D escape enter s enter 3"
        for pressed in keys.split():
            await pilot.press(pressed)
            await pilot.pause(0.2)
            seen.append(harmless(pilot))

    drive(script, hostile, hostile.parent, size=size)
    assert any("\\x1b[2J" in text for text in seen) and any("[/red]" in text for text in seen)


def test_what_lies_over_a_screen_shows_it_as_text(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        choices = [("one", EVIL), (EVIL, EVIL)]
        for over in (
            AskScreen(EVIL), LineScreen(EVIL, EVIL), PickScreen(EVIL, choices), TickScreen(EVIL, choices, [EVIL]),
            PagesScreen(EVIL, [line(EVIL)]),
        ):  # fmt: skip
            pilot.app.push_screen(over)
            await until(pilot, lambda over=over: pilot.app.screen is over and SHOWN in harmless(pilot))  # type: ignore[misc]
            pilot.app.pop_screen()
        pilot.app.say(EVIL)  # type: ignore[attr-defined]
        await pilot.pause()
        assert SHOWN in harmless(pilot)

    drive(script, None, tmp_path)


def test_plain_lines_show_it_as_text(hostile: Path) -> None:
    out = io.StringIO()
    follow.follow(hostile, PlainConsole(file=out, force_terminal=True))
    assert "FAILED" in out.getvalue() and "\\x1b[2J" in out.getvalue()
    assert all(row.isprintable() for row in [*out.getvalue().splitlines(), follow.once(hostile, as_json=True)])
