"""The pointer of the Live screen, by keys and by the mouse: columns, parts, the ribbon, roles and the log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from engine.view.step_series import SECOND_NS
from tests.support.journal import START_NS, growing
from tests.support.screens import place_of, replay, show_live, stalling, text_of
from tui.live.screen import LiveScreen
from tui.live.stall_screen import StallScreen
from tui.widgets.chart import RateChart
from tui.widgets.scaled_chart import SCALE_CELLS


async def press(pilot: Pilot[Any], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.pause()
    await pilot.pause()
    return text_of(pilot)


async def at(pilot: Pilot[Any], kind: type[events.MouseEvent], x: int, y: int) -> str:
    """The mouse, with no widget of its own to tell it."""
    moved = kind(None, x, y, 0, 0, 1, False, False, False, screen_x=x, screen_y=y)
    pilot.app.screen._forward_event(moved)  # noqa: SLF001
    await pilot.pause()
    await pilot.pause()
    return text_of(pilot)


def test_a_column_is_read_out_to_the_figures_of_the_journal(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        assert "med60" in text_of(pilot)
        shown = await press(pilot, "left")
        assert "0:59" in shown.splitlines()[3] and "ins/s 1059" in shown and "longest 400 us" in shown
        shown = await press(pilot, "left", "left")
        assert "ins/s 105" in shown and "│" in shown
        shown = await press(pilot, "shift+left", "shift+left", "shift+left", "shift+left", "shift+left", "shift+left")
        assert "0:08" in shown.splitlines()[3] and "ins/s 1008 (1008 to 1009)" in shown
        for _ in range(3):
            shown = await press(pilot, "shift+left")
        assert "0:00" in shown.splitlines()[3] and "ins/s 1000" in shown, "it stays on the axis"
        shown = await press(pilot, "escape")
        assert "med60" in shown and "│" not in shown

    with growing(tmp_path, work=61_770) as live:  # all of it
        for second in range(60):
            live.second(insert=1000 + second)
        show_live(live.run, check, clock=live.hand.clock)


def test_the_readouts_base_is_of_the_shown_role(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        bases = []
        for _ in range(2):
            await press(pilot, "left", "i")
            shown = text_of(pilot).splitlines()[3]
            screen.redraw()
            await pilot.pause()
            assert text_of(pilot).splitlines()[3] == shown and " base " in shown
            bases.append(shown.split(" base ")[1].split()[0])
        assert bases[0] != bases[1]

    replay(recording, check, at_s=9, step="l.i1")


def test_the_mouse_reads_out_zooms_and_chooses(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        chart = screen.query_one("#chart").region
        assert "0:" in (await at(pilot, events.MouseMove, chart.x + 20, chart.y + 1)).splitlines()[3]
        assert "med60" in await at(pilot, events.MouseMove, 2, 0), "and what it is over no longer is read out no longer"
        await at(pilot, events.MouseDown, chart.x + 10, chart.y + 1)
        shown = await at(pilot, events.MouseUp, chart.x + 40, chart.y + 2)
        full_s, part = 120.0, screen.pointer.part
        assert part is not None
        width = full_s / chart.width
        assert [(edge - START_NS) / SECOND_NS for edge in part] == pytest.approx([10.5 * width, 40.5 * width])
        assert "0:17-1:06" in shown.splitlines()[3], shown
        assert "0-2m00s" in await press(pilot, "z"), "z shows the whole again"
        await at(pilot, events.MouseScrollUp, chart.x + 30, chart.y)
        assert screen.pointer.part is not None
        await at(pilot, events.MouseScrollDown, chart.x + 30, chart.y)
        assert screen.pointer.part is None
        ribbon = screen.query_one("#ribbon").region
        x = ribbon.x + text_of(pilot).splitlines()[ribbon.y].index("!")
        await at(pilot, events.MouseDown, x, ribbon.y)
        await at(pilot, events.MouseUp, x, ribbon.y)
        assert screen.playback.stall is not None and screen.playback.stall.role == "delete"
        await pilot.click(offset=place_of(pilot, "! STALL delete"), times=2)
        await pilot.pause()
        assert isinstance(pilot.app.screen, StallScreen) and " STALL  delete" in text_of(pilot)
        await press(pilot, "escape")
        await pilot.click(offset=place_of(pilot, " delete    4101"))
        assert "del/s" in (await press(pilot, "escape")).splitlines()[3]

    with growing(tmp_path) as live:
        for _ in range(20):
            live.second()
        stalling(live)
        show_live(live.run, check, clock=live.hand.clock)


def test_a_drag_off_one_chart_is_ignored(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        chart, times = screen.query_one("#chart").region, screen.query_one("#slowest").region
        for one, other in (
            ((chart.x - SCALE_CELLS, chart.y), (chart.x + 9, chart.y)),
            ((chart.x + 9, chart.y), (times.x + 19, times.y)),
        ):
            await at(pilot, events.MouseDown, *one)
            await at(pilot, events.MouseUp, *other)
            assert screen.pointer.part is None
        await at(pilot, events.MouseDown, chart.x + 9, chart.y)
        assert "too short to zoom to" in await at(pilot, events.MouseUp, chart.x + 10, chart.y)

    with growing(tmp_path) as live:
        live.second()
        show_live(live.run, check, clock=live.hand.clock)


def test_the_log_scrolls_and_keeps_its_place(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        newest = text_of(pilot).splitlines()[-3:-1]
        shown = await press(pilot, "down", "down")
        assert shown.splitlines()[-4] != newest[0] and newest[0] not in shown
        assert newest[0] in await press(pilot, "home")
        log = screen.query_one("#events").region
        await at(pilot, events.MouseScrollDown, log.x + 5, log.y)
        assert newest[0] not in text_of(pilot)
        top = screen.painter.log.top
        screen.repaint()
        await pilot.pause()
        assert screen.painter.log.top == top
        text = await press(pilot, "home", "l")
        assert text.count("autovacuum") + text.count("autoanalyze") > 12, "the log has the screen for itself"
        oldest = (await press(pilot, "end")).splitlines()
        assert any("13:15:5" in row for row in oldest) and "role" not in "".join(oldest[:-1])
        assert " role  " in await press(pilot, "l")

    show_live(recording, check)


def test_the_heat_map_shows_how_long_operations_took(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        shown = await press(pilot, "h")
        assert "64us" in shown and "ms " in shown
        assert sum(shown.count(shade) for shade in "░▒▓█") > 100
        assert "64us" not in await press(pilot, "h")

    show_live(recording, check, size=(130, 40))


def test_a_large_terminal_adds_plan_chart_waits_and_minute(recording: Path) -> None:
    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.pause()
        shown = text_of(pilot)
        assert "│─ plan ─" in shown and " 6/6 cells; qr100 in q/s ─" in shown and "ok   4 r2 14.10-prebuilt" in shown
        for words in ("server CPU, % ", "waits  c on CPU", "last minute, mean", "disk writes MB/s"):
            assert words in shown, words
        assert "run queue, waiting " in await press(pilot, "c")

    for size in ((130, 40), (200, 50)):
        show_live(recording, check, size=size)


def test_a_cell_in_preparation_has_the_plan_for_charts(tmp_path: Path) -> None:
    async def check(pilot: Pilot[Any], _: LiveScreen) -> None:
        shown = text_of(pilot)
        assert "starting the server" in shown and "plan  1/3 cells" in shown
        assert ">   2 r1 17.0" in shown and "next   3 r1 18.0" in shown and "ok   1 r1 16.3" in shown

    with growing(tmp_path, builds=("16.3", "17.0", "18.0"), begun=False) as live:
        show_live(live.run, check, clock=live.hand.clock)


@pytest.mark.parametrize("size", [(72, 24), (79, 24), (80, 24), (130, 40)])
def test_the_chart_has_its_height_from_the_first_paint_on(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    heights: list[int] = []
    drawn = RateChart.show

    def show(chart: RateChart, *arguments: Any, **options: Any) -> None:
        if chart.id == "chart" and chart.size.height:
            heights.append(chart.size.height)
        drawn(chart, *arguments, **options)

    monkeypatch.setattr(RateChart, "show", show)

    async def check(pilot: Pilot[Any], screen: LiveScreen) -> None:
        await pilot.pause()
        assert len(set(heights)) == 1, heights
        rows = text_of(pilot).splitlines()
        assert not [row for row in rows if row.startswith(" role") and not re.search(r"age s *(│|$)", row)]

    with growing(tmp_path) as live:
        stalling(live)
        show_live(live.run, check, size=size, clock=live.hand.clock)
