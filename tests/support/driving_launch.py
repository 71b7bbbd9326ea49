"""Launch driven: opened when it has asked all, typed into, and read."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from tests.support.driving import drive
from tui.app import Bench
from tui.launch.item_panel import Panel
from tui.launch.screen import LaunchScreen
from tui.screens.over import LineScreen

Act = Callable[[Pilot[Any], LaunchScreen], Awaitable[None]]


async def until(pilot: Pilot[Any], held: Callable[[], bool]) -> None:
    limit = time.monotonic() + 90
    while not held():
        assert time.monotonic() < limit, pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.pause(0.02)
    await pilot.pause()


def launched(
    act: Act, out: Path, size: tuple[int, int] = (80, 24), glyphs: str = "braille", *, ready: bool = True
) -> Bench:
    """Drives the screen when it has asked all that it asks at first."""

    async def script(pilot: Pilot[Any]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, LaunchScreen)
        if ready:
            await until(pilot, lambda: bool(screen.checks) and bool(screen.offer.builds))
            screen.query_one("#builds", Panel).focus()
            await pilot.pause()
        await act(pilot, screen)

    return drive(script, None, out, screen="launch", size=size, glyphs=glyphs)


async def settled(pilot: Pilot[Any], screen: LaunchScreen) -> None:
    """Waits until it is counted what the plan comes to."""
    await until(pilot, lambda: screen.estimate is not None or bool(screen.trouble))


async def typed(pilot: Pilot[Any], text: str) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, LineScreen))
    pilot.app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await pilot.pause()


def notice(app: Bench) -> str:
    lines = app.screen.query_one("#notice").lines  # type: ignore[attr-defined]
    return " ".join("".join(text for text, _ in line).strip() for line in lines)
