"""History with runs that were driven in slices: they are marked, found, and behave as others do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.screens import dated_run, read, row_with, show_history, typed, until
from tests.support.totals import made_slices
from tui.history.screen import HistoryScreen

pytestmark = pytest.mark.slow  # opens the interface

RATES = {"16.3": 8000.0, "17.0": 7600.0}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with a run of whole cells, and one in slices."""
    dated_run(tmp_path, "20261119-100000-16.3-17.0", repeats=1)
    slices = partial(made_slices, rate_per_s=RATES)
    dated_run(tmp_path, "20261120-100000-16.3-17.0", repeats=1, slices=slices)
    return tmp_path


def test_a_run_in_slices_is_marked_and_one_of_whole_cells_is_not(out: Path) -> None:
    wide = show_history(out, size=(130, 36))
    assert "slices" in wide.splitlines()[2]
    assert row_with(wide, " 50 ms ", "2/2").startswith(">"), "the newest, and no other"
    text = show_history(out)
    assert "g24b 100000, slices 50 ms, 1 client" in text
    assert "slices" not in show_history(out, "down").splitlines()[-2], "the line about the other run"
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_column_takes_no_room_from_the_builds(tmp_path: Path) -> None:
    builds = ("12.11-prebuilt", "16.3-prebuilt")
    rates = dict.fromkeys(builds, 8000.0)
    dated_run(tmp_path, "20261120-100000-12.11-16.3", builds=builds, repeats=1,
         slices=lambda cell, step: made_slices(cell, step, rates))  # fmt: skip
    show_history(tmp_path, held_to="history-slices")


def test_its_cells_are_flagged(out: Path) -> None:
    text = show_history(out, "enter")
    assert text.count("slices 50 ms") >= 8
    assert "slices 50 ms" not in show_history(out, "down", "enter")
    both = show_history(out, "c", size=(130, 30))
    assert sum("slices 50 ms" in line for line in both.splitlines()[2:18]) == 8


def test_it_is_found_by_its_slices(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        await pilot.press("slash")
        await typed(pilot, "load=slices")
        await read(pilot, HistoryScreen)
        assert [run.name for run in screen.listing.runs] == ["20261120-100000-16.3-17.0"]
        await pilot.press("c")
        await read(pilot, HistoryScreen)
        assert len(screen.listing.cells) == 8
        await pilot.press("escape", "slash")
        await typed(pilot, "!load=slices")
        await read(pilot, HistoryScreen)
        assert screen.listing.slices == {} and "slices" not in pilot.app.screen_text().splitlines()[2]  # type: ignore[attr-defined]

    show_history(out, then=act, size=(130, 36))


def test_it_is_not_pooled_with_one_of_whole_cells(out: Path) -> None:
    async def act(pilot: Pilot[Any], _: HistoryScreen) -> None:
        await pilot.press("v", "down", "v")
        await until(pilot, lambda: "unlike loads" in " ".join(pilot.app.screen_text().split()))  # type: ignore[attr-defined]

    assert "may stand side by side" in " ".join(show_history(out, then=act).split())
