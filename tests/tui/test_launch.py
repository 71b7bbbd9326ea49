"""Launch: choosing, what it comes to, the preflight, keeping a plan, and a real start from the screen."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from driving import check_screen, drive
from textual.pilot import Pilot
from textual.widgets import Input

from engine.journal import JournalReader, read_manifest
from engine.model import Build
from tui import bench as asked
from tui.app import Bench
from tui.launch.items import Offer
from tui.launch.plan import Plan
from tui.launch.screen import LaunchScreen
from tui.screens.over import AskScreen, LineScreen
from tui.screens.pages import PagesScreen
from tui.screens.pick import PickScreen
from tui.widgets.panel import Panel

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
sys.path.insert(0, str(Path(__file__).parents[1]))
from benchcall import Bench as Command
from benchcall import processes_of
from made_run import make_run

ANSWERS = Path(__file__).parent / "recordings" / "answers"
NOISE = {
    "run": "20261119-101500-16.3", "scale": "g24b quick", "aa_pairs": 6, "pairs": 3,
    "steps": {"l.i0": 0.012, "l.x": 0.031, "l.i1": 0.024, "qr100": 0.058},
}  # fmt: skip

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


# -- as text, with recorded answers of `bench`


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `bench` said once about a machine and a plan, so that the picture is the same everywhere."""
    counted = {"cell_count": 6, "cell_s": 97, "total_s": 583, "needed_bytes": 988_859_083, "free_bytes": 77_400_000_000,
               "noise": NOISE, "steps": ["l.i0", "l.x", "l.i1", "qr100"]}  # fmt: skip
    said = {
        "list": (0, (ANSWERS / "choices.json").read_text()),
        "doctor": (0, (ANSWERS / "doctor.json").read_text()),
        "run": (0, json.dumps(counted)),
    }

    async def run(*arguments: str, told: object = None) -> tuple[int, str, str]:
        code, answer = (0, "[]") if arguments[:2] == ("list", "runs") else said[arguments[0]]
        return code, answer, ""

    monkeypatch.setattr(asked, "run", run)


async def two_builds(pilot: Pilot[Any], screen: LaunchScreen) -> None:
    screen.change(Plan(builds=("14.10", "16.3"), steps=("l.i1", "qr100"), probes=("sched", "planner:window")))
    screen.show_base()
    await settled(pilot, screen)


@pytest.mark.parametrize(
    ("size", "glyphs", "name"),
    [
        ((80, 24), "braille", "launch-80x24"),
        ((130, 36), "braille", "launch-130x36"),
        ((60, 18), "braille", "launch-60x18"),
        ((80, 24), "ascii", "launch-ascii-80x24"),
    ],
)
def test_the_screen(answers: None, tmp_path: Path, size: tuple[int, int], glyphs: str, name: str) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await two_builds(pilot, screen)
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    launched(act, tmp_path, size, glyphs)


def test_the_screen_says_the_same_without_colour(
    answers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        assert pilot.app.theme == "bench-mono"
        await two_builds(pilot, screen)
        check_screen(pilot.app, "launch-80x24")  # type: ignore[arg-type]

    launched(act, tmp_path)


def test_failed_checks_and_another_run_are_told_in_words(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await two_builds(pilot, screen)
        screen.offer = replace(
            screen.offer, runs=({"run": "20261120-091500-16.3", "state": "running", "cells": "1/6"},)
        )
        first = {**screen.checks[0], "status": "fail", "found": "none", "reason": "PostgreSQL refuses root"}
        screen.checks = (first, *screen.checks[1:])
        screen.draw_all()
        screen.query_one("#checks", Panel).focus()
        await pilot.pause()
        check_screen(pilot.app, "launch-blocked-80x24")  # type: ignore[arg-type]
        await pilot.press("enter")
        assert "x blocks start: another run, servers' user" in notice(pilot.app)  # type: ignore[arg-type]
        assert not screen.doing

    launched(act, tmp_path)


def test_an_empty_plan_says_what_to_do_and_starts_nothing(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        assert "choose the builds to compare" in pilot.app.screen_text()  # type: ignore[attr-defined]
        for key, word in (("enter", "no build is chosen"), ("d", "nothing to run"), ("w", "no plan to save")):
            await pilot.press(key)
            assert word in notice(pilot.app)  # type: ignore[arg-type]

    launched(act, tmp_path)


def test_the_keys_of_the_last_row_fit_and_each_does_something(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        shown = [pressed for pressed, _ in screen.shown_keys()]
        assert shown == ["space", "enter", "d", "w", "o", "r", "question_mark", "q"]
        assert len(pilot.app.screen_text().splitlines()[-1]) <= 80  # type: ignore[attr-defined]
        for pressed in shown[:-1]:
            before = pilot.app.screen_text()  # type: ignore[attr-defined]
            await pilot.press(pressed)
            await pilot.pause(0.1)
            assert pilot.app.screen_text() != before, pressed  # type: ignore[attr-defined]
            while len(pilot.app.screen_stack) > 1:
                await pilot.press("escape")
                await pilot.pause()
            screen.notify_line("")
        await pilot.press("q")
        await pilot.pause()
        assert not pilot.app.is_running or pilot.app._exit

    launched(act, tmp_path)


def test_keys_move_choose_and_change(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("down", "space", "j", "j", "b")
        assert screen.plan.builds == (screen.offer.labels[1], screen.offer.labels[3])
        assert screen.plan.base_build == screen.offer.labels[3]
        await pilot.press("tab", "down", "space")
        assert screen.plan.configs == ("auto", "cx5")
        await pilot.press("tab", "space")  # the only kernel cannot be left out: said, not done
        assert "host: 6.12.58, running" in notice(pilot.app)  # type: ignore[arg-type]
        await pilot.press("tab", "down", "space")
        assert screen.plan.probes == ("runq",)
        await pilot.press("tab", "down", "right")
        assert screen.plan.generation == "g24a"
        await pilot.press("down", "down", "space")
        await typed(pilot, "5000")
        assert screen.plan.rows == 5000
        await pilot.press("space")
        await until(pilot, lambda: isinstance(pilot.app.screen, LineScreen))
        await pilot.press("escape")
        assert screen.plan.rows == 5000
        await pilot.press("tab", "right", "down", "space")
        assert "l.i2" not in screen.plan.steps and "l.i1" in screen.plan.steps
        await pilot.press("tab", "right", "right", "left", "down", "space")
        assert (screen.plan.repeats, screen.plan.aa) == (4, True)
        await pilot.press("tab", "right", "down")
        assert screen.query_one("#checks", Panel).cursor == 4

    launched(act, tmp_path)


def test_a_long_list_is_gone_through_by_pages(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        builds = screen.query_one("#builds", Panel)
        builds.focus()
        most = len(screen.items("builds")) - 1
        places = []
        for key in ("pagedown", "pagedown", "pageup", "end", "pagedown", "home", "pageup"):
            await pilot.press(key)
            places.append(builds.cursor)
        page = places[0]
        assert 3 <= page < builds.size.height
        assert places == [page, 2 * page, page, most, most, 0, 0]

    launched(act, tmp_path)


def test_a_wrong_number_is_told_and_changes_nothing(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        screen.query_one("#design", Panel).focus()
        await pilot.press("space")
        await typed(pilot, "many")
        assert "repeats: 'many' is not a whole number" in notice(pilot.app)  # type: ignore[arg-type]
        assert screen.plan == Plan()

    launched(act, tmp_path)


def test_builds_are_found_by_their_letters_and_parts_by_a_jump(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("slash")
        await typed(pilot, "17.0")
        assert [item.name for item in screen.items("builds")] == [
            "17.0", "17.0-builtin", "17.0-prebuilt", "17.0-prebuilt-builtin",
        ]  # fmt: skip
        await pilot.press("space")
        assert screen.plan.builds == ("17.0",)
        await pilot.press("ctrl+o")
        await pilot.pause()
        await pilot.press("d")
        await pilot.pause()
        assert screen.focused is screen.query_one("#design", Panel)

    launched(act, tmp_path)


def test_an_install_and_a_config_of_ones_own_are_added(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("plus")
        await typed(pilot, "/opt/pg")
        assert "give NAME=/path" in notice(pilot.app)  # type: ignore[arg-type]
        await pilot.press("plus")
        await typed(pilot, "mine=/opt/pg")
        assert screen.plan.builds == ("mine=/opt/pg",)
        await pilot.press("tab", "plus")
        await typed(pilot, "/etc/mine.conf")
        assert screen.plan.configs == ("auto", "/etc/mine.conf")

    launched(act, tmp_path)


def test_a_terminal_that_shrinks_and_grows_comes_back_as_it_was(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await two_builds(pilot, screen)
        for size in ((200, 60), (60, 18), (20, 5), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        check_screen(pilot.app, "launch-80x24")  # type: ignore[arg-type]

    launched(act, tmp_path)


# -- with `bench` itself


@pytest.fixture
def out(new_folder: Callable[[], Path]) -> Iterator[Path]:
    """A folder that servers can reach; what still runs at the end is ended."""
    folder = new_folder() / "runs"
    yield folder
    Command(folder).stop()


@pytest.fixture
def small(build: Callable[[int | str], Build], tmp_path: Path) -> Path:
    """A plan of two builds whose cells take a few seconds."""
    path = tmp_path / "small.toml"
    plan = {
        "builds": [build(14).label, build(16).label], "rows": 2000, "rows_written": 1000, "steps": ["l.i1"],
        "repeats": 1, "overrides": ["shared_buffers=32MB"], "beside": True,
    }  # fmt: skip
    path.write_text(tomli_w.dumps(plan))
    return path


async def opened(pilot: Pilot[Any], screen: LaunchScreen, plan: Path) -> None:
    await pilot.press("o")
    await typed(pilot, str(plan))
    await until(pilot, lambda: screen.file == str(plan) and not screen.doing)


def test_choices_and_preflight_are_this_machines(out: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        assert {row["label"] for row in screen.offer.builds} >= {"16.3", "17.0"}
        assert [row["release"] for row in screen.offer.kernels] == [os.uname().release]
        assert "servers' user" in {check["name"] for check in screen.checks}
        assert screen.query_one("#builds", Panel).has_focus

    launched(act, out)


def test_every_choice_is_counted_by_bench(out: Path, build: Callable[[int | str], Build]) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        screen.change(screen.plan.with_build(build(14).label, screen.offer.labels))
        await settled(pilot, screen)
        assert screen.estimate is not None and screen.estimate["cell_count"] == 3
        screen.change(screen.plan.with_build(build(16).label, screen.offer.labels))
        screen.change(replace(screen.plan, aa=True))
        await settled(pilot, screen)
        assert screen.estimate["cell_count"] == 9
        assert "9 cells" in pilot.app.screen_text()  # type: ignore[attr-defined]
        screen.change(replace(screen.plan, configs=("/none.conf",)))
        await settled(pilot, screen)
        assert screen.trouble == "config file /none.conf cannot be read: No such file or directory"
        assert screen.trouble in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("enter")
        assert screen.trouble in notice(pilot.app) and not screen.doing  # type: ignore[arg-type]

    launched(act, out)


def test_a_plan_is_kept_and_taken_up_again(out: Path, small: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.toml"

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        plan = screen.plan
        assert plan.record() == tomllib.loads(small.read_text())
        assert " plan small.toml " in pilot.app.screen_text()  # type: ignore[attr-defined]
        screen.change(replace(plan, repeats=4))
        assert " plan small.toml* " in pilot.app.screen_text()  # type: ignore[attr-defined]
        saved.write_text("repeats = 9\n")
        await pilot.press("w")
        await typed(pilot, str(saved))
        assert isinstance(pilot.app.screen, AskScreen)
        await pilot.press("n")
        assert saved.read_text() == "repeats = 9\n"
        await pilot.press("w")
        await typed(pilot, str(saved))
        await pilot.press("y")
        await pilot.pause()
        assert tomllib.loads(saved.read_text())["repeats"] == 4
        screen.change(Plan())
        await opened(pilot, screen, saved)
        assert screen.plan == replace(plan, repeats=4)
        await pilot.press("w")
        await typed(pilot, str(tmp_path / "none" / "plan.toml"))
        assert "cannot be written" in notice(pilot.app)  # type: ignore[arg-type]

    launched(act, out)


def test_a_file_that_is_no_plan_is_told_and_changes_nothing(out: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text("buildz = ['16.3']\n")

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("o")
        await typed(pilot, str(path))
        await until(pilot, lambda: not screen.doing)
        assert "unknown entry 'buildz' (nearest: builds" in notice(pilot.app)  # type: ignore[arg-type]
        assert screen.plan == Plan() and screen.file == ""

    launched(act, out)


def test_a_dry_run_shows_the_schedule_and_starts_nothing(out: Path, small: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        screen.change(replace(screen.plan, repeats=2))
        await pilot.press("d")
        await until(pilot, lambda: isinstance(pilot.app.screen, PagesScreen))
        shown = pilot.app.screen_text()  # type: ignore[attr-defined]
        builds = screen.plan.builds
        cells = [line.split()[2] for line in shown.splitlines() if " auto " in line and line.split()[1].isdigit()]
        assert cells == [builds[0], builds[1], builds[1], builds[0]]
        assert f"bench --pg {','.join(builds)}" in shown
        await pilot.press("space", "pageup", "down", "escape")
        await pilot.pause()
        assert pilot.app.screen is screen and not out.exists()

    launched(act, out)


def test_a_run_is_started_from_the_screen_and_watched(out: Path, small: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.current_mode == "live")
        app = pilot.app
        assert isinstance(app, Bench) and app.run_folder is not None and app.run_folder.parent == out

    launched(act, out)
    command = Command(out)
    command.await_end()
    manifest = read_manifest(command.run)
    assert [cell["subject"]["build"] for cell in manifest["cells"]] == tomllib.loads(small.read_text())["builds"]
    assert manifest["beside"] is True
    with JournalReader(command.run) as reader:
        assert [attempt.state for attempt in reader.attempts()] == ["finished", "finished"]


def test_what_bench_refuses_is_one_line_on_the_screen(out: Path, small: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        screen.change(replace(screen.plan, rows=900_000_000_000))
        await settled(pilot, screen)
        await pilot.press("enter")
        assert "x blocks start: free space" in notice(pilot.app)  # type: ignore[arg-type]
        await pilot.press("F")
        assert screen.doing
        await pilot.press("enter")  # no second one beside it
        await until(pilot, lambda: not screen.doing)
        assert "free" in notice(pilot.app) and "are needed" in notice(pilot.app)  # type: ignore[arg-type]
        assert pilot.app.current_mode == "launch"

    launched(act, out)


def test_an_unfinished_run_is_gone_on_with(out: Path, build: Callable[[int | str], Build]) -> None:
    label = build(16).label
    command = Command(out)
    words = ("--rows", "2000", "--rows-written", "150000", "--set", "shared_buffers=32MB", "--steps", "l.i1")
    command.detached("--pg", label, "--repeats", "1", *words)
    command.await_step("l.i1")
    assert command("stop").returncode == 0

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, PickScreen))
        assert command.run.name in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.current_mode == "live")
        assert pilot.app.run_folder == command.run  # type: ignore[attr-defined]

    launched(act, out)
    command.await_end()
    assert [attempt.state for attempt in command.attempts()] == ["interrupted", "finished"]


def test_with_nothing_unfinished_resuming_says_so(out: Path) -> None:
    out.mkdir(parents=True)
    (make_run(out / "20261118-1", repeats=1) / "cells").mkdir(exist_ok=True)

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("r")
        await until(pilot, lambda: not screen.doing)
        assert "is unfinished" in notice(pilot.app)  # type: ignore[arg-type]

    launched(act, out)


@pytest.mark.parametrize("late_s", [0.01, 0.05, 0.2])
def test_leaving_while_bench_is_asked_ends_that_and_leaves_nothing_behind(
    out: Path, monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: complaints.append(told.exc_value))

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        screen.ask_choices()
        await asyncio.sleep(late_s)

    launched(act, out, ready=False)
    gc.collect()
    assert not _asking(out)
    assert not complaints


def _asking(out: Path) -> list[str]:
    """Command lines of what asks about a folder."""
    return [line for _, line in processes_of(out) if "-m engine" in line]


def test_a_bench_that_fails_is_one_line_not_a_traceback(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_CATALOG", "/nonexistent/catalog.json")

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await until(pilot, lambda: bool(screen.trouble) and bool(screen.checks))
        assert screen.trouble.startswith("the list of builds in /nonexistent/catalog.json cannot be read")
        assert "? the list of builds" in pilot.app.screen_text()  # type: ignore[attr-defined]
        assert screen.offer == Offer()

    launched(act, out, ready=False)
