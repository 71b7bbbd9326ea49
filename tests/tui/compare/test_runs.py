"""Compare of a run under way, of several, of one that cannot be read, and of none."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.journal import make_run
from tests.support.screens import OLD, compared, drive, on_line, show_compare, text_of, until
from tui import bench

pytestmark = pytest.mark.slow  # opens the interface


def finish(run: Path, cells: int) -> None:
    """Makes the first cells of a recorded run finished, the rest running."""
    with sqlite3.connect(run / "journal.db") as journal:
        journal.execute("UPDATE attempt SET state = iif(id <= ?, 'finished', 'running')", (cells,))
    journal.close()


@pytest.mark.slow
def test_a_running_run_is_compared_again_after_each_cell(recording: Path) -> None:
    finish(recording, 0)

    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        assert "no cell has finished yet: nothing to compare" in text_of(pilot)
        assert f"left out: {OLD} repeat 1" in text_of(pilot)
        await pilot.press("enter", "f", "b", "down", "escape", "s", "c", "escape")
        for cells, pairs in ((2, "1 pair, no verdicts"), (4, "2 pairs ABBA"), (6, "3 pairs ABBA")):
            finish(recording, cells)
            await until(pilot, lambda pairs=pairs: pairs in text_of(pilot))  # type: ignore[misc]
            assert (cells > 2) or "one pair: ratios only, no verdict can be given" in text_of(pilot)
        assert screen.comparison is not None
        assert len({cell.cell for cell in screen.comparison.cells}) == 6

    show_compare(recording, script)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The end of waiting before a call of `bench`."""
    allowed, ask = asyncio.Event(), bench.run

    async def run(*arguments: str, console: Any = None) -> tuple[int, str, str]:
        await allowed.wait()
        return await ask(*arguments, console=console)

    monkeypatch.setattr(bench, "run", run)
    return allowed


@pytest.mark.slow
def test_it_says_so_while_it_compares(recording: Path, answering: asyncio.Event) -> None:
    seen: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        seen.append(text_of(pilot))
        answering.set()
        await compared(pilot)
        answering.clear()
        await pilot.press("r")
        seen.append(text_of(pilot))
        answering.set()
        await compared(pilot)
        seen.append(text_of(pilot))

    show_compare(recording, script)
    assert "comparing..." in seen[0]
    assert "comparing..." in seen[1].splitlines()[1]
    assert ">l.i0  rows/s" in seen[1]
    assert "comparing..." not in seen[2]


def test_a_deleted_run_stays_on_the_screen_with_a_notice(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        shutil.rmtree(recording)
        screen.look()
        await pilot.pause()
        assert ">l.i0  rows/s" in text_of(pilot)
        assert "not a run's folder" in text_of(pilot)

    show_compare(recording, script)


def test_without_a_run_it_says_where_to_find_one(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("b", "enter", "f", "e", "r", "s", "down")
        assert "No run selected: choose one in History (5)" in text_of(pilot) and "bench demo" in text_of(pilot)

    drive(script, None, tmp_path, screen="compare")


@pytest.mark.slow
def test_runs_that_were_picked_are_compared_together(recording: Path, tmp_path: Path) -> None:
    second = tmp_path / "20261121-again"
    shutil.copytree(recording, second)
    manifest = json.loads((second / "manifest.json").read_text())
    (second / "manifest.json").write_text(json.dumps({**manifest, "run": second.name}))

    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        pilot.app.compare_runs([recording, second])  # type: ignore[attr-defined]
        await until(pilot, lambda: screen.comparison is not None and len(screen.comparison.measured.folders) == 2)
        assert "6 pairs" in text_of(pilot)
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("enter", *["down"] * 11)
        assert f"of {second.name}" in text_of(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "REPLAY" in text_of(pilot))
        await pilot.press("3")
        screen.look()
        await compared(pilot)
        assert "6 pairs" in text_of(pilot)

    show_compare(recording, script)


def test_runs_that_do_not_compare_say_why(recording: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other")

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        pilot.app.compare_runs([recording, other])  # type: ignore[attr-defined]
        await until(pilot, lambda: "cannot be compared" in text_of(pilot))

    show_compare(recording, script)


@pytest.mark.slow
def test_the_words_of_a_foreign_record_are_shown_as_they_stand(tmp_path: Path) -> None:
    hostile = "[/red]\x1b]0;x\x07\u202e"

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        for key in ("down", "enter", "escape"):
            await pilot.press(key)
            await pilot.pause()
            assert text_of(pilot).replace("\n", "").isprintable()

    run = make_run(tmp_path / "r", builds=("16.3", hostile), repeats=3, failed={5: f"={hostile}\n2"})
    assert r"[/red]\x1b]0;x\x" in show_compare(run, script, size=(200, 40))
