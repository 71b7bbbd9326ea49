"""The Live screen of a run under way: it moves with the engine, and its keys work."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.journal import growing
from tests.support.screens import show_live, stalling, text_of
from tests.support.totals import planned_as
from tui import bench
from tui.live import screen as live_screen
from tui.live.screen import LiveScreen
from tui.live.stall_screen import StallScreen


def test_a_stall_is_shown_before_the_next_beat(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        screen.glance()
        stall = live.stall()
        screen.glance()  # five times a second
        await pilot.pause()
        shown = text_of(pilot)
        assert "! STALL insert 0.0s so far" in shown
        assert "!insert" in shown  # in the table of roles
        assert "!" in next(row for row in shown.splitlines() if row.startswith("stalls"))
        live.second(insert=0)
        live.end_stall(stall, "backend 4100 is stopped (SIGSTOP)")
        screen.glance()
        await pilot.pause()
        assert "s so far" not in text_of(pilot)
        assert "1 stall of insert, 1.0s: backend 4100" in text_of(pilot)
        assert "STALL insert 1.0s: backend 4100 is stopped (SIGSTOP)" in text_of(pilot)

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


def test_pausing_stops_painting_and_says_how_far_it_is_behind(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("space")
        assert "PAUSED 0s behind" in text_of(pilot)
        for _ in range(7):
            live.second(insert=7777)
        live.stall()
        screen.tick()
        screen.glance()
        await pilot.pause()
        shown = text_of(pilot)
        assert "PAUSED 7s behind" in shown and "7777" not in shown and "STALL" not in shown
        await pilot.press("z", "i", "z")  # looks at the held moment from another side
        assert "7777" not in text_of(pilot) and "PAUSED 7s behind" in text_of(pilot)
        await pilot.resize_terminal(60, 18)
        await pilot.pause()
        assert "PAUSED 7s behind" in text_of(pilot) and "7777" not in text_of(pilot)
        await pilot.resize_terminal(80, 24)
        await pilot.press("question_mark", "escape")  # and comes back to it
        await pilot.pause()
        assert "PAUSED 7s behind" in text_of(pilot) and "7777" not in text_of(pilot)
        await pilot.press("i", "space")
        await pilot.pause()
        shown = text_of(pilot)
        assert "PAUSED" not in shown and "7777" in shown and "STALL insert" in shown

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


def test_stalls_of_the_step_are_visited_with_their_details(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("n")
        assert "1/2 STALL delete 3.0s: backend 4101" in text_of(pilot)
        await pilot.press("n")
        assert "2/2 STALL insert 1.5s so far" in text_of(pilot)
        await pilot.press("n")
        assert "1/2" in text_of(pilot)
        await pilot.press("N")
        assert "2/2" in text_of(pilot)
        await pilot.press("N", "enter")
        await pilot.pause()
        shown = text_of(pilot)
        assert "STALL  delete, 3.0 s" in shown and "1. 0.90 backend 4101 is stopped (SIGSTOP)" in shown
        await pilot.press("n")
        await pilot.pause()
        assert "STALL  insert, 1.5 s" in text_of(pilot) and "so far" in text_of(pilot)
        live.second(insert=0)
        detail = pilot.app.screen
        assert isinstance(detail, StallScreen)
        detail.follow()
        await pilot.pause()
        assert "STALL  insert, 2.0 s" in text_of(pilot)
        await pilot.press("N", "q")
        await pilot.pause()
        assert pilot.app.screen is screen

    with growing(tmp_path) as live:
        stalling(live)
        show_live(live.run, check, clock=live.hand.clock)


def test_the_detail_of_a_stall_stays_when_the_next_step_begins(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("enter")
        await pilot.pause()
        live.end_step()
        live.journal.begin_step(live.attempt, 1, "l.i2", "write", 1000, planned_as("write"), live.hand.at_ns)
        live.journal.commit()
        detail = pilot.app.screen
        assert isinstance(detail, StallScreen)
        detail.read()
        await pilot.press("n")
        await pilot.pause()
        (rate,) = [row for row in text_of(pilot).splitlines() if row.startswith(" insert/s")]
        assert "no data" not in rate

    with growing(tmp_path) as live:
        stalling(live)
        show_live(live.run, check, clock=live.hand.clock)


def test_without_a_stall_the_keys_for_stalls_say_so(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        for key in ("n", "N", "enter"):
            await pilot.press(key)
            assert "no stall in this step so far" in text_of(pilot)

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


def test_the_chart_of_a_role_that_the_next_step_lacks_gives_way(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("i")
        assert "del/s 900" in text_of(pilot)
        live.end_step()
        live.journal.begin_step(live.attempt, 1, "l.i2", "write", 1000, planned_as("write"), live.hand.at_ns)
        live.journal.commit()
        screen.tick()
        await pilot.pause()
        assert "ins/s" in text_of(pilot) and "del/s" not in text_of(pilot)

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


def test_keys_of_a_replay_say_that_this_is_live(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        for key in ("left_square_bracket", "right_curly_bracket", "comma", "full_stop", "g"):
            await pilot.press("n", key)
            assert "this is live" in text_of(pilot)

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


@pytest.mark.parametrize("words", [["h", "i"], ["minus", "1"]])
def test_a_mark_is_asked_of_the_engine_and_its_answer_is_shown(tmp_path: Path, words: list[str]) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("m", *words, "enter")
        for _ in range(600):  # `bench mark` is a process; this run has no engine that listens
            await pilot.pause(0.05)
            if "adding the marker" not in text_of(pilot):
                break
        (notice,) = [row for row in text_of(pilot).splitlines()[-4:] if "engine" in row]
        assert pilot.app.screen is screen and notice

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


def test_a_stopped_run_shows_the_key_that_resumes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_screen, "PAINT_S", 3600.0)  # the journal's state is not painted between

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        view = screen.view
        assert view is not None
        screen.context.stopping = screen.context.run
        for state, badge, hint in (("stopped", " STOPPED ", True), ("running", " REC ", False)):
            screen.show(replace(view, state=state))
            await pilot.pause()
            shown = text_of(pilot)
            assert shown.splitlines()[1].startswith(badge) and ("r on Launch (1) resumes" in shown) == hint

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


def test_a_run_that_was_asked_to_stop_is_stopping_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = asyncio.Event()

    async def run(*_: str, **__: object) -> tuple[int, str, str]:
        await answered.wait()
        return 1, "", "bench: nobody listens"

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("S", "y")
        screen.tick()
        await pilot.pause()
        assert text_of(pilot).splitlines()[1].startswith(" STOPPING ")
        answered.set()
        await pilot.pause()
        screen.tick()
        await pilot.pause()
        assert text_of(pilot).splitlines()[1].startswith(" REC "), "it was refused"
        assert "nobody listens" in text_of(pilot)

    monkeypatch.setattr(bench, "run", run)
    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)
