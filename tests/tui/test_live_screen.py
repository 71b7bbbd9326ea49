"""The Live screen: of a run under way, of one that is over, and of a cell that is replayed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from driving import check_screen, drive
from growing import Growing, Hand, growing
from textual.pilot import Pilot

from tui.app import Bench
from tui.live.film import SECOND_NS
from tui.live.screen import LiveScreen
from tui.live.stall import StallScreen

STALLED = "002-16.3-prebuilt-auto-r1"  # of the recording, with two stalls in l.i1
Act = Callable[[Pilot[Any], LiveScreen], Awaitable[None]]


def live_of(app: Any) -> LiveScreen:
    screen = next(screen for screen in app.screen_stack if isinstance(screen, LiveScreen))
    return screen


def text(pilot: Pilot[Any]) -> str:
    shown: str = pilot.app.screen_text()  # type: ignore[attr-defined]
    return shown


async def still(_: Pilot[Any], __: LiveScreen) -> None:
    """Presses nothing."""


def look(run: Path, act: Act = still, **options: Any) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await act(pilot, live_of(pilot.app))

    drive(script, run, run.parent, **options)


def replay(recording: Path, act: Act, *, at_s: float | None = None, step: str = "l.i1", **options: Any) -> None:
    """Plays the cell with the stalls, with its clock held, from so many seconds into a step on."""

    async def placed(pilot: Pilot[Any], live: LiveScreen) -> None:
        assert live.player is not None and live.picture is not None and live.picture.step is not None
        if at_s is not None:
            live.player.seek(live.picture.step.started_ns + int(at_s * SECOND_NS))
            live.repaint()
        await pilot.pause()
        await act(pilot, live)

    look(recording, placed, replayed=(STALLED, step), **options)


def stalling(live: Growing) -> None:
    """Forty seconds, a stall that is over, and one that lasts."""
    for second in range(40):
        live.second(insert=1000 + 10 * (second % 7), delete=900 + 5 * (second % 3), backend_cpu_ns=600_000_000)
    first = live.stall("delete")
    for _ in range(3):
        live.second(delete=0, in_flight_ns=2 * SECOND_NS)
    live.end_stall(first, "backend 4101 is stopped (SIGSTOP)")
    for _ in range(10):
        live.second()
    live.stall("insert")
    live.second(insert=0, in_flight_ns=SECOND_NS, wait_event="IO:WALSync")
    live.hand.at_ns += SECOND_NS // 2


# -- screens


@pytest.mark.parametrize(
    ("name", "size", "glyphs"),
    [
        ("live-80x24", (80, 24), "braille"),
        ("live-130x36", (130, 36), "braille"),
        ("live-60x18", (60, 18), "braille"),
        ("live-50x10", (50, 10), "braille"),
        ("live-block-80x24", (80, 24), "block"),
        ("live-ascii-80x24", (80, 24), "ascii"),
    ],
)
def test_screen_of_a_finished_run(recording: Path, name: str, size: tuple[int, int], glyphs: str) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    look(recording, check, size=size, glyphs=glyphs)


@pytest.mark.parametrize(
    ("name", "size", "glyphs"),
    [
        ("live-replay-80x24", (80, 24), "braille"),
        ("live-replay-130x36", (130, 36), "braille"),
        ("live-replay-60x18", (60, 18), "braille"),
        ("live-replay-ascii-80x24", (80, 24), "ascii"),
    ],
)
def test_screen_of_a_replay_in_a_stall(recording: Path, name: str, size: tuple[int, int], glyphs: str) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    replay(recording, check, at_s=10.5, size=size, glyphs=glyphs)


@pytest.mark.parametrize(
    ("name", "size", "glyphs"),
    [
        ("live-stalled-80x24", (80, 24), "braille"),
        ("live-stalled-60x18", (60, 18), "braille"),
        ("live-stalled-block-80x24", (80, 24), "block"),
        ("live-stalled-ascii-80x24", (80, 24), "ascii"),
    ],
)
def test_screen_of_a_stall_that_lasts(tmp_path: Path, name: str, size: tuple[int, int], glyphs: str) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    with growing(tmp_path) as live:
        stalling(live)
        look(live.run, check, size=size, glyphs=glyphs, clock=live.hand.clock)


@pytest.mark.parametrize(
    ("name", "size", "glyphs"),
    [
        ("live-detail-80x24", (80, 24), "braille"),
        ("live-detail-130x36", (130, 36), "braille"),
        ("live-detail-ascii-80x24", (80, 24), "ascii"),
        ("live-detail-60x18", (60, 18), "braille"),
    ],
)
def test_screen_of_the_detail_of_a_stall(recording: Path, name: str, size: tuple[int, int], glyphs: str) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        await pilot.press("space", "enter")
        await pilot.pause()
        check_screen(pilot.app, name)  # type: ignore[arg-type]

    replay(recording, check, at_s=13, size=size, glyphs=glyphs)


def test_without_colour_it_says_the_same(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    async def keep(pilot: Pilot[Any], _: LiveScreen) -> None:
        shown.append(text(pilot))

    replay(recording, keep, at_s=10.5)
    monkeypatch.setenv("NO_COLOR", "1")
    replay(recording, keep, at_s=10.5)
    assert shown[0] == shown[1]


def test_the_ascii_screens_are_ascii(recording: Path, tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        assert text(pilot).isascii()
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, StallScreen)
        assert text(pilot).isascii()

    replay(recording, check, at_s=12, glyphs="ascii")


def test_no_line_is_cut_at_the_reference_size(recording: Path, tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        rows = text(pilot).splitlines()
        assert len(rows) == 24
        assert not [row for row in rows[:3] if row.endswith("~")]
        assert rows[-1].rstrip().endswith("q quit")

    replay(recording, check, at_s=10.5)
    with growing(tmp_path / "live") as live:
        stalling(live)
        look(live.run, check, clock=live.hand.clock)


def test_no_run_says_how_to_come_to_one(tmp_path: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        assert "no run is looked at" in text(pilot)

    drive(script, None, tmp_path)
    drive(script, None, tmp_path, size=(60, 18))


# -- a run under way


def test_it_moves_with_the_engine(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        for insert, shown in ((1000, "ins/s 1000 "), (2000, "ins/s 2000 "), (345, "ins/s 345 ")):
            live.second(insert=insert)
            screen._tick()
            await pilot.pause()
            assert shown in text(pilot)

    with growing(tmp_path) as live:
        look(live.run, check, clock=live.hand.clock)


def test_a_stall_is_shown_before_the_next_beat(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        screen._glance()
        stall = live.stall()
        screen._glance()  # five times a second
        await pilot.pause()
        shown = text(pilot)
        assert "! STALL insert 0.0s so far" in shown
        assert "!insert" in shown  # in the table of roles
        assert "!" in next(row for row in shown.splitlines() if row.startswith("stalls"))
        live.second(insert=0)
        live.end_stall(stall, "backend 4100 is stopped (SIGSTOP)")
        screen._glance()
        await pilot.pause()
        assert "s so far" not in text(pilot)
        assert "1 stall, last insert 1.0s: backend 4100" in text(pilot)
        assert "STALL insert 1.0s: backend 4100 is stopped (SIGSTOP)" in text(pilot)

    with growing(tmp_path) as live:
        live.second()
        look(live.run, check, clock=live.hand.clock)


def test_pausing_stops_painting_and_says_how_far_it_is_behind(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("space")
        assert "PAUSED 0s behind" in text(pilot)
        for _ in range(7):
            live.second(insert=7777)
        live.stall()
        screen._tick()
        screen._glance()
        await pilot.pause()
        shown = text(pilot)
        assert "PAUSED 7s behind" in shown and "7777" not in shown and "STALL" not in shown
        await pilot.press("z", "i", "z")  # looks at what is held from another side
        assert "7777" not in text(pilot) and "PAUSED 7s behind" in text(pilot)
        await pilot.resize_terminal(60, 18)
        await pilot.pause()
        assert "PAUSED 7s behind" in text(pilot) and "7777" not in text(pilot)
        await pilot.resize_terminal(80, 24)
        await pilot.press("question_mark", "escape")  # and comes back to it
        await pilot.pause()
        assert "PAUSED 7s behind" in text(pilot) and "7777" not in text(pilot)
        await pilot.press("i", "space")
        await pilot.pause()
        shown = text(pilot)
        assert "PAUSED" not in shown and "7777" in shown and "STALL insert" in shown

    with growing(tmp_path) as live:
        live.second()
        look(live.run, check, clock=live.hand.clock)


def test_each_key_of_the_last_row_does_something_live(tmp_path: Path) -> None:
    pressed: list[str] = []

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        expected = {
            "space": "PAUSED",
            "n": "1/2 STALL delete 3.0s: backend 4101 is stopped",
            "enter": " STALL ",
            "z": "the whole step is no longer than 60 s",
            "i": "del/s",
            "m": "A word for the record",
            "question_mark": "keys of this screen",
        }
        for key, _ in screen.shown_keys():
            if key == "q":
                continue
            before = text(pilot)
            await pilot.press(key)
            await pilot.pause()
            assert text(pilot) != before, key
            assert expected[key] in text(pilot), (key, text(pilot))
            if len(pilot.app.screen_stack) > 1:
                await pilot.press("escape")
            elif key == "space":
                await pilot.press(key)
            await pilot.pause()
            assert pilot.app.screen is screen
            pressed.append(key)
        assert pressed == list(expected)
        await pilot.press("q")
        assert pilot.app._exit

    with growing(tmp_path) as live:
        stalling(live)
        look(live.run, check, clock=live.hand.clock)


def test_the_stalls_of_the_step_are_gone_through_and_each_has_its_detail(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("n")
        assert "1/2 STALL delete 3.0s: backend 4101" in text(pilot)
        await pilot.press("n")
        assert "2/2 STALL insert 1.5s so far" in text(pilot)
        await pilot.press("n")
        assert "1/2" in text(pilot)
        await pilot.press("N")
        assert "2/2" in text(pilot)
        await pilot.press("N", "enter")
        await pilot.pause()
        shown = text(pilot)
        assert "STALL  delete, 3.0 s" in shown and "1. 0.90 backend 4101 is stopped (SIGSTOP)" in shown
        await pilot.press("n")
        await pilot.pause()
        assert "STALL  insert, 1.5 s" in text(pilot) and "so far" in text(pilot)
        live.second(insert=0)
        detail = pilot.app.screen
        assert isinstance(detail, StallScreen)
        detail._follow()
        await pilot.pause()
        assert "STALL  insert, 2.0 s" in text(pilot)
        await pilot.press("N", "q")
        await pilot.pause()
        assert pilot.app.screen is screen

    with growing(tmp_path) as live:
        stalling(live)
        look(live.run, check, clock=live.hand.clock)


def test_the_detail_of_a_stall_stays_when_the_next_step_begins(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("enter")
        await pilot.pause()
        live.end_step()
        live.journal.begin_step(live.attempt, 1, "l.i2", "write", 1000, {}, live.hand.at_ns)
        live.journal.commit()
        detail = pilot.app.screen
        assert isinstance(detail, StallScreen)
        detail._read()
        await pilot.press("n")
        await pilot.pause()
        (rate,) = [row for row in text(pilot).splitlines() if row.startswith(" insert/s")]
        assert "no data" not in rate

    with growing(tmp_path) as live:
        stalling(live)
        look(live.run, check, clock=live.hand.clock)


def test_without_a_stall_the_keys_for_stalls_say_so(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        for key in ("n", "N", "enter"):
            await pilot.press(key)
            assert "no stall in this step so far" in text(pilot)

    with growing(tmp_path) as live:
        live.second()
        look(live.run, check, clock=live.hand.clock)


def test_the_chart_of_a_role_that_the_next_step_lacks_gives_way(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("i")
        assert "del/s 900" in text(pilot)
        live.end_step()
        live.journal.begin_step(live.attempt, 1, "l.i2", "write", 1000, {}, live.hand.at_ns)
        live.journal.commit()
        screen._tick()
        await pilot.pause()
        assert "ins/s" in text(pilot) and "del/s" not in text(pilot)

    with growing(tmp_path) as live:
        live.second()
        look(live.run, check, clock=live.hand.clock)


def test_keys_of_a_replay_say_that_this_is_live(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        for key in ("left_square_bracket", "right_curly_bracket", "comma", "full_stop", "g"):
            await pilot.press("n", key)
            assert "this is live" in text(pilot)

    with growing(tmp_path) as live:
        live.second()
        look(live.run, check, clock=live.hand.clock)


def test_a_mark_is_asked_of_the_engine_and_its_answer_is_shown(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("m", *"here", "enter")
        for _ in range(600):  # `bench mark` is a process; this run has no engine that listens
            await pilot.pause(0.05)
            if "marking" not in text(pilot):
                break
        (notice,) = [row for row in text(pilot).splitlines()[-4:] if "engine" in row]
        assert pilot.app.screen is screen and notice

    with growing(tmp_path) as live:
        live.second()
        look(live.run, check, clock=live.hand.clock)


# -- a replay


def test_each_key_of_the_last_row_does_something_in_a_replay(recording: Path) -> None:
    expected = {
        "space": "HELD",
        "n": "STALL delete 0.0s so far",
        "enter": " STALL ",
        "left_square_bracket": "00:00:07",
        "comma": "REPLAY x1 ",
        "question_mark": "keys of this screen",
    }
    pressed: list[str] = []

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("full_stop")
        assert "REPLAY x2 " in text(pilot)
        for key, _ in screen.shown_keys():
            if key == "q":
                continue
            before = text(pilot)
            await pilot.press(key)
            await pilot.pause()
            assert text(pilot) != before, key
            assert expected[key] in text(pilot), (key, text(pilot))
            if len(pilot.app.screen_stack) > 1:
                await pilot.press("escape")
                await pilot.pause()
            elif key == "space":
                await pilot.press(key)
            pressed.append(key)
        assert pressed == list(expected)
        await pilot.press("q")
        assert pilot.app._exit

    replay(recording, check, at_s=6)


def test_a_replay_is_moved_by_time(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert "00:00:05" in text(pilot)
        for key, shown in (
            ("right_square_bracket", "00:00:06"),
            ("left_square_bracket", "00:00:05"),
            ("right_curly_bracket", "qr100"),
            ("left_curly_bracket", "00:00:05"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert shown in text(pilot).splitlines()[0], key
        await pilot.press("g", *"0:09.5", "enter")
        await pilot.pause()
        assert "00:00:09" in text(pilot) and "STALL" in text(pilot)
        for wrong in ("soon", "inf", "nan", "1e999", ":"):
            await pilot.press("g", *wrong, "enter")
            await pilot.pause()
            assert f"{wrong}: give seconds, mm:ss or hh:mm:ss" in text(pilot)
        await pilot.press("g", "escape")
        await pilot.pause()
        assert pilot.app.screen is screen and "00:00:09" in text(pilot)

    replay(recording, check, at_s=5)


def test_a_replay_goes_from_stall_to_stall(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("n")
        assert "STALL delete 0.0s" in text(pilot)
        await pilot.press("n")
        await pilot.pause()
        assert "!insert" in text(pilot) and "!delete" in text(pilot)
        await pilot.press("n")
        assert "no stall further on" in text(pilot)
        await pilot.press("right_curly_bracket", "right_curly_bracket", "N")
        await pilot.pause()
        assert "!insert" in text(pilot)
        await pilot.press("left_curly_bracket", "N")
        assert "no stall before" in text(pilot)

    replay(recording, check, at_s=1)


def test_a_replay_plays_by_its_clock_and_stands_while_it_is_held(recording: Path) -> None:
    hand = Hand()

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        hand.at_ns += 2 * SECOND_NS
        screen._tick()
        assert "00:00:02" in text(pilot)
        await pilot.press("full_stop", "full_stop")
        hand.at_ns += 2 * SECOND_NS
        screen._tick()
        assert "REPLAY x4" in text(pilot) and "00:00:10" in text(pilot)
        await pilot.press("space")
        shown = text(pilot)
        hand.at_ns += 60 * SECOND_NS
        screen._tick()
        assert text(pilot) == shown and "HELD" in shown

    replay(recording, check, at_s=0, clock=hand.clock)


def test_another_cell_is_opened_in_the_same_screen(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        app = pilot.app
        assert isinstance(app, Bench)
        app.replay(recording, STALLED, "l.i1")
        await pilot.pause()
        assert "REPLAY x1" in text(pilot) and " l.i1 " in text(pilot) and ", . speed" in text(pilot)
        app.look_at(recording)
        await pilot.pause()
        assert "FINISHED" in text(pilot) and ", . speed" not in text(pilot)
        app.replay(recording, "no such cell")
        await pilot.pause()
        shown = text(pilot)
        assert "cell no such cell has not been run" in " ".join(shown.split())
        assert "STALL" not in shown and "role" not in shown.replace("i role", "")  # nothing of the run before

    look(recording, check)


def test_a_position_is_told_to_other_screens(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert screen.picture is not None and screen.picture.step is not None
        assert pilot.app.position() == (screen.picture.step.id, screen.picture.at_ns)  # type: ignore[attr-defined]

    replay(recording, check, at_s=3)
