"""Launch with recorded answers of `bench`: the screen as text, and choosing with its keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from engine.journal import runs
from engine.plan.request import Request
from tests.support.journal import make_run
from tests.support.screens import check_screen, estimated, notice, place_of, show_launch, text_of, typed, until, words
from tui import bench as asked
from tui.launch.item_panel import Panel
from tui.launch.screen import LaunchScreen
from tui.screens.dialogs import LineScreen

pytestmark = pytest.mark.slow  # opens the interface

ANSWERS = Path(__file__).parents[1] / "recordings" / "answers"
NOISE = {
    "run": "20261119-101500-16.3", "scale": "g24b quick", "aa_pairs": 6, "pairs": 3,
    "steps": {"l.i0": 0.012, "l.x": 0.031, "l.i1": 0.024, "qr100": 0.058},
}  # fmt: skip


def word_of(arguments: Sequence[str]) -> str:
    """The command, or the list, that is asked for."""
    return arguments[arguments[0] == "list"]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded answers of `bench` about a machine and a plan, so that the picture is the same everywhere."""
    counted = {"cell_count": 6, "cell_s": 97, "total_s": 583, "needed_bytes": 988_859_083, "free_bytes": 77_400_000_000,
               "noise": NOISE, "steps": ["l.i0", "l.x", "l.i1", "qr100"]}  # fmt: skip
    choices = json.loads((ANSWERS / "choices.json").read_text())
    said = {
        "choices": (0, json.dumps(choices)),
        "runs": (0, "[]"),
        "probes": (0, json.dumps(choices["probes"])),
        "doctor": (0, (ANSWERS / "doctor.json").read_text()),
        "run": (0, json.dumps(counted)),
    }

    async def run(*arguments: str, console: object = None) -> tuple[int, str, str]:
        return *said[word_of(arguments)], ""

    monkeypatch.setattr(asked, "run", run)
    monkeypatch.setattr(runs, "is_held", lambda: False)  # another test's run, or a user's, is in no picture


async def two_builds(pilot: Pilot[Any], screen: LaunchScreen) -> None:
    steps, probes = {"steps": ["l.i1", "qr100"]}, ("sched", "planner:window")
    screen.change(Request(builds=("14.10", "16.3"), options=steps, probes=probes))
    screen.show_build("14.10")
    await estimated(pilot, screen)


def test_the_screen(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await two_builds(pilot, screen)
        check_screen(pilot.app, "launch")  # type: ignore[arg-type]

    show_launch(act, tmp_path)


def test_failed_checks_and_another_run_are_told_in_words(
    answers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = [""]
    monkeypatch.setattr(runs, "measuring", lambda _: another[-1])

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await two_builds(pilot, screen)
        first = {**screen.checks[0], "status": "fail", "found": "none", "reason": "PostgreSQL refuses root"}
        screen.checks = (first, *screen.checks[1:])
        another.append("20261120-091500-16.3")
        screen.look()
        screen.draw()
        screen.query_one("#checks", Panel).focus()
        await pilot.pause()
        check_screen(pilot.app, "launch-blocked")  # type: ignore[arg-type]
        await pilot.press("s")
        await pilot.pause()
        assert "Failed checks: another run, servers' user" in words(pilot)
        await pilot.press("n")
        assert not screen.doing

    show_launch(act, tmp_path)


def test_an_empty_plan_says_what_to_do_and_starts_nothing(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        assert "a plan that is ready" in pilot.app.screen_text()  # type: ignore[attr-defined]
        for key, word in (("s", "No build selected"), ("d", "nothing to run"), ("w", "no plan to save")):
            await pilot.press(key)
            assert word in notice(pilot.app)  # type: ignore[arg-type]

    show_launch(act, tmp_path)


def test_keys_move_choose_and_change(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        names = [item.name for item in screen.query_one("#builds", Panel).items()]
        await pilot.press("down", "space", "j", "j", "b")
        assert set(screen.plan.builds) == {names[1], names[3]} and screen.plan.base_build == names[3]
        await pilot.press("tab", "down", "space")
        assert screen.plan.configs == ("auto", "cx5")
        await pilot.press("tab", "space")  # the only kernel cannot be left out: said, not done
        assert "host: 6.12.58, running" in notice(pilot.app)  # type: ignore[arg-type]
        await pilot.press("tab", "down", "space")
        assert screen.plan.probes == ("runq",)
        await pilot.press("tab", "down", "left")
        assert screen.plan.options == {"generation": "g24a"}
        await pilot.press("down", "down", "space")
        await typed(pilot, "5000")
        assert screen.plan.options["rows"] == 5000
        await pilot.press("space")
        await until(pilot, lambda: isinstance(pilot.app.screen, LineScreen))
        await pilot.press("escape")
        assert screen.plan.options["rows"] == 5000
        await pilot.press("tab", "right", "down", "space")
        assert "l.i2" not in screen.plan.options["steps"] and "l.i1" in screen.plan.options["steps"]
        await pilot.press("tab", "right", "right", "left", "down", "space")
        assert screen.plan.repeats is not None and screen.plan.aa
        await pilot.press("tab", "right", "down")
        assert screen.query_one("#checks", Panel).cursor == 4

    show_launch(act, tmp_path)


def test_a_long_list_is_gone_through_by_pages(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        builds = screen.query_one("#builds", Panel)
        builds.focus()
        most = len(screen.query_one("#builds", Panel).items()) - 1
        places = []
        for key in ("pagedown", "pagedown", "pageup", "end", "pagedown", "home", "pageup"):
            await pilot.press(key)
            places.append(builds.cursor)
        page = places[0]
        assert 3 <= page < builds.size.height
        assert places == [page, 2 * page, page, most, most, 0, 0]

    show_launch(act, tmp_path)


def test_a_wrong_number_is_told_and_changes_nothing(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        screen.query_one("#design", Panel).focus()
        await pilot.press("space")
        await typed(pilot, "many")
        shown = pilot.app.screen_text()  # type: ignore[attr-defined]
        assert "? repeats: 'many' is not a number" in shown and screen.plan == Request()
        await typed(pilot, "0")  # the line is still there
        assert "? repeats: 0 is too small: give at least 1" in pilot.app.screen_text()  # type: ignore[attr-defined]
        await typed(pilot, "6")
        assert screen.plan.repeats == 6 and isinstance(pilot.app.screen, LaunchScreen)

    show_launch(act, tmp_path)


def test_builds_are_found_by_their_letters(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        listed = screen.query_one("#builds", Panel).items
        await pilot.press("slash", "1", "7")
        await pilot.pause()
        assert len(listed()) > 4 and all("17" in item.name for item in listed())  # while it is typed
        await pilot.press(".", "0")
        await pilot.pause()
        seventeen = ["17.0", "17.0-builtin", "17.0-prebuilt", "17.0-prebuilt-builtin"]
        assert [item.name for item in listed()] == seventeen
        await pilot.press("down")
        await pilot.pause()
        shown = pilot.app.screen_text()  # type: ignore[attr-defined]
        assert "     [ ] 17.0-builtin" in shown.replace(">", " ") and shown.count(">") == 2  # with that of the panel
        assert shown.splitlines()[-1].split() == ["enter", "to", "the", "list", "esc", "all", "again"]
        await pilot.press("enter", "up")
        await pilot.pause()
        assert [item.name for item in listed()] == seventeen
        assert "esc all builds again" in pilot.app.screen_text().splitlines()[-1]  # type: ignore[attr-defined]
        await pilot.press("space", "down", "escape")
        await pilot.pause()
        builds = screen.query_one("#builds", Panel)
        assert screen.plan.builds == ("17.0",) and len(listed()) > 10
        assert builds.item is not None and builds.item.name == "17.0-builtin"
        assert "esc" not in pilot.app.screen_text().splitlines()[-1]  # type: ignore[attr-defined]

    show_launch(act, tmp_path)


def test_an_install_and_a_config_of_ones_own_are_added(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.press("plus")
        await typed(pilot, "/opt/pg")
        assert "give NAME=/path" in pilot.app.screen_text()  # type: ignore[attr-defined]
        await typed(pilot, "mine=/opt/pg")
        assert screen.plan.builds == ("mine=/opt/pg",)
        await pilot.press("plus")
        await typed(pilot, "prod=postgresql://bench:sesame@db1/postgres")
        assert "prod: leave the password out" in notice(pilot.app)  # type: ignore[arg-type]
        assert screen.plan.builds == ("mine=/opt/pg",) and "sesame" not in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("plus")
        await typed(pilot, "prod=postgresql://bench@db1/postgres")
        assert screen.plan.builds[1:] == ("prod=postgresql://bench@db1/postgres",)
        await pilot.press("tab", "plus")
        await typed(pilot, "/etc/mine.conf")
        assert screen.plan.configs == ("auto", "/etc/mine.conf")

    show_launch(act, tmp_path)


def test_launch_items_are_clicked_and_the_wheel_scrolls(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        x, y = place_of(pilot, "[ ] cx7")
        await pilot.click(offset=(x, y))
        await pilot.pause()
        assert "cx7" in screen.plan.configs
        assert screen.focused is screen.query_one("#configs", Panel)
        await pilot.click(offset=place_of(pilot, "[x] l.i2"))
        await pilot.pause()
        assert "l.i2" not in screen.plan.options["steps"]
        before = screen.plan
        await pilot.click(offset=place_of(pilot, ">steps"))  # a title is no item
        assert screen.plan == before
        builds = screen.query_one("#builds", Panel)
        pilot.app.screen._forward_event(  # noqa: SLF001
            events.MouseScrollDown(None, 5, 5, 0, 1, 0, False, False, False, screen_x=5, screen_y=5)
        )
        await pilot.pause()
        assert builds.cursor == 1

    show_launch(act, tmp_path)


def test_a_click_never_scrolls_what_lies_under_the_pointer(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        for row in ("qr500", "qr1000", "qp500", "l.i2"):  # the rows below those of a list that is cut
            x, y = place_of(pilot, f"[x] {row}")
            before = pilot.app.screen_text().replace(">", " ").splitlines()  # type: ignore[attr-defined]
            await pilot.click(offset=(x, y))
            await pilot.pause()
            after = pilot.app.screen_text().replace(">", " ").splitlines()  # type: ignore[attr-defined]
            assert after[y] == before[y].replace(f"[x] {row}", f"[ ] {row}")
        assert screen.plan.options["steps"] == ["l.i0", "l.x", "l.i1", "pause", "qr100", "qp100", "qp1000"]

    show_launch(act, tmp_path)


def test_typing_replaces_a_value_that_was_clicked(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        await pilot.click(offset=place_of(pilot, "repeats"))
        await until(pilot, lambda: isinstance(pilot.app.screen, LineScreen))
        shown = pilot.app.screen_text()  # type: ignore[attr-defined]
        assert "a whole number from 1 to 1,000; default: 4, in slices 8" in " ".join(shown.split()), shown
        await pilot.click(offset=place_of(pilot, "cells per build"))  # the second click of two
        await pilot.press("2", "enter")
        await pilot.pause()
        assert screen.plan.repeats == 2
        await pilot.click(offset=place_of(pilot, "rows  "))
        await until(pilot, lambda: isinstance(pilot.app.screen, LineScreen))
        shown = text_of(pilot)
        assert "such as 400k or 20M;" in shown and "empty: 400,000" in shown

    show_launch(act, tmp_path)


def test_what_is_known_is_shown_while_bench_is_still_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = json.loads((ANSWERS / "choices.json").read_text())
    said = {"choices": json.dumps(choices), "probes": json.dumps(choices["probes"]),
            "doctor": (ANSWERS / "doctor.json").read_text()}  # fmt: skip
    allowed = {word: asyncio.Event() for word in ("choices", "probes", "doctor")}

    async def run(*arguments: str, console: object = None) -> tuple[int, str, str]:
        await allowed[word_of(arguments)].wait()
        return 0, said[word_of(arguments)], ""

    monkeypatch.setattr(asked, "run", run)
    monkeypatch.setattr(runs, "is_held", lambda: False)
    (make_run(tmp_path / "20261118-1", builds=("16.3", "17.0"), repeats=1) / "cells").mkdir(exist_ok=True)

    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        def shown() -> str:
            return pilot.app.screen_text()  # type: ignore[attr-defined, no-any-return]

        assert "17  [ ] 17.0" in shown() and "16  [ ] 16.3" in shown()
        assert shown().count("looking") == 4  # ready plans, probes, steps, preflight
        allowed["choices"].set()
        await until(pilot, lambda: "[x] l.i1" in shown())
        assert shown().count("looking") == 2 and "18.6" in shown()
        allowed["probes"].set()
        await until(pilot, lambda: "planstats" in shown())
        assert shown().count("looking") == 1
        allowed["doctor"].set()
        await until(pilot, lambda: "looking" not in shown())

    show_launch(act, tmp_path, ready=False)


def test_a_large_terminal_shows_all_builds_and_configs(answers: None, tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        shown = pilot.app.screen_text()  # type: ignore[attr-defined]
        builds = screen.query_one("#builds", Panel)
        rows = [line[:84] for line in shown.splitlines()]
        assert sum(row.count("[ ]") for row in rows[5 : 5 + builds.size.height - 1]) == len(builds.items())
        assert "June 2022 post, first runs: small s" in shown
        await pilot.press("right", "space")
        assert screen.plan.builds == (builds.items()[1].name,)

    show_launch(act, tmp_path, (200, 50))
