"""Compare driven: opened on a run, brought to a line of its table, and read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tests.support.driving import check_screen, drive
from tui.compare.screen import CompareScreen

Script = Callable[[Pilot[Any]], Awaitable[Any]]
OLD, NEW = "14.10-prebuilt", "16.3-prebuilt"


async def until(pilot: Pilot[Any], held: Callable[[], bool]) -> None:
    """Waits for something that a process or a worker brings about."""
    limit = time.monotonic() + 60
    while not held():
        assert time.monotonic() < limit, pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.pause(0.02)
    await pilot.pause()


def compare_screen(app: Any) -> CompareScreen:
    screen = app._screen_stacks["compare"][0]
    assert isinstance(screen, CompareScreen)
    return screen


async def compared(pilot: Pilot[Any]) -> CompareScreen:
    """Waits until the comparison is there, or what went wrong."""
    screen = compare_screen(pilot.app)
    await until(pilot, lambda: not screen._busy and (screen._found is not None or bool(screen._problem)))
    return screen


async def on_line(pilot: Pilot[Any], step: str, metric: str) -> CompareScreen:
    """Moves to a line of the table."""
    screen = await compared(pilot)
    while screen.chosen is not None and (screen.chosen[1].step, screen.chosen[1].metric) != (step, metric):
        before = screen._cursor
        await pilot.press("down")
        assert screen._cursor != before, f"no line {step} {metric}"
    return screen


def text(pilot: Pilot[Any]) -> str:
    found: str = pilot.app.screen_text()  # type: ignore[attr-defined]
    return found


def compare(
    run: Path,
    script: Script = compared,
    *,
    glyphs: str = "braille",
    size: tuple[int, int] = (80, 24),
    held_to: str = "",
) -> str:
    """Opens the screen on a run, runs a script in it, holds it to a file where asked, and gives what it then shows."""
    shown: list[str] = []

    async def act(pilot: Pilot[Any]) -> None:
        await script(pilot)
        await pilot.pause()
        if held_to:
            check_screen(pilot.app, held_to)  # type: ignore[arg-type]
        shown.append(text(pilot))

    drive(act, run, run.parent, screen="compare", size=size, glyphs=glyphs)
    return shown[0]


def bench(*arguments: str) -> str:
    """What the command prints to a terminal that knows UTF-8."""
    done = subprocess.run(
        [sys.executable, "-m", "engine", *arguments],
        env=os.environ | {"PYTHONUTF8": "1", "COLUMNS": "80", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
