"""The way from Compare to the statements whose plans changed: both plans side by side."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.cli.demo import PLANS
from engine.journal.archive import unpack
from engine.results.section import Section, columns, row
from tests.support.screens import compared, show_compare, text_of
from tui.compare.plans_screen import PlansScreen, plans
from tui.compare.screen import CompareScreen
from tui.glyphs import SETS
from tui.marks import width


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """A run of two releases that planned 40 statements."""
    return unpack(files("engine.cli").joinpath(PLANS).read_bytes(), "the demo", tmp_path)


@pytest.mark.slow
def test_each_changed_plan_stands_beside_the_baselines(planned: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        screen = await compared(pilot)
        assert screen.comparison is not None
        changes, keys = screen.comparison.section("plans"), text_of(pilot).splitlines()[-1]
        assert len(changes) > 1 and "more plans: p" in text_of(pilot)
        assert "p plans" in keys and keys.endswith("q quit") and len(keys) <= 80
        await pilot.press("p")
        assert isinstance(pilot.app.screen, PlansScreen)
        for change in changes:
            rows = text_of(pilot).splitlines()
            assert any(f"{change.title.partition(' (')[0]}," in row for row in rows)
            assert any(row.startswith(mark) for row in rows for mark in ("\N{NOT EQUAL TO}", "+")), change
            await pilot.press("down")
        await pilot.press("space", "pageup")
        assert text_of(pilot).splitlines() == rows, "at the last one"
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, CompareScreen)

    show_compare(planned, script, size=(80, 40))


def test_without_a_changed_plan_there_is_no_key(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        await pilot.press("p")
        assert isinstance(pilot.app.screen, CompareScreen)

    assert "p plans" not in show_compare(recording, script)


@pytest.mark.parametrize("glyphs", SETS.values(), ids=SETS)
def test_nodes_that_differ_are_marked_in_any_characters(glyphs: Any) -> None:
    rows = (
        row("\N{NOT EQUAL TO}", "Hash Join (3\N{RIGHTWARDS ARROW}400)", "Nested Loop (3\N{RIGHTWARDS ARROW}400)"),
        row("+", "", "\N{MIDDLE DOT} Memoize (1)"),
    )
    drawn = plans(Section("plans", "Plans of s", columns("", "old", "new"), rows), 60, glyphs)
    text = ["".join(part for part, _ in spans) for spans in drawn]
    assert [width(spans) <= 60 for spans in drawn] == [True] * 3
    assert text[0].split() == ["old", glyphs.bar, "new"]
    assert text[1].startswith("! Hash Join (3->400)" if glyphs.name == "ascii" else "\N{NOT EQUAL TO} Hash Join (3")
    assert text[2].split()[:2] == ["+", glyphs.bar] and all(row.isascii() for row in text) == (glyphs.name == "ascii")
