"""History: what was run, found again, and what can be done with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from driving import check_screen, drive
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from engine.errors import UserError
from engine.journal import read_tags
from engine.writer import JournalWriter
from tui.app import Bench
from tui.history import finding, past
from tui.history import text as history_text
from tui.history.listing import Listing
from tui.history.past import CellStep, Past, Shelf
from tui.history.screen import HistoryScreen

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
from made_run import make_run

NAME = "20261120-131303-14.10_prebuilt-16.3_prebuilt"


def made(out: Path, name: str, **values: Any) -> Path:
    run = make_run(out / name, **values)
    (run / "cells").mkdir(exist_ok=True)
    os.utime(run, (1_795_000_000, 1_795_000_000))
    return run


@pytest.fixture
def out(recording: Path) -> Path:
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


# -- screens


@pytest.mark.parametrize(
    ("name", "size", "glyphs", "pressed"),
    [
        ("history-80x24", (80, 24), "braille", ()),
        ("history-130x36", (130, 36), "braille", ()),
        ("history-60x18", (60, 18), "braille", ()),
        ("history-ascii-80x24", (80, 24), "ascii", ()),
        ("history-cells-80x24", (80, 24), "braille", ("enter",)),
        ("history-cells-130x36", (130, 36), "braille", ("enter",)),
    ],
)
def test_screen(out: Path, name: str, size: tuple[int, int], glyphs: str, pressed: tuple[str, ...]) -> None:
    async def check(pilot: Pilot[Any], _: HistoryScreen) -> None:
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    shutil.rmtree(out / "20261117-100000-damaged")  # its path would be on the screen
    shown(out, *pressed, size=size, glyphs=glyphs, then=check)


def test_without_colour_the_screen_says_the_same(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = shown(out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(out) == coloured


def test_the_ascii_screen_is_ascii(out: Path) -> None:
    assert shown(out, glyphs="ascii").isascii()
    assert shown(out, "enter", glyphs="ascii").isascii()


# -- what is told


def test_runs_are_told_by_what_became_of_them(out: Path) -> None:
    text = shown(out, size=(130, 30))
    assert "4 runs" in text
    assert "6/6" in row(text, "14.10-prebuilt 16.3-prebuilt", "finished") and "!" in row(text, "6/6", "x3")
    assert "7/8" in row(text, "x 1 failed")
    assert "4/6" in row(text, "~ unfinished")
    assert "? unreadable" in row(text, "unreadable")


def test_a_run_that_cannot_be_read_says_why(out: Path) -> None:
    text = shown(out, "s", "s", "s", "end")  # by state: it is the last
    assert "sort state" in text
    assert "manifest.json: cannot be read" in shown(out, "s", "s", "s", "end", size=(240, 24))


def test_the_cells_of_a_run_tell_rates_stalls_and_flags(out: Path) -> None:
    text = shown(out, "enter")
    assert f"cells of {NAME}" in text
    stalled = [line for line in text.splitlines() if "l.i1" in line and "!" in line]
    assert len(stalled) == 3
    assert "pause" not in text


def test_a_failed_cell_is_told_with_its_reason(out: Path) -> None:
    rows = past.read_cells(past.read_run(out / "20261119-100000-16.3-17.0"))
    (failed,) = [row for row in rows if not row.step]
    assert failed.flags == (("x failed: disk full", "worse"),) and failed.rate_per_s is None
    assert {row.build for row in rows} == {"16.3/auto", "16.3/cx9a2", "17.0/auto", "17.0/cx9a2"}


def test_a_machine_that_changed_is_told_with_each_step_of_the_cell(recording: Path) -> None:
    flags = {row.cell[:3]: [text for text, _ in row.flags] for row in past.read_cells(past.read_run(recording))}
    drifted = "? drift: other programs keep the machine busy: 50% of its CPUs with no cell running"
    assert drifted in flags["001"] and not any("drift" in text for text in flags["002"])
    assert "? drift: other programs keep" in shown(recording.parent, "enter", "end").splitlines()[21]


def test_rates_and_stalls_are_those_of_the_journal(recording: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", "compare", str(recording), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    cells = {(cell["build"], cell["repeat"], cell["step"]): cell for cell in json.loads(done.stdout)["cells"]}
    rows = past.read_cells(past.read_run(recording))
    assert len(rows) == len(cells) == 24
    for one in rows:
        cell = cells[one.build, one.repeat, one.step]
        assert one.rate_per_s == pytest.approx(cell["rate_per_s"])
        union = past.merged((stall["started_ns"], stall["ended_ns"]) for stall in cell["stalls"])
        assert one.stalls == union
        assert any(text.startswith("x SLA") for text, _ in one.flags) == bool(cell["sla"] and not cell["sla"]["passed"])


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    text = shown(tmp_path / "nowhere")
    assert "no runs yet, 1 (Launch) makes one" in text


# -- keys


def test_enter_opens_and_escape_goes_back(out: Path) -> None:
    assert "cells of" in shown(out, "enter")
    assert "cells of" not in shown(out, "enter", "escape")


def test_the_cursor_moves_and_stays_in_sight(tmp_path: Path) -> None:
    source = made(tmp_path, "20260101-000000-a", repeats=1)
    for n in range(30):
        shutil.copytree(source, tmp_path / f"20260101-0000{n + 10}-b")

    def name(text: str) -> str:
        return text.splitlines()[21].strip()

    assert name(shown(tmp_path)) == "20260101-000039-b"
    assert name(shown(tmp_path, "down", "j", "k", "down")) == "20260101-000037-b"
    assert name(shown(tmp_path, "pagedown")) == "20260101-000022-b"
    assert name(shown(tmp_path, "end")) == "20260101-000000-a"
    assert name(shown(tmp_path, "end", "home")) == "20260101-000039-b"
    assert ">" in shown(tmp_path, "end").splitlines()[19]


def test_all_cells_are_listed_and_sorted(out: Path) -> None:
    text = shown(out, "c", "s", "s", "s", size=(130, 30))
    assert "sort rate" in text
    rates = [one.rate_per_s or 0.0 for one in _cells_of(out, "c", "s", "s", "s")]
    assert rates == sorted(rates, reverse=True) and len(rates) > 60


def _cells_of(out: Path, *pressed: str) -> list[CellStep]:
    rows: list[CellStep] = []

    async def take(_: Pilot[Any], screen: HistoryScreen) -> None:
        rows.extend(screen.listing.cells)

    shown(out, *pressed, then=take)
    return rows


@pytest.mark.parametrize("order", ["build", "host", "state", "stalls"])
def test_runs_are_sorted(out: Path, order: str) -> None:
    times = ["date", "build", "host", "state", "stalls"].index(order)
    text = shown(out, *["s"] * times)
    assert f"sort {order}" in text
    if order == "stalls":
        assert "x3" in text.splitlines()[2]


async def typed(pilot: Pilot[Any], text: str) -> None:
    from textual.widgets import Input

    pilot.app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await pilot.pause()


def test_a_filter_leaves_what_fits_and_an_empty_one_all(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        await pilot.press("slash")
        await typed(pilot, "build=18.1")
        await read(pilot)
        text = pilot.app.screen_text()  # type: ignore[attr-defined]
        assert "1 of 4 runs  filter: build=18.1" in text
        await pilot.press("c")
        await read(pilot)
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
        assert screen.listing.filter == ""

    shown(out, then=act)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the application is asked for, instead of being done."""
    calls: list[tuple[Any, ...]] = []
    for name in ("replay", "look_at", "compare_runs"):
        monkeypatch.setattr(Bench, name, lambda _, *arguments, name=name: calls.append((name, *arguments)))
    return calls


def test_a_cell_is_replayed_and_a_run_is_watched(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    shown(out, "w", "enter", "down", "enter")
    run = out / NAME
    assert calls == [("look_at", run), ("replay", run, "006-16.3-prebuilt-auto-r3", "l.i1")]


def test_two_picked_runs_are_compared(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    assert "1 picked" in shown(out, "v")
    assert "1 picked" not in shown(out, "v", "v")
    assert calls == []
    shown(out, "v", "down", "v")
    assert calls == [("compare_runs", [out / NAME, out / "20261119-100000-16.3-17.0"])]


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

    shown(out, then=act)


def test_a_run_is_removed_once_that_is_said_twice(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        await pilot.press("D", "n")
        assert (out / NAME).exists()
        await pilot.press("D", "y")
        await until(pilot, lambda: not (out / NAME).exists())
        await until(pilot, lambda: len(screen.listing.runs) == 3)
        await until(pilot, lambda: "freed" in pilot.app.screen_text())  # type: ignore[attr-defined]

    shown(out, then=act)


def test_a_running_run_is_shown_as_such_and_not_removed(out: Path) -> None:
    with JournalWriter.open(out / NAME):
        text = shown(out, "D")
        assert "> running" in text and "its engine is at work" in text
    assert "> running" not in shown(out)


def test_a_run_is_exported(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    async def act(pilot: Pilot[Any], _: HistoryScreen) -> None:
        await pilot.press("E")
        await until(pilot, lambda: " files in " in pilot.app.screen_text())  # type: ignore[attr-defined]

    shown(out, then=act)
    assert (here / f"{NAME}-export" / "steps.csv").exists()


def test_the_folder_is_told_and_copied(out: Path) -> None:
    copied: list[str] = []

    async def act(pilot: Pilot[Any], _: HistoryScreen) -> None:
        await pilot.press("o")
        await pilot.pause()
        copied.append(pilot.app.clipboard)

    assert str(out)[:40] in shown(out, then=act)
    assert copied == [str(out / NAME)]


@pytest.mark.parametrize("pressed", [(), ("enter",), ("c",)])
def test_every_key_of_the_last_row_does_something(out: Path, pressed: tuple[str, ...]) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        for key, binding in screen.shown_keys():
            if binding.id == "app.leave":
                continue
            before = (pilot.app.screen, pilot.app.current_mode, pilot.app.screen_text())  # type: ignore[attr-defined]
            await pilot.press(key)
            await pilot.pause()
            after = (pilot.app.screen, pilot.app.current_mode, pilot.app.screen_text())  # type: ignore[attr-defined]
            assert before != after, binding
            if len(pilot.app.screen_stack) > 1:
                await pilot.press("escape")
            pilot.app.action_open("history")  # type: ignore[attr-defined]
            await pilot.pause()
            screen.listing.show(None)
            if pressed:
                screen._show(out / NAME if pressed == ("enter",) else None, all_cells=pressed == ("c",))
            await read(pilot)

    shown(out, *pressed, then=act)


@pytest.mark.parametrize("pressed", [(), ("enter",)])
def test_the_keys_fit_into_the_last_row(out: Path, pressed: tuple[str, ...]) -> None:
    last = shown(out, *pressed).splitlines()[23]
    assert last.endswith("q quit") and len(last) <= 80


# -- what changes while it is looked at


def test_a_new_run_a_tag_and_a_gone_run_are_seen(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        screen.listing.move_to(1)
        at = screen.listing.current_run()
        assert at is not None
        made(out, "20261121-000000-new", repeats=1)
        screen.look()
        await until(pilot, lambda: len(screen.listing.runs) == 5)
        assert screen.listing.current_run() == at
        shutil.rmtree(at.folder)
        await read(pilot)
        screen.look()
        await until(pilot, lambda: len(screen.listing.runs) == 4)
        assert screen.listing.current_run() is not None

    shown(out, then=act)


def test_a_run_removed_under_its_cells_is_one_line(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: HistoryScreen) -> None:
        shutil.rmtree(out / NAME)
        screen.look()
        await until(pilot, lambda: not screen.listing.cells)
        await pilot.press("enter", "w", "v", "T", "D", "E", "o", "s")
        assert "is gone" in pilot.app.screen_text()  # type: ignore[attr-defined]

    shown(out, "enter", then=act)


def test_a_run_is_read_again_only_when_it_changed(out: Path) -> None:
    shelf = Shelf(out)
    assert len(shelf.changed()) == 4
    for folder in shelf.changed():
        shelf.read(folder)
    assert shelf.changed() == []
    (out / NAME / "tags.json").write_text('{"tags": ["x"]}')
    assert shelf.changed() == [out / NAME]
    assert shelf.read(out / NAME).tags == ("x",)
    with JournalWriter.open(out / NAME):
        assert shelf.changed() == [out / NAME]
        assert shelf.read(out / NAME).state == "running"
        os.utime(out / NAME)
    shelf.read(out / NAME)
    assert shelf.changed() == []


@pytest.mark.parametrize("damage", ["truncated", "no journal", "newer", "empty", "wrong"])
def test_damaged_runs_are_lines_and_nothing_fails(out: Path, damage: str) -> None:
    run = out / NAME
    if damage == "truncated":
        with (run / "journal.db").open("r+b") as journal:
            journal.truncate(20_000)
    elif damage == "no journal":
        (run / "journal.db").unlink()
    elif damage == "newer":
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps(manifest | {"schema": [2, 0]}))
    elif damage == "empty":
        (run / "journal.db").write_bytes(b"")
    else:
        (run / "manifest.json").write_text('{"schema": [1, 1], "cells": 3}')
    found = past.read_run(run)
    assert found.state == ("not started" if damage == "no journal" else "unreadable")
    assert past.read_cells(found) == ()
    text = shown(out, "end", "enter", "c", "escape", "c")
    assert "HISTORY" in text


# -- pure


def test_spans_are_merged() -> None:
    assert past.merged([(5, 7), (1, 3), (2, 4), (7, 9)]) == ((1, 4), (5, 9))
    assert past.seconds_of([(0, 10**9), (2 * 10**9, 4 * 10**9)]) == 3.0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))))
def test_merged_spans_cover_the_same_and_are_apart(spans: list[tuple[int, int]]) -> None:
    joined = past.merged(spans)

    def covered(some: Any) -> set[int]:
        return {moment for from_, until in some for moment in range(from_, until)}

    assert covered(joined) == covered(spans)
    assert all(first[1] < second[0] for first, second in pairwise(joined))


RUN = Past(Path("/out/r1"), 0, "finished", "pn53", "6.12.58", ("16.3-prebuilt", "17.0"), "g24b quick",
           ("l.i0", "qr100", "qr1000"), tags=("noisy",))  # fmt: skip
CELL = CellStep(RUN, "001-x", "16.3-prebuilt", "6.12.58", 2, "qr1000", 0, flags=(("x SLA 71%", "sla"),))


@pytest.mark.parametrize(
    ("text", "run", "cell"),
    [
        ("", True, True),
        ("step=qr1000", True, True),
        ("step=qr100", True, False),
        ("step=qr*", True, True),
        ("build=16.3", True, True),
        ("build=17", True, False),
        ("host=PN53 kernel=6.12", True, True),
        ("!tag=noisy", False, False),
        ("!tag=quiet", True, True),
        ("noisy 17.0", True, False),
        ("rep=2", True, True),
        ("rep=1", True, False),
        ("flag=sla", True, True),
        ("state=fin", False, False),
        ("state=finished !flag=probed", True, True),
        ("load=io", False, False),
        ("step=", True, True),
        ("pn5?", True, True),
    ],
)
def test_words_find_runs_and_cells(text: str, run: bool, cell: bool) -> None:
    wanted = finding.words(text)
    assert bool(finding.runs([RUN], wanted)) == run
    assert bool(finding.cells([CELL], wanted)) == cell


def test_an_unknown_word_is_told_with_the_nearest() -> None:
    with pytest.raises(UserError, match="nearest: step="):
        finding.words("stp=l.i1")


@given(st.integers(-5, 60), st.integers(0, 60), st.integers(1, 20), st.integers(0, 50))
def test_the_cursor_is_always_within_what_is_seen(cursor: int, top: int, rows: int, count: int) -> None:
    seen = history_text.scrolled(cursor, top, rows, count)
    if count:
        assert 0 <= seen.cursor < count and seen.top <= seen.cursor < seen.top + rows
        assert seen.top == 0 or seen.top + rows <= max(count, seen.cursor + 1)


def test_times_of_another_year_have_their_year() -> None:
    in_2025 = 1_763_604_720_000_000_000
    assert history_text.when(in_2025, 2025) == "11-20 02:12"
    assert history_text.when(in_2025, 2026) == "2025-11-20"


def test_the_ribbon_marks_where_the_stalls_were() -> None:
    second = 10**9
    row = CellStep(RUN, "c", "b", "k", 1, "l.i1", 0, 100 * second, 160 * second, 1.0, ((130 * second, 131 * second),))
    text = "".join(part for part, _ in history_text.ribbon(row, 80))
    assert len(text) == 80 and text.startswith(" 00:00:00 ...") and text.endswith("... 00:01:00 ")
    assert text[10:70].index("!") == 30


def test_a_listing_keeps_its_cursor_on_the_row_when_the_order_changes(out: Path) -> None:
    shelf = Shelf(out)
    for folder in shelf.changed():
        shelf.read(folder)
    listing = Listing(shelf)
    listing.gather()
    listing.move_to(2)
    at = listing.current_run()
    for _ in range(5):
        listing.next_sort()
        assert listing.current_run() == at
