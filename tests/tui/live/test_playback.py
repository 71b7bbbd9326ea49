"""The Live screen of a cell that is replayed: what its keys do, and how it is moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine.view.step_series import SECOND_NS
from tests.support.journal import Hand
from tests.support.screens import STALLED, replay, show_live, text_of, until
from tui.app import Bench
from tui.live.screen import LiveScreen


def test_a_replay_is_moved_by_time(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert "00:00:05" in text_of(pilot)
        for key, shown in (
            ("right_square_bracket", "00:00:06"),
            ("left_square_bracket", "00:00:05"),
            ("right_curly_bracket", "qr100"),
            ("left_curly_bracket", "00:00:05"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert shown in text_of(pilot).splitlines()[1], key
        await pilot.press("g", *"0:09.5", "enter")
        await pilot.pause()
        assert "00:00:09" in text_of(pilot) and "STALL" in text_of(pilot)
        for wrong in ("soon", "inf", "nan", "1e999", ":"):
            await pilot.press("g", *wrong, "enter")
            await pilot.pause()
            assert f"{wrong}: give seconds, mm:ss or hh:mm:ss" in text_of(pilot)
        await pilot.press("g", "escape")
        await pilot.pause()
        assert pilot.app.screen is screen and "00:00:09" in text_of(pilot)

    replay(recording, check, at_s=5)


def test_a_replay_goes_from_stall_to_stall(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        ribbon = next(row for row in text_of(pilot).splitlines() if row.startswith("stalls"))
        assert "!" in ribbon, "all that is recorded of the step is known from its start on"
        await pilot.press("n")
        await pilot.pause()
        shown = text_of(pilot)
        assert "STALL insert and delete 4.0s: process 5879" in shown, "all of it is seen: nothing is said of so far"
        assert "so far" not in shown.split("stalls ")[1] and "!insert" not in shown
        chart = next(row for row in shown.splitlines() if row.startswith("     0"))
        assert "!" in chart and chart.rstrip()[-1] != "!", "and what followed it"
        await pilot.press("n")
        await until(pilot, lambda: "no later stall" in text_of(pilot))
        await pilot.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        await pilot.pause()
        assert "!insert" in text_of(pilot) and "!delete" in text_of(pilot)
        assert "! STALL insert and delete" in text_of(pilot), "two roles of one client are one incident"
        await pilot.press("right_curly_bracket", "right_curly_bracket", "N")
        await pilot.pause()
        assert "STALL insert and delete 4.0s: process 5879" in text_of(pilot)
        await pilot.press("N")
        await until(pilot, lambda: "no earlier stall" in text_of(pilot))

    replay(recording, check, at_s=1)


def test_a_replay_plays_by_its_clock_and_stands_while_it_is_held(recording: Path) -> None:
    hand = Hand()

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        hand.at_ns += 2 * SECOND_NS
        screen.tick()
        assert "00:00:02" in text_of(pilot)
        await pilot.press("full_stop", "full_stop")
        hand.at_ns += 2 * SECOND_NS
        screen.tick()
        assert "REPLAY x4" in text_of(pilot) and "00:00:10" in text_of(pilot)
        await pilot.press("space")
        shown = text_of(pilot)
        hand.at_ns += 60 * SECOND_NS
        screen.tick()
        assert text_of(pilot) == shown and "PAUSED" in shown

    replay(recording, check, at_s=0, clock=hand.clock)


def test_another_cell_is_opened_in_the_same_screen(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        app = pilot.app
        assert isinstance(app, Bench)
        app.replay(recording, STALLED, "l.i1")
        await pilot.pause()
        assert "REPLAY x1" in text_of(pilot) and " l.i1 " in text_of(pilot) and ", . speed" in text_of(pilot)
        app.look_at(recording)
        await pilot.pause()
        assert "FINISHED" in text_of(pilot) and ", . speed" not in text_of(pilot)
        app.replay(recording, "no such cell")
        await pilot.pause()
        shown = text_of(pilot)
        assert "cell no such cell has not been run" in " ".join(shown.split())
        assert "STALL" not in shown and "role" not in shown.replace("i role", "")  # nothing of the run before

    show_live(recording, check)


def test_a_position_is_told_to_other_screens(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert screen.view is not None and screen.view.step is not None
        assert pilot.app.context.position == (screen.view.step.id, screen.view.at_ns)  # type: ignore[attr-defined]

    replay(recording, check, at_s=3)


def test_a_recorded_stalls_detail_is_whole_at_any_position(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("space", "enter")
        await pilot.pause()
        shown = text_of(pilot)
        assert " STALL  insert, 3.7 s" in shown and "so far" not in shown
        assert "163k rows not done" in shown, "what it came to is said of the time that is said"
        rate = next(row for row in shown.splitlines() if row.startswith(" insert/s"))
        course = rate[21:-14]
        assert course.rstrip().count(" ") < len(course) and course.strip()[-1] != " "

    replay(recording, check, at_s=9.5)
