"""History driven: a folder of runs, the screen opened on it, and read."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tests.support.driving import drive
from tests.support.made_run import make_run
from tui.app import Bench
from tui.history.screen import HistoryScreen

NAME = "20261120-131303-14.10_prebuilt-16.3_prebuilt"


def made(out: Path, name: str, **values: Any) -> Path:
    run = make_run(out / name, **values)
    (run / "cells").mkdir(exist_ok=True)
    os.utime(run, (1_795_000_000, 1_795_000_000))
    return run


def folder_of_runs(recording: Path) -> Path:
    """A folder with the recording, a run with a failed cell, one that was cut short, and one that is damaged."""
    folder = recording.parent
    made(folder, "20261119-100000-16.3-17.0", repeats=2, failed={1: "disk full"}, configs=("auto", "cx9a2"))
    made(folder, "20261118-100000-16.3-18.1", builds=("16.3", "18.1"), repeats=3, unfinished=(4, 5))
    damaged = folder / "20261117-100000-damaged"
    (damaged / "cells").mkdir(parents=True)
    (damaged / "manifest.json").write_text("{")
    os.utime(damaged, (1_794_800_000, 1_794_800_000))
    return folder


def history(app: Bench) -> HistoryScreen:
    screen = app.screen_stack[0]
    assert isinstance(screen, HistoryScreen)
    return screen


async def read(pilot: Pilot[Any]) -> HistoryScreen:
    """Waits until all that is wanted has been read."""
    screen = history(pilot.app)  # type: ignore[arg-type]
    await until(pilot, lambda: not screen._reading and not screen.listing.unread())
    await pilot.pause()
    return screen


async def until(pilot: Pilot[Any], held: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not held():
        assert time.monotonic() < limit, pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.pause(0.02)


Act = Callable[[Pilot[Any], HistoryScreen], Awaitable[None]]


def shown(out: Path, *pressed: str, run: Path | None = None, then: Act | None = None, **options: Any) -> str:
    """Opens History on a folder, presses keys, and returns the screen."""
    found: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        screen = await read(pilot)
        for key in pressed:
            await pilot.press(key)
            await read(pilot)
        if then is not None:
            await then(pilot, screen)
        found.append(pilot.app.screen_text())  # type: ignore[attr-defined]

    drive(script, run, out, screen="history", **options)
    return found[0]


def row(text: str, *words: str) -> str:
    """The one line that has all words."""
    lines = [line for line in text.splitlines() if all(word in line for word in words)]
    assert len(lines) == 1, (words, text)
    return lines[0]


async def typed(pilot: Pilot[Any], text: str) -> None:
    from textual.widgets import Input

    pilot.app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await pilot.pause()
