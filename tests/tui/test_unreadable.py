"""Values in a journal that nobody understands, on the screens beside Live: one line says so."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.screens import drive
from tui.app import Bench

pytestmark = pytest.mark.slow  # opens the interface


def text(pilot: Pilot[Any]) -> str:
    assert isinstance(pilot.app, Bench)
    return " ".join(pilot.app.screen_text().split())


async def until(pilot: Pilot[Any], held: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not held():
        assert time.monotonic() < limit, text(pilot)
        await pilot.pause(0.05)


def spoil(run: Path) -> None:
    with closing(sqlite3.connect(run / "journal.db")) as journal:
        journal.execute("UPDATE event SET data = 'nonsense'")
        journal.commit()


def test_probes_say_that_the_journal_cannot_be_understood(recording: Path) -> None:
    spoil(recording)

    async def script(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "table event: cannot be read" in text(pilot))

    drive(script, recording, recording.parent, screen="probes")


def test_two_charts_over_each_other_say_that_the_journal_cannot_be_understood(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "3 pairs" in text(pilot))
        spoil(recording)
        await pilot.press("o")
        await until(pilot, lambda: "table event: cannot be read" in text(pilot))

    drive(script, recording, recording.parent, screen="compare")
