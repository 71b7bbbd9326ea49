"""History: what its keys open, sort, find, compare, tag and remove."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.journal.housekeeping import read_tags, tag
from engine.journal.writer import JournalWriter
from engine.view.run_summary import RunCache, StepSummary
from tests.support.screens import NAME, dated_run, folder_of_runs, read, show_history, text_of, typed, until
from tui.app import Bench
from tui.history.listing import HistoryListing
from tui.history.screen import HistoryScreen

pytestmark = pytest.mark.slow  # opens the interface


@pytest.fixture
def out(recording: Path) -> Path:
    """A folder with the recording, a run with a failed cell, one that was cut short, and one that is damaged."""
    return folder_of_runs(recording)


def test_enter_opens_and_escape_goes_back(out: Path) -> None:
    async def act(pilot: Pilot[Any], _: HistoryScreen) -> None:
        assert "cells of" in text_of(pilot)
        await pilot.press("escape")
        await read(pilot, HistoryScreen)
        assert "cells of" not in text_of(pilot)

    show_history(out, "enter", then=act)


def test_the_cursor_moves_and_stays_in_sight(tmp_path: Path) -> None:
    source = dated_run(tmp_path, "20260101-000000-a", repeats=1)
    for n in range(30):
        shutil.copytree(source, tmp_path / f"20260101-0000{n + 10}-b")

    async def act(pilot: Pilot[Any], _: HistoryScreen) -> None:
        async def name(*keys: str) -> str:
            await pilot.press(*keys)
            await pilot.pause()
            return text_of(pilot).splitlines()[21].strip()

        assert await name() == "20260101-000039-b"
        assert await name("down", "j", "k", "down") == "20260101-000037-b"
        assert await name("home", "pagedown") == "20260101-000023-b"
        assert await name("end") == "20260101-000000-a"
        assert ">" in text_of(pilot).splitlines()[19]
        assert await name("home") == "20260101-000039-b"

    show_history(tmp_path, then=act)


def test_all_cells_are_listed_and_sorted(out: Path) -> None:
    text = show_history(out, "c", "s", "s", "s", size=(130, 30))
    assert "sort rate" in text
    rates = [one.rate_per_s or 0.0 for one in _cells_of(out, "c", "s", "s", "s")]
    assert rates == sorted(rates, reverse=True) and len(rates) > 60


def _cells_of(out: Path, *pressed: str) -> list[StepSummary]:
    rows: list[StepSummary] = []

    async def take(_: Pilot[Any], screen: HistoryScreen) -> None:
        rows.extend(screen.listing.cells)

    show_history(out, *pressed, then=take)
    return rows


@pytest.mark.parametrize("order", ["build", "host", "state", "stalls"])
def test_runs_are_sorted(out: Path, order: str) -> None:
    times = ["date", "build", "host", "state", "stalls"].index(order)
    text = show_history(out, *["s"] * times)
    assert f"sort {order}" in text
    if order == "stalls":
        assert "x3" in text.splitlines()[3]


def test_a_filter_leaves_what_fits_and_an_empty_one_all(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        await pilot.press("slash")
        await typed(pilot, "build=18.1")
        await read(pilot, HistoryScreen)
        text = pilot.app.screen_text()  # type: ignore[attr-defined]
        assert "1 of 4 runs  filter: build=18.1" in text
        await pilot.press("c")
        await read(pilot, HistoryScreen)
        assert {row.build for row in screen.listing.cells} == {"18.1"}
        await pilot.press("slash", "escape")
        assert screen.listing.filter == "build=18.1"
        await pilot.press("slash")
        await typed(pilot, "")
        await pilot.press("escape")
        assert len(screen.listing.runs) == 4
        await pilot.press("slash")
        await typed(pilot, "bild=18.1")
        assert "unknown word of a filter 'bild='" in pilot.app.screen_text()  # type: ignore[attr-defined]
        assert "bild=18.1" in pilot.app.screen_text() and screen.listing.filter == ""  # type: ignore[attr-defined]

    show_history(out, then=act)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Requests to the application, recorded instead of being done."""
    calls: list[tuple[Any, ...]] = []
    for name in ("replay", "look_at", "compare_runs"):
        monkeypatch.setattr(Bench, name, lambda _, *arguments, name=name: calls.append((name, *arguments)))
    return calls


def test_a_cell_is_replayed_and_a_run_is_watched(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    show_history(out, "w", "enter", "down", "enter")
    run = out / NAME
    assert calls == [("look_at", run), ("replay", run, "006-16.3-prebuilt-auto-r3", "l.i1")]


def test_two_picked_runs_are_compared(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    assert "1 picked" in show_history(out, "v")
    assert "1 picked" not in show_history(out, "v", "v")
    assert calls == []
    show_history(out, "v", "down", "v")
    assert calls == [("compare_runs", [out / NAME, out / "20261119-100000-16.3-17.0"])]


def test_3_compares_the_run_at_the_cursor(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    show_history(out, "down", "3")
    assert calls == [("compare_runs", [out / "20261119-100000-16.3-17.0"])]


def test_tags_are_given_and_taken(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        run = out / NAME
        for wanted in ("nvme quiet", "quiet bug:17", "-"):
            await pilot.press("T")
            await typed(pilot, wanted)
            tags = () if wanted == "-" else tuple(wanted.split())
            await until(pilot, lambda tags=tags: read_tags(run) == tags)  # type: ignore[misc]
            await until(pilot, lambda tags=tags: screen.listing.runs[0].tags == tags)  # type: ignore[misc]
            assert ("#quiet" in pilot.app.screen_text()) == ("quiet" in tags)  # type: ignore[attr-defined]
            await pilot.app.workers.wait_for_complete()

    show_history(out, then=act)


def test_a_run_is_removed_once_that_is_said_twice(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        await pilot.press("D", "n")
        assert (out / NAME).exists()
        await pilot.press("D", "y")
        await until(pilot, lambda: not (out / NAME).exists())
        await until(pilot, lambda: len(screen.listing.runs) == 3)
        await until(pilot, lambda: "freed" in pilot.app.screen_text())  # type: ignore[attr-defined]

    show_history(out, then=act)


def test_a_running_run_is_shown_as_such_and_not_removed(out: Path) -> None:
    with JournalWriter.open(out / NAME):
        text = show_history(out, "D")
        assert "> running" in text and "still running" in text
    assert "> running" not in show_history(out)


def test_the_folder_is_told_and_copied(out: Path) -> None:
    copied: list[str] = []

    async def act(pilot: Pilot[Any], _: HistoryScreen) -> None:
        await pilot.press("o")
        await pilot.pause()
        copied.append(pilot.app.clipboard)

    assert str(out)[:40] in show_history(out, then=act)
    assert copied == [str(out / NAME)]


def test_the_cursor_keeps_its_row_when_the_order_changes(out: Path) -> None:
    cache = RunCache(out)
    for folder in cache.changed():
        cache.read(folder)
    listing = HistoryListing(cache)
    listing.gather()
    listing.move_to(2)
    at = listing.current_run()
    for _ in range(5):
        listing.next_sort()
        assert listing.current_run() == at


def test_tags_show_from_72_columns_on(out: Path) -> None:
    tag(out / NAME, ["noisy"])
    small = show_history(out, "down", size=(60, 18))
    assert [line for line in small.splitlines() if line.startswith("> ") and "17.0" in line]
    assert "needs" not in small and "noisy" not in small.split("\u2500")[0]
    for columns in (72, 80, 120):
        wide = show_history(out, size=(columns, 24)).splitlines()
        assert "tags" in wide[2] and wide[3].rstrip().endswith("noisy")
        assert ("host" in wide[2]) == (columns >= 110)
