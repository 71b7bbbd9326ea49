"""Compare: the judgement as `bench compare` gives it, what lies behind it, and what the keys do."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from driving import check_screen, drive
from textual.pilot import Pilot

from engine import flame, stacks
from engine.journal import read_manifest
from engine.model import cell_of
from tui.compare.cells import CellsScreen
from tui.compare.overlay import OverlayScreen
from tui.compare.screen import CompareScreen
from tui.glyphs import SETS
from tui.screens.base import BenchScreen

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
from made_run import make_run

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
    while screen.row is not None and (screen.row.step, screen.row.metric) != (step, metric):
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


@pytest.mark.parametrize(
    ("name", "size", "glyphs"),
    [
        ("compare-80x24", (80, 24), "braille"),
        ("compare-130x36", (130, 36), "braille"),
        ("compare-60x18", (60, 18), "braille"),
        ("compare-ascii-80x24", (80, 24), "ascii"),
    ],
)
def test_the_screen_is_complete_at_every_size(recording: Path, name: str, size: tuple[int, int], glyphs: str) -> None:
    shown = compare(recording, size=size, glyphs=glyphs, held_to=name)
    assert max(len(line) for line in shown.splitlines()) <= size[0]
    assert shown.isascii() == (glyphs == "ascii" or size == (60, 18))


def test_without_colour_the_text_is_the_same(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        assert pilot.app.theme == "bench-mono"

    compare(recording, script, held_to="compare-80x24")


def test_signs_numbers_and_verdicts_are_those_of_bench_compare(recording: Path) -> None:
    printed = bench("compare", str(recording)).split("Every cell")[0]
    told = re.findall(rf"^  {NEW} +[\d,]+ (\S)(\d\.\d+) (\S+) (\w+(?:, \+\d+ pairs?)?)", printed, re.M)
    assert len(told) == 4
    shown = compare(recording, size=(130, 36))
    for sign, ratio, interval, words in told:
        assert re.search(rf"{re.escape(f'{sign} {ratio} {interval} {words}')}$", shown, re.M)


def test_the_whole_screen_shows_three_subjects_and_the_base_against_itself(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "r", builds=("16.3", "17beta1-builtin", "17.0"), repeats=3, aa=True,
        effects={("17beta1-builtin", "l.i0"): 0.856, ("17.0", "l.i1"): 1.1},
    )  # fmt: skip
    compare(run, held_to="compare-four-80x24")


def test_one_pair_gives_ratios_and_says_that_there_is_no_verdict(tmp_path: Path) -> None:
    shown = compare(make_run(tmp_path / "r", repeats=1, effects={("17.0", "l.i0"): 0.5}))
    assert "1 pair, no verdicts" in shown
    assert "one pair: ratios only, no verdict can be given" in shown
    assert re.search(r">l.i0 +rows/s +\S+ +0\.\d{3} *$", shown, re.M)


def test_moving_shows_the_cells_and_causes_of_the_line(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "dbms_cpu_us_per_op")
        shown = text(pilot)
        assert "l.i1 server CPU us/op, every cell" in shown
        assert re.search(r"cpu us/op +25\.1 > 27\.8 +▼ 1\.094", shown)
        assert "l.i1 cpu us/op, 16.3-prebuilt: ▼1.094 1.043-1.148 slower" in shown
        assert "! 4.2s insert" in shown
        for _ in range(30):
            await pilot.press("down")
        assert re.search(r"^>qr100 sla +ok 3/3 +ok 3/3", text(pilot), re.M)

    compare(recording, script)


def test_left_and_right_choose_the_subject_and_so_do_up_and_down_in_the_dots(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", builds=("16.3", "17.0", "18.1"), aa=True)

    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        names = []
        for _ in range(4):
            names.append(screen.subject and screen.subject.name)
            await pilot.press("right")
        assert names == ["17.0", "18.1", "16.3 A/A", "16.3 A/A"]
        await pilot.press("left")
        assert "why l.i0: base > 18.1" in text(pilot)
        await pilot.press("ctrl+o", "d", "down")
        assert "why l.i0: base > 16.3 A/A" in text(pilot)
        await pilot.press("ctrl+o", "t", "down")
        assert screen.row is not None
        assert screen.row.metric == "dbms_cpu_us_per_op"

    compare(run, script)


def test_another_base_turns_the_ratios_round(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        await pilot.press("b", "down", "enter")
        await until(pilot, lambda: screen._found is not None and screen._found.base == NEW)
        assert "base 16.3-prebuilt" in text(pilot).splitlines()[0]
        assert re.search(r">l.i0 +rows/s +110k +~ 1\.134", text(pilot))
        await pilot.press("b", "escape")
        assert screen._found is not None
        assert screen._found.base == NEW

    compare(recording, script)


def test_lines_are_sorted_found_and_chosen(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        await pilot.press("s")
        assert "by effect" in text(pilot)
        assert screen._rows[0].step == "qr100"  # its WAL per query differs most
        await pilot.press("s")
        assert "worst first" in text(pilot)
        assert (screen._rows[0].step, screen._rows[0].metric) == ("l.i1", "dbms_cpu_us_per_op")
        await pilot.press("s", "slash", *"l.i1 slower", "enter")
        assert [(row.step, row.metric) for row in screen._rows] == [("l.i1", "dbms_cpu_us_per_op")]
        assert "/l.i1 slower" in text(pilot)
        await pilot.press("slash", "escape")
        assert len(screen._rows) == 1
        await pilot.press("slash", *(["backspace"] * 11), *"nowhere", "enter")
        assert "no line holds all of what is looked for" in text(pilot)
        await pilot.press("enter", "o", "f")
        assert "there is no ratio" in text(pilot)
        await pilot.press("slash", *(["backspace"] * 7), "enter", "c", "a", "enter")
        assert len({row.metric for row in screen._rows}) == 14
        await pilot.press("c", "a", "down", "down", "down", "x", "enter")
        assert {row.metric for row in screen._rows} == {"rate_per_s", "ctx_switches_per_op"}
        assert "switch/op" in text(pilot)

    compare(recording, script)


def test_every_key_of_the_last_row_does_something(recording: Path) -> None:
    pressed: dict[str, bool] = {}

    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        for key, binding in screen.shown_keys():
            if binding.action == "leave":
                continue
            before = text(pilot), len(pilot.app.screen_stack)
            await pilot.press(key)
            await pilot.pause()
            pressed[binding.description] = before != (text(pilot), len(pilot.app.screen_stack))
            while len(pilot.app.screen_stack) > 1:
                await pilot.press("escape")

    shown = compare(recording, script)
    assert pressed == dict.fromkeys(("base", "show", "sort", "find", "cells", "chart", "flame", "keys"), True)
    keys = shown.splitlines()[-1]
    assert keys.endswith("q quit")
    assert len(keys) <= 80


@pytest.mark.parametrize(
    ("opened_by", "screen", "words"),
    [
        ("enter", CellsScreen, {"replay in Live", "overlay", "further", "back", "keys", "quit"}),
        ("o", OverlayScreen, {"by time / work", "role", "next pair", "replay", "back", "keys", "quit"}),
    ],
)
def test_every_key_of_the_screens_behind_it_does_something(
    recording: Path, opened_by: str, screen: type[BenchScreen], words: set[str]
) -> None:
    """Each key on a freshly opened screen: the text, the screen in front or the mode is another one after it."""
    pressed: dict[str, bool] = {}

    async def opened(pilot: Pilot[Any]) -> BenchScreen:
        while len(pilot.app.screen_stack) > 1:
            await pilot.press("escape")
        await pilot.press("3")
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press(opened_by)
        front = pilot.app.screen
        assert isinstance(front, screen)
        if isinstance(front, OverlayScreen):
            await until(pilot, lambda: front._sides is not None)
        return front

    async def script(pilot: Pilot[Any]) -> None:
        for key, binding in (await opened(pilot)).shown_keys():
            await opened(pilot)
            before = text(pilot), pilot.app.screen
            await pilot.press(key)
            await pilot.pause()
            pressed[binding.description] = before != (text(pilot), pilot.app.screen)
            assert len(text(pilot).splitlines()[-1]) <= 80

    compare(recording, script)
    assert pressed == dict.fromkeys(words, True)


def test_enter_opens_every_cell_with_stalls_causes_and_what_was_found_alike(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("enter", "down")
        assert isinstance(pilot.app.screen, CellsScreen)

    compare(recording, script, held_to="compare-cells-80x24")

    async def further(pilot: Pilot[Any]) -> None:
        await script(pilot)
        seen = text(pilot)
        for _ in range(4):
            await pilot.press("pagedown")
            seen += text(pilot)
        for wanted in ("process 5879 of the insert backend is stopped", "hung: insert backend stopped by a signal",
                       "do_signal_stop < get_signal", "16.3-prebuilt: PostgreSQL 16.3, prebuilt",
                       "ok kernel: 6.18.44", "? others' load: at most 50% of the CPUs", "ok work: equal"):  # fmt: skip
            assert wanted in seen
        await pilot.press("pageup", "pageup", "pageup", "pageup", "up")
        assert "14.10-prebuilt repeat 1, cell 001" in text(pilot)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, CompareScreen)

    compare(recording, further)


def test_a_missed_sla_and_a_withheld_verdict_are_told_with_their_figures(tmp_path: Path) -> None:
    from dataclasses import replace

    def late(cell: Any, step: str, totals: Any) -> Any:
        missed = step == "qr100" and cell.subject.build == "17.0" and cell.repeat == 2
        return replace(totals, seconds=totals.seconds * 1.4) if missed else totals

    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "qr100", "rate_per_s")
        assert re.search(r"qr100 queries/s, 17.0: \?0\.\d+ \S+ withheld", text(pilot))
        assert "SLA: 17.0 kept up its insert rate in 2 of 3 cells" in text(pilot)
        await on_line(pilot, "qr100", "sla")
        assert "x 70% 2/3 against   ok 3/3" in text(pilot)
        await pilot.press("enter", "down", "down", "down")
        assert "x 70%" in text(pilot)
        assert "x missed SLA: 70.3 of 100 rows/s inserted, 95 required" in text(pilot)
        assert "withheld: SLA: 17.0 kept up its insert rate in 2 of 3 cells" in text(pilot)

    compare(make_run(tmp_path / "r", change=late), script)


def test_a_cell_opens_in_live_as_a_replay(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("enter", "down", "enter")
        await until(pilot, lambda: "REPLAY" in text(pilot))
        assert pilot.app.current_mode == "live"
        assert NEW in text(pilot).splitlines()[0]
        assert "l.i1" in text(pilot).splitlines()[0]
        await pilot.press("3")
        assert isinstance(pilot.app.screen, CompareScreen)

    compare(recording, script)


def test_two_rates_lie_over_each_other_by_time_and_by_work(recording: Path) -> None:
    async def by_time(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("o")
        screen = pilot.app.screen
        assert isinstance(screen, OverlayScreen)
        await until(pilot, lambda: screen._sides is not None)

    async def by_work(pilot: Pilot[Any]) -> None:
        await by_time(pilot)
        await pilot.press("o")

    async def others(pilot: Pilot[Any]) -> None:
        await by_work(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, OverlayScreen)
        await pilot.press("i")
        assert "delete rows/s" in text(pilot)
        await pilot.press("right")
        await until(pilot, lambda: screen._sides is not None)
        assert "#2" in text(pilot).splitlines()[0]
        await pilot.press("left", "left")
        await until(pilot, lambda: screen._sides is not None)
        assert "#3" in text(pilot).splitlines()[0]
        await pilot.press("r")
        await until(pilot, lambda: "REPLAY" in text(pilot))

    compare(recording, by_time, held_to="compare-overlay-time-80x24")
    compare(recording, by_work, held_to="compare-overlay-work-80x24")
    compare(recording, by_time, glyphs="ascii", held_to="compare-overlay-ascii-80x24")
    compare(recording, others)


def test_the_flame_graph_of_what_changed_is_written_and_its_path_told(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    for name in (*flame.LIBRARY, flame.STYLE):
        (library / name).write_text(f"/* {name} */")
    monkeypatch.setenv(flame.LIBRARY_VARIABLE, str(library))
    for cell in (cell_of(record) for record in read_manifest(recording)["cells"]):
        samples = {"main;plan": 10, f"main;of {cell.subject.build}": 5}
        stacks.write_folded(recording / "cells" / cell.id, "l.i1", "delete", samples)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("f", "down", "enter")
        await until(pilot, lambda: "open it in a browser" in " ".join(text(pilot).split()))

    shown = "".join(compare(recording, script, size=(200, 40)).split())  # paths may be long
    (page,) = here.iterdir()
    assert page.name == f"{recording.name}-l.i1-delete-{NEW}-diff.html"
    assert page.name in shown
    assert f"of {OLD}" in page.read_text()
    assert f"of {NEW}" in page.read_text()


def test_a_flame_graph_without_stacks_is_one_clear_line(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("f", "enter")
        await until(pilot, lambda: "no stacks were recorded in this run" in " ".join(text(pilot).split()))

    compare(recording, script)


def test_the_report_is_written_as_markdown_and_its_path_told(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    to = tmp_path / f"{recording.name}-compare.md"

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        await pilot.press("H")
        await until(pilot, lambda: "written:" in text(pilot))

    shown = "".join(compare(recording, script).split())
    assert str(to) in shown
    assert to.read_text() == bench("compare", str(recording), "--md")


def finish(run: Path, cells: int) -> None:
    """Makes the first cells of a recorded run finished, the rest running."""
    with sqlite3.connect(run / "journal.db") as journal:
        journal.execute("UPDATE attempt SET state = iif(id <= ?, 'finished', 'running')", (cells,))
    journal.close()


def test_a_run_under_way_is_compared_anew_when_a_cell_has_finished(recording: Path) -> None:
    finish(recording, 0)

    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        assert "no cell has finished yet: nothing to compare" in text(pilot)
        assert f"left out: {OLD} repeat 1" in text(pilot)
        await pilot.press("enter", "o", "f", "b", "down", "escape", "s", "c", "escape")
        for cells, pairs in ((2, "1 pair, no verdicts"), (4, "2 pairs"), (6, "3 pairs")):
            finish(recording, cells)
            await until(pilot, lambda pairs=pairs: pairs in text(pilot))  # type: ignore[misc]
        assert screen._found is not None
        assert len({cell.cell for cell in screen._found.cells}) == 6

    compare(recording, script)


def test_it_says_so_while_it_compares(recording: Path) -> None:
    seen: list[str] = []

    async def script(pilot: Pilot[Any]) -> None:
        seen.append(text(pilot))
        await compared(pilot)
        await pilot.press("r")
        seen.append(text(pilot))
        await compared(pilot)
        seen.append(text(pilot))

    compare(recording, script)
    assert "comparing..." in seen[0]
    assert "comparing..." in seen[1].splitlines()[0]
    assert ">l.i0  rows/s" in seen[1]
    assert "comparing..." not in seen[2]


def spoil_schema(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "schema": [9, 0]}))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (shutil.rmtree, "not a run directory"),
        (spoil_schema, "written with journal schema 9, this pgbed reads 1"),
        (lambda run: (run / "journal.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000), "damaged or truncated"),
        (lambda run: (run / "journal.db").unlink(), "its journal.db is missing"),
    ],
)
def test_a_run_that_cannot_be_read_is_one_clear_line(recording: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(recording)

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        await pilot.press("b", "enter", "o", "f", "s", "r")
        await compared(pilot)

    shown = compare(recording, script, size=(130, 30))
    assert said in " ".join(shown.split())
    assert "Traceback" not in shown


def test_a_run_that_is_deleted_under_it_stays_on_the_screen_and_says_so(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        shutil.rmtree(recording)
        screen.look()
        await pilot.pause()
        assert ">l.i0  rows/s" in text(pilot)
        assert "not a run directory" in text(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "not a run directory" in " ".join(text(pilot).split()))

    compare(recording, script)


def test_without_a_run_it_says_where_to_find_one(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await pilot.press("b", "enter", "o", "f", "H", "r", "s", "down")
        assert "no run is looked at: choose one in History (5)" in text(pilot)

    drive(script, None, tmp_path, screen="compare")


def test_runs_that_were_picked_are_compared_together(recording: Path, tmp_path: Path) -> None:
    second = tmp_path / "20261121-again"
    shutil.copytree(recording, second)
    manifest = json.loads((second / "manifest.json").read_text())
    (second / "manifest.json").write_text(json.dumps({**manifest, "run": second.name}))

    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        pilot.app.compare_runs([recording, second])  # type: ignore[attr-defined]
        await until(pilot, lambda: screen._found is not None and len(screen._found.folders) == 2)
        assert "6 pairs" in text(pilot)
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("enter", *["down"] * 11)
        assert f"of {second.name}" in text(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "REPLAY" in text(pilot))
        await pilot.press("3")
        screen.look()
        await compared(pilot)
        assert "6 pairs" in text(pilot)

    compare(recording, script)


def test_runs_that_do_not_compare_say_why(recording: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other")

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        pilot.app.compare_runs([recording, other])  # type: ignore[attr-defined]
        await until(pilot, lambda: "cannot be compared" in text(pilot))

    compare(recording, script)


def test_a_storm_of_resizes_leaves_a_whole_screen(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "qr100", "rate_per_s")
        for size in ((200, 60), (80, 24), (60, 18), (30, 5), (10, 2), (1, 1), (160, 12), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        for key, size in (("enter", (20, 4)), ("o", (90, 3)), ("o", (200, 60))):
            await pilot.press(key)
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await pilot.press("escape", "escape")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert ">qr100 queries/s" in text(pilot)

    compare(recording, script)


def test_the_glyphs_are_told_apart_in_every_set() -> None:
    for glyphs in SETS.values():
        assert len({glyphs.better, glyphs.worse, "=", "~", "?"}) == 5
