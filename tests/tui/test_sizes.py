"""Every screen at every size, in braille and in ASCII: as wide as the terminal, its keys in the last row.

Prose is cut on a narrow screen; at 200 columns no row is. Below 72x24 a screen has a page without keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.cases import CASES, open_case, run_of
from tests.support.screens import drive
from tui.app import Bench
from tui.marks import width
from tui.widgets.key_row import KeyRow
from tui.widgets.text_lines import Lines

pytestmark = pytest.mark.slow  # opens the interface

# The layout does not depend on the characters.
SIZES = {
    "braille": ((60, 18), (130, 36), (200, 50), (20, 5), (72, 24), (2, 1), (80, 24)),
    "ascii": ((60, 18), (200, 50), (72, 24)),
}


def check(app: Bench, columns: int, rows: int) -> None:
    strips = list(app.screen._compositor.render_strips(app.size))  # noqa: SLF001
    shown = "\n".join(strip.text for strip in strips)
    assert [strip.cell_length for strip in strips] == [columns] * rows
    lines = [(widget, spans) for widget in app.screen.query(Lines) for spans in widget.lines]
    assert columns < 200 or not [spans for widget, spans in lines if 0 < widget.size.width < width(spans)], shown
    assert app.context.glyphs.name != "ascii" or shown.isascii(), [char for char in shown if not char.isascii()]
    if app.screen.has_class("-small"):
        assert columns < 72 and (columns < 60 or "need" in shown or app.current_mode == "history"), shown
        return
    (row,) = app.screen.query(KeyRow)
    assert row.region.y == rows - 1 and row.keys, shown
    for key in row.keys:
        assert strips[-1].text[key.place : key.end] == f"{key.display} {key.description}"


@pytest.mark.parametrize("glyphs", SIZES)  # blocks have but other charts than braille
@pytest.mark.parametrize("name", CASES)
def test_a_screen_fills_every_terminal(tmp_path: Path, name: str, glyphs: str) -> None:
    case = CASES[name]

    async def script(pilot: Pilot[Any]) -> None:
        await open_case(pilot, case)
        for columns, rows in SIZES[glyphs]:
            await pilot.resize_terminal(columns, rows)
            for left in reversed(range(50)):  # it is laid out anew some time after
                await pilot.pause(0.2)
                try:
                    check(pilot.app, columns, rows)  # type: ignore[arg-type]
                    break
                except AssertionError:
                    if not left:
                        raise

    with run_of(case, tmp_path) as (run, clock):
        drive(script, run, run.parent, screen=case.mode, glyphs=glyphs, clock=clock, replayed=case.replayed)
