"""The Live screen of interleaved cells: under way, over, replayed, and with a stall of one of them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.view.step_series import SECOND_NS
from tests.support.journal import Growing, interleaved
from tests.support.screens import Act, check_screen, show_live, text_of, unmoved
from tui.glyphs import SETS
from tui.live.screen import LiveScreen
from tui.live.side import schedule
from tui.live.stall_screen import StallScreen
from tui.marks import rule

OTHER = "002-16.3-prebuilt-auto-r1"  # of the recording, with a stall in qr100


def replay(recording: Path, act: Act[LiveScreen] = unmoved, *, at_s: float, cell: str = OTHER, **options: Any) -> None:
    """Plays a cell of the recording, with its clock held, from so many seconds into qr100 on."""

    async def placed(pilot: Pilot[Any], live: LiveScreen) -> None:
        assert live.player is not None and live.view is not None and live.view.step is not None
        live.player.seek(live.view.step.started_ns + int(at_s * SECOND_NS))
        live.repaint()
        await pilot.pause()
        await pilot.pause()
        await act(pilot, live)

    show_live(recording, placed, replayed=(cell, "qr100"), **options)


def test_screen_of_a_finished_run(sliced_recording: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        await pilot.pause()
        check_screen(pilot.app, "live-interleaved")  # type: ignore[arg-type]

    show_live(sliced_recording, check)


@pytest.mark.parametrize("size", [(72, 24), (80, 24), (100, 30), (110, 38), (160, 46)])
def test_all_rows_of_roles_are_shown_where_the_screen_is_whole(sliced_recording: Path, size: tuple[int, int]) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        await pilot.pause()
        rows = text_of(pilot).splitlines()
        at = next(place for place, row in enumerate(rows) if row.startswith((" role", " mean")))
        words = [row.split()[0] for row in rows[at + 1 : at + 6]]
        assert words == ["insert", "delete", "query", "server", "ckpt"] and rows[-1].split()[0] == "space"
        assert rows[at].partition("│")[0].rstrip().endswith(("age s", "max ms"))

    show_live(sliced_recording, check, size=size)


def test_screen_of_a_replay(sliced_recording: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        check_screen(pilot.app, "live-interleaved-replay")  # type: ignore[arg-type]

    replay(sliced_recording, check, at_s=13.5)


def test_screen_of_a_stall_of_one_of_them(sliced_recording: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        check_screen(pilot.app, "live-interleaved-stalled")  # type: ignore[arg-type]

    replay(sliced_recording, check, at_s=17.5)


def test_the_other_sides_stall_is_shown_on_its_side(sliced_recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert "! 16.3-prebuilt STALL query" in text_of(pilot) and "!query" not in text_of(pilot)
        assert "12.11-prebuilt auto" in text_of(pilot).splitlines()[1]
        assert any(row.startswith("stalls") and "○" in row for row in text_of(pilot).splitlines())
        await pilot.press("s")
        await pilot.pause()
        shown = text_of(pilot)
        assert "16.3-prebuilt auto" in shown.splitlines()[1] and "!query" in shown
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, StallScreen)
        assert " STALL  query, 3.6 s" in text_of(pilot) and "process 26859 of the query backend is" in text_of(pilot)
        await pilot.press("escape", "s")
        await pilot.pause()
        assert "! 16.3-prebuilt STALL query" in text_of(pilot)

    replay(sliced_recording, check, at_s=17.5, cell="001-12.11-prebuilt-auto-r1")


def test_the_role_that_is_drawn_stays_when_the_side_changes(sliced_recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.press("i")
        await pilot.pause()
        assert text_of(pilot).splitlines()[3].startswith(" del/s  ● 12.11-prebuilt ")
        await pilot.press("s")
        await pilot.pause()
        assert text_of(pilot).splitlines()[3].startswith(" del/s  >● 12.11-prebuilt ")

    replay(sliced_recording, check, at_s=13.5)


def test_a_leading_build_is_drawn_to_its_end_after_a_stall(sliced_recording: Path) -> None:
    """12.11 was driven for 9 of its 12 s when 16.3, which had lost 3 s of its own, was done."""

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert "12.11-prebuilt auto" in text_of(pilot).splitlines()[1]
        chart = text_of(pilot).splitlines()[4:10]
        assert any("x" in row[70:] for row in chart) and not any("o" in row[70:] for row in chart)

    replay(sliced_recording, check, at_s=22, cell="001-12.11-prebuilt-auto-r1", glyphs="ascii")


# -- under way


def fed(live: Growing, blocks: int, *ops: float) -> None:
    for block in range(blocks):
        live.block(*(count + 5 * ((block + place) % 3) for place, count in enumerate(ops)))


def test_between_steps_it_is_the_screen_of_one_cell_again(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert "17.0 / 16.3: " in text_of(pilot) and "s build" in text_of(pilot)
        for side in (0, 1):
            live.end_step(side)
        live.begin(0, "l.x", "index", 1)
        screen.tick()
        await pilot.pause()
        await pilot.pause()
        shown = text_of(pilot)
        assert "1/2 | 16.3 auto | l.x" in shown and "17.0" not in shown and "s build" not in shown
        await pilot.press("s")
        assert "no build is interleaved with this one now" in text_of(pilot)

    with interleaved(tmp_path) as live:
        fed(live, 30, 400, 380)
        show_live(live.run, check, clock=live.hand.clock)


@pytest.mark.parametrize("count", [3, 4])
def test_the_line_of_rates_has_room_for_every_build(tmp_path: Path, count: int) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        row = text_of(pilot).splitlines()[3].rstrip()
        assert len(row) <= 80 and not row.endswith("~") and len(re.findall(r"[ox+#] 1\S+ \d+", row)) == count
        if count == 3:
            check_screen(pilot.app, "live-interleaved-three")  # type: ignore[arg-type]

    builds = ("12.11-prebuilt", "14.10-prebuilt", "16.3-prebuilt", "17.0-prebuilt")[:count]
    with interleaved(tmp_path, builds=builds) as live:
        fed(live, 30, *(400, 380, 390, 300)[:count])
        show_live(live.run, check, clock=live.hand.clock, glyphs="ascii")


def test_four_builds_have_a_line_and_a_sentence_each(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        shown = text_of(pilot)
        assert all(
            f"{glyph} {build}" in shown for glyph, build in zip("ox+#", ("12.11", "14.10", "16.3", "17.0"), strict=True)
        )
        rows = [row for row in shown.splitlines() if " so far (" in row]
        assert [row.lstrip(" v=^").split()[0] for row in rows] == (
            ["14.10"] if screen.size.height == 24 else ["14.10", "16.3", "17.0"]
        )
        await pilot.press("s")
        await pilot.pause()
        rows = [row for row in text_of(pilot).splitlines() if " so far (" in row]
        assert "16.3" in [row.lstrip(" v=^").split()[0] for row in rows]

    builds = ("12.11", "14.10", "16.3", "17.0")
    with interleaved(tmp_path, builds=builds) as live:
        fed(live, 30, 400, 380, 390, 300)
        for size in ((80, 24), (80, 40)):
            show_live(live.run, check, clock=live.hand.clock, glyphs="ascii", size=size)


@pytest.mark.parametrize("columns", [36, 42, 60])
def test_the_heading_of_the_plan_has_the_end_of_the_run(columns: int) -> None:
    view: Any = SimpleNamespace(
        step=None, cells_done=3, cells=6, left_s=200.0, wall_ns=1_795_000_000 * SECOND_NS, timed=False, unit="q/s"
    )
    glyphs = SETS["ascii"]
    (heading,) = schedule(view, (), columns, 4, glyphs)
    text = "".join(part for part, _ in rule("plan", columns, glyphs, heading[1][0].strip()))
    assert len(text) == columns and "3/6 cells, ends " in text and ("(in 3m20s)" in text) == (columns == 60)
