"""Launch with `bench` itself: its choices and checks, keeping a plan, and a real start from the screen."""

from __future__ import annotations

import asyncio
import gc
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from msgspec.structs import replace
from textual.pilot import Pilot

from engine.core.model import Build
from engine.journal import runs
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.run_lock import held
from engine.plan.command_line import command
from engine.plan.request import Request
from engine.system.host_lock import exclusive_run
from tests.support import asking
from tests.support.benchcall import LONG, processes_of
from tests.support.benchcall import Bench as Command
from tests.support.journal import make_run
from tests.support.screens import estimated, notice, show_launch, typed, until, words
from tui import bench
from tui.app import Bench
from tui.launch.plan_edits import with_build, with_option
from tui.launch.screen import LaunchScreen
from tui.screens.dialogs import AskScreen, LineScreen, PagesScreen, PickScreen

pytestmark = pytest.mark.slow  # opens the interface


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
        "repeats": 1, "overrides": ["shared_buffers=32MB"], "allow_concurrent": True,
    }  # fmt: skip
    path.write_text(tomli_w.dumps(plan))
    return path


async def opened(pilot: Pilot[Any], screen: LaunchScreen, plan: Path) -> None:
    await pilot.press("o")
    await typed(pilot, str(plan))
    await until(pilot, lambda: screen.file == str(plan) and not screen.doing)


def test_every_choice_is_counted_by_bench(out: Path, build: Callable[[int | str], Build]) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        screen.change(with_build(screen.plan, build(14).label, screen.offer.labels))
        await estimated(pilot, screen)
        assert screen.estimate is not None and screen.estimate["cell_count"] == 4
        screen.change(with_build(screen.plan, build(16).label, screen.offer.labels))
        screen.change(replace(screen.plan, aa=True))
        await estimated(pilot, screen)
        assert screen.estimate["cell_count"] == 24
        assert "24 cells" in pilot.app.screen_text()  # type: ignore[attr-defined]
        screen.change(replace(screen.plan, configs=("/none.conf",)))
        await estimated(pilot, screen)
        assert screen.trouble == "config file /none.conf cannot be read: No such file or directory"
        assert screen.trouble in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("s")
        assert screen.trouble in notice(pilot.app) and not screen.doing  # type: ignore[arg-type]

    show_launch(act, out)


def test_a_plan_is_kept_and_taken_up_again(out: Path, small: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.toml"

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        plan = screen.plan
        assert plan.entries() == tomllib.loads(small.read_text())
        assert " plan small.toml " in pilot.app.screen_text()  # type: ignore[attr-defined]
        screen.change(replace(plan, repeats=6))
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
        assert tomllib.loads(saved.read_text())["repeats"] == 6
        screen.change(Request())
        await opened(pilot, screen, saved)
        assert screen.plan == replace(plan, repeats=6)
        await pilot.press("w")
        await typed(pilot, str(tmp_path / "none" / "plan.toml"))
        await until(pilot, lambda: "cannot be written" in words(pilot))
        assert isinstance(pilot.app.screen, LineScreen)  # to be mended

    show_launch(act, out)


def test_a_dry_run_shows_the_schedule_and_starts_nothing(out: Path, small: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        screen.change(replace(screen.plan, repeats=2, interleave="cells"))
        await pilot.press("d")
        await until(pilot, lambda: isinstance(pilot.app.screen, PagesScreen))
        shown = words(pilot)
        assert command(screen.plan) in shown and "in all (rough estimate)" in shown
        rows = (f"{screen.plan.builds[place]} auto {repeat}" for place, repeat in ((0, 1), (1, 1), (1, 2), (0, 2)))
        assert " ".join(f"{number} {row}" for number, row in enumerate(rows, 1)) in shown
        await pilot.press("space", "pageup", "down", "escape")
        await pilot.pause()
        assert pilot.app.screen is screen and not out.exists()

    show_launch(act, out, size=(72, 24))


def test_a_run_is_started_from_the_screen_and_watched(out: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that measures elsewhere is named before the start."""

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        await pilot.press("s")
        await until(pilot, lambda: "Start? 2 cells, about " in words(pilot))
        await pilot.press("n")
        screen.change(replace(screen.plan, allow_concurrent=False))
        await estimated(pilot, screen)
        with exclusive_run(concurrent=True):  # another test's may have it already
            await pilot.press("s")
            await until(pilot, lambda: "Failed checks: another run" in words(pilot))
            monkeypatch.setattr(bench, "run", asking.own_interpreter)
            await pilot.press("y")
            await until(pilot, lambda: pilot.app.current_mode == "live")
        app = pilot.app
        assert isinstance(app, Bench) and app.context.run is not None and app.context.run.parent == out

    show_launch(act, out)
    command = Command(out)
    command.await_end()
    manifest = read_manifest(command.run)
    assert [cell.subject.build for cell in manifest.cells] == tomllib.loads(small.read_text())["builds"]
    assert manifest.allow_concurrent is True
    with JournalReader(command.run) as reader:
        assert [attempt.state for attempt in reader.attempts()] == ["finished", "finished"]


def test_what_bench_refuses_is_one_line_on_the_screen(out: Path, small: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        screen.change(with_option(screen.plan, "rows", 900_000_000_000))
        await estimated(pilot, screen)
        await pilot.press("s")
        await until(pilot, lambda: "Failed checks: free space" in words(pilot))
        await pilot.press("y")
        assert screen.doing
        await pilot.press("s", "y")  # no second one beside it
        await until(pilot, lambda: not screen.doing)
        assert "free" in notice(pilot.app) and "are needed" in notice(pilot.app)  # type: ignore[arg-type]
        assert pilot.app.current_mode == "launch"

    show_launch(act, out)


def test_an_unfinished_run_is_gone_on_with(out: Path, build: Callable[[int | str], Build]) -> None:
    label = build(16).label
    command = Command(out)
    command.detached("--pg", label, "--repeats", "1", *LONG, "--rows-written", "10000")
    command.await_step("l.i1")
    assert command("stop").returncode == 0

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, PickScreen))
        assert command.run.name in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.current_mode == "live")
        assert pilot.app.context.run == command.run  # type: ignore[attr-defined]

    show_launch(act, out)
    command.await_end()
    assert [attempt.state for attempt in command.attempts()] == ["interrupted", "finished"]


def test_with_nothing_unfinished_resuming_says_so(out: Path) -> None:
    out.mkdir(parents=True)
    (make_run(out / "20261118-1", repeats=1) / "cells").mkdir(exist_ok=True)

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("r")
        await until(pilot, lambda: not screen.doing)
        assert "is unfinished" in notice(pilot.app)  # type: ignore[arg-type]

    show_launch(act, out)


@pytest.mark.parametrize("late_s", [0.01, 0.05, 0.2])
def test_leaving_during_a_call_of_bench_leaves_nothing(
    out: Path, monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    monkeypatch.setattr(bench, "run", asking.own_interpreter)
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: complaints.append(error.exc_value))

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        screen.ask_choices()
        await asyncio.sleep(late_s)

    show_launch(act, out, ready=False)
    gc.collect()
    assert not _asking(out)
    assert not complaints


def _asking(out: Path) -> list[str]:
    """Command lines of processes that ask about a folder."""
    return [line for _, line in processes_of(out) if "-m engine" in line]


def test_a_bench_that_fails_is_one_line_not_a_traceback(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBED_CATALOG", "/nonexistent/catalog.json")

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await until(pilot, lambda: bool(screen.trouble) and bool(screen.checks))
        assert screen.trouble.startswith("the list of builds in /nonexistent/catalog.json cannot be read")
        assert "? the list of builds" in pilot.app.screen_text()  # type: ignore[attr-defined]
        assert not screen.offer.builds

    show_launch(act, out, ready=False)


def test_a_run_that_measures_in_this_folder_is_named(out: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by `bench` itself, where it was not seen before the builds were prepared."""
    small.write_text(tomli_w.dumps(tomllib.loads(small.read_text()) | {"allow_concurrent": False}))
    seen = [False]
    monkeypatch.setattr(runs, "is_held", lambda: seen[-1])

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await opened(pilot, screen, small)
        other = make_run(out / "20261118-1", repeats=1)
        (other / "cells").mkdir(exist_ok=True)

        async def refusing(*arguments: str, console: object = None) -> tuple[int, str, str]:
            seen.append(True)
            return 2, "", "bench: another run is measuring on this machine; pass --allow-concurrent"

        with held(other), exclusive_run(concurrent=True):
            monkeypatch.setattr(bench, "run", refusing)
            await pilot.press("s", "y")
            await until(pilot, lambda: bool(screen.refused) and not screen.doing)
            shown = pilot.app.screen_text().splitlines()  # type: ignore[attr-defined]
            assert shown[2] == " x another run is measuring: 2 watches it, s asks again"
            assert "20261118-1" in "".join(shown) and "allow-concurrent" not in "".join(shown)
            assert screen.context.run == other

    show_launch(act, out)
