"""History: the runs in a folder and their cells, and changes while they are shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.journal.writer import JournalWriter
from engine.view import run_summary
from engine.view.run_summary import RunCache
from tests.support.screens import NAME, dated_run, folder_of_runs, read, row_with, show_history, until
from tui.history.screen import HistoryScreen
from tui.history.text import run_columns

pytestmark = pytest.mark.slow  # opens the interface


@pytest.fixture
def out(recording: Path) -> Path:
    """A folder with the recording, a run with a failed cell, one that was cut short, and one that is damaged."""
    return folder_of_runs(recording)


# -- screens


@pytest.mark.parametrize(("name", "keys"), [("history", ()), ("history-cells", ("enter",))])
def test_screen(out: Path, name: str, keys: tuple[str, ...]) -> None:
    shutil.rmtree(out / "20261117-100000-damaged")  # its path would be on the screen
    show_history(out, *keys, held_to=name)


# -- the text


def test_runs_are_told_by_what_became_of_them(out: Path) -> None:
    text = show_history(out, size=(130, 30))
    assert "4 runs" in text
    assert "6/6" in row_with(text, "14.10-prebuilt 16.3-prebuilt", "finished") and "!" in row_with(text, "6/6", "x3")
    assert "7/8" in row_with(text, "x 1 failed")
    assert "4/6" in row_with(text, "~ unfinished")
    assert "? unreadable" in row_with(text, "unreadable")


def test_a_failed_cell_is_told_with_its_reason(out: Path) -> None:
    rows = run_summary.read_cells(run_summary.read_run(out / "20261119-100000-16.3-17.0"))
    (failed,) = [row for row in rows if not row.step]
    assert failed.flags == (("x failed: disk full", "worse"),) and failed.rate_per_s is None
    assert {row.build for row in rows} == {"16.3/auto", "16.3/cx9a2", "17.0/auto", "17.0/cx9a2"}


def test_a_changed_machine_is_shown_with_each_step(recording: Path) -> None:
    flags = {
        row.cell[:3]: [text for text, _ in row.flags] for row in run_summary.read_cells(run_summary.read_run(recording))
    }
    drifted = "? drift: other programs keep the machine busy: 50% of its CPUs with no cell running"
    assert drifted in flags["001"] and not any("drift" in text for text in flags["002"])
    assert "? drift: other programs keep" in show_history(recording.parent, "enter", "end").splitlines()[21]


def test_rates_and_stalls_are_those_of_the_journal(recording: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", "compare", str(recording), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    cells = {(cell["build"], cell["repeat"], cell["step"]): cell for cell in json.loads(done.stdout)["cells"]}
    rows = run_summary.read_cells(run_summary.read_run(recording))
    assert len(rows) == len(cells) == 24
    for one in rows:
        cell = cells[one.build, one.repeat, one.step]
        assert one.rate_per_s == pytest.approx(cell["rate_per_s"])
        union = run_summary.merged((stall["started_ns"], stall["ended_ns"]) for stall in cell["stalls"])
        assert one.stalled == union and one.stalls == len(union)  # of one client
        assert any(text.startswith("x SLA") for text, _ in one.flags) == bool(cell["sla"] and not cell["sla"]["passed"])


def test_a_wide_screen_tells_the_whole_load_and_all_steps() -> None:
    narrow, wide = ({column.title: column.cells for column in run_columns(wide, {})} for wide in (150, 200))
    assert wide["load"] >= len("g24b 100000 rows written") > narrow["load"]
    assert wide["steps"] >= len("l.i0 l.x l.i1 l.i2 qr100 qp100 qr500") > narrow["steps"]


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    text = show_history(tmp_path / "nowhere")
    assert "no runs yet, 1 (Launch) makes one" in text and "bench demo" in text


# -- what changes while it is looked at


def test_a_new_run_a_tag_and_a_gone_run_are_seen(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        screen.listing.move_to(1)
        at = screen.listing.current_run()
        assert at is not None
        dated_run(out, "20261121-000000-new", repeats=1)
        screen.look()
        await until(pilot, lambda: len(screen.listing.runs) == 5)
        assert screen.listing.current_run() == at
        shutil.rmtree(at.folder)
        await read(pilot, HistoryScreen)
        screen.look()
        await until(pilot, lambda: len(screen.listing.runs) == 4)
        assert screen.listing.current_run() is not None

    show_history(out, then=act)


def test_a_run_removed_under_its_cells_is_one_line(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        shutil.rmtree(out / NAME)
        screen.look()
        await until(pilot, lambda: not screen.listing.cells)
        await pilot.press("enter", "w", "v", "T", "D", "E", "o", "s")
        assert "was deleted" in pilot.app.screen_text()  # type: ignore[attr-defined]

    show_history(out, "enter", then=act)


def test_a_run_is_read_again_only_when_it_changed(out: Path) -> None:
    cache = RunCache(out)
    assert len(cache.changed()) == 4
    for folder in cache.changed():
        cache.read(folder)
    assert cache.changed() == []
    (out / NAME / "tags.json").write_text('{"tags": ["x"]}')
    assert cache.changed() == [out / NAME]
    assert cache.read(out / NAME).tags == ("x",)
    with JournalWriter.open(out / NAME):
        assert cache.changed() == [out / NAME]
        assert cache.read(out / NAME).state == "running"
        os.utime(out / NAME)
    cache.read(out / NAME)
    assert cache.changed() == []
