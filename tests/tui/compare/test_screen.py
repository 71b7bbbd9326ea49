"""Compare: the judgement as `bench compare` gives it, and the keys that move, sort and choose in its table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.journal import make_run
from tests.support.screens import NEW, compared, on_line, printed, show_compare, text_of, until
from tui.glyphs import SETS

pytestmark = pytest.mark.slow  # opens the interface


def test_the_screen(recording: Path) -> None:
    show_compare(recording, held_to="compare")


@pytest.mark.slow
def test_signs_numbers_and_verdicts_are_those_of_bench_compare(recording: Path) -> None:
    table = printed("compare", str(recording)).split("Planning a DELETE")[0]
    rows = re.findall(r"^\S+ +[\d,]+ +[\d,]+ (\S)(\d\.\d+) +(\S+) (\w+(?:, \+\d+ pairs?)?)", table, re.M)
    assert len(rows) == 4
    shown = show_compare(recording, size=(130, 36))
    for sign, ratio, interval, words in rows:
        words = re.sub(r"undecided, \+(\d+ )", r"needs \1more ", words)
        assert f"{sign} {ratio} {interval} {words}" in shown


def test_the_screen_shows_three_subjects_and_the_control(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "r", builds=("16.3", "17beta1-builtin", "17.0"), repeats=3, aa=True,
        effects={("17beta1-builtin", "l.i0"): 0.856, ("17.0", "l.i1"): 1.1},
    )  # fmt: skip
    show_compare(run, held_to="compare-four")


def test_moving_shows_the_cells_and_causes_of_the_line(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "server_cpu_us_per_op")
        shown = text_of(pilot)
        assert "l.i1 server CPU us/op, every cell" in shown
        assert re.search(r"cpu us/row +[\d.]+ → [\d.]+ +~ 1\.094", shown)
        assert "l.i1 cpu us/row, 16.3-prebuilt: ~1.094 1.043-1.148 no less among 4" in shown
        assert "! 4.2s insert" in shown
        await pilot.press("end")
        assert re.search(r"^>qr100 sla +ok 3/3 +ok 3/3", text_of(pilot), re.M)
        last = text_of(pilot)
        await pilot.press("pageup")
        assert not re.search("^>qr100 sla", text_of(pilot), re.M)
        await pilot.press("pagedown")
        assert text_of(pilot) == last
        await pilot.press("home")
        assert re.search("^>l.i0", text_of(pilot), re.M)

    show_compare(recording, script)


def test_arrow_keys_choose_the_subject(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", builds=("16.3", "17.0", "18.1"), aa=True)

    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        names = []
        for _ in range(4):
            names.append(screen.chosen and screen.chosen[2].name)
            await pilot.press("right")
        assert names == ["17.0", "18.1", "16.3 A/A", "16.3 A/A"]
        await pilot.press("left")
        assert "why l.i0: base → 18.1" in text_of(pilot)
        await pilot.press("tab", "down")
        assert "why l.i0: base → 16.3 A/A" in text_of(pilot)
        await pilot.press("shift+tab", "down")
        assert screen.chosen is not None
        assert screen.chosen[1].metric == "server_cpu_us_per_op"

    show_compare(run, script)


def test_another_base_turns_the_ratios_round(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        await pilot.press("b", "down", "enter")
        await until(pilot, lambda: screen.comparison is not None and screen.comparison.base == NEW)
        assert "base 16.3-prebuilt" in text_of(pilot).splitlines()[1]
        assert re.search(r">l.i0 +rows/s +\d+k +~ 1\.134", text_of(pilot))
        await pilot.press("b", "escape")
        assert screen.comparison is not None
        assert screen.comparison.base == NEW

    show_compare(recording, script)


def test_lines_are_sorted_found_and_chosen(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        await pilot.press("s")
        assert "by effect" in text_of(pilot)
        assert screen.listed[0].step == "qr100"  # its WAL per query differs most
        await pilot.press("s")
        assert "worst first" in text_of(pilot)
        assert (screen.listed[0].step, screen.listed[0].metric) == ("l.i1", "stalls")
        await pilot.press("s", "slash", *"l.i1 cpu less", "enter")
        assert [(row.step, row.metric) for row in screen.listed] == [("l.i1", "server_cpu_us_per_op")]
        assert "/l.i1 cpu less" in text_of(pilot)
        await pilot.press("slash", "escape")
        assert len(screen.listed) == 1
        await pilot.press("slash", *(["backspace"] * 13), *"nowhere", "enter")
        assert "no line matches the filter" in text_of(pilot)
        await pilot.press("enter", "f")
        assert "no ratio selected" in text_of(pilot)
        await pilot.press("slash", *(["backspace"] * 7), "enter", "c", "a", "enter")
        assert len({row.metric for row in screen.listed}) == 19
        await pilot.press("c", "a", "down", "down", "down", "x", "enter")
        assert {row.metric for row in screen.listed} == {"rate_per_s", "ctx_switches_per_op"}
        assert "switch/row" in text_of(pilot)

    show_compare(recording, script)


def test_the_glyphs_are_told_apart_in_every_set() -> None:
    for glyphs in SETS.values():
        assert len({glyphs.better, glyphs.worse, "=", "~", "?"}) == 5
