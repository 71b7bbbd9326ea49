"""Behind a line of Compare: every cell, its stalls and causes, its replay, and the keys there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.journal import make_run
from tests.support.screens import NEW, on_line, show_compare, text_of, until
from tui.compare.cells_screen import CellsScreen
from tui.compare.screen import CompareScreen

pytestmark = pytest.mark.slow  # opens the interface


def test_enter_opens_every_cell_with_stalls_and_checks(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("enter", "down")
        assert isinstance(pilot.app.screen, CellsScreen)

    show_compare(recording, script, held_to="compare-cells")

    async def further(pilot: Pilot[Any]) -> None:
        await script(pilot)
        seen = text_of(pilot)
        for _ in range(4):
            await pilot.press("pagedown")
            seen += text_of(pilot)
        for wanted in ("process 5879 of the insert backend is stopped", "hung: insert backend stopped by a signal",
                       "do_signal_stop < get_signal", "16.3-prebuilt: PostgreSQL 16.3, prebuilt",
                       "ok kernel: 6.18.44", "? other load: at most 50% of the CPUs", "ok work: equal"):  # fmt: skip
            assert wanted in seen
        await pilot.press("pageup", "pageup", "pageup", "pageup", "up")
        assert "14.10-prebuilt repeat 1, cell 001" in text_of(pilot)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, CompareScreen)

    show_compare(recording, further)


@pytest.mark.slow
def test_a_missed_sla_and_a_withheld_verdict_show_figures(tmp_path: Path) -> None:
    from dataclasses import replace

    def late(cell: Any, step: str, totals: Any) -> Any:
        missed = step == "qr100" and cell.subject.build == "17.0" and cell.repeat == 2
        return replace(totals, seconds=totals.seconds * 1.4) if missed else totals

    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "qr100", "rate_per_s")
        assert re.search(r"qr100 queries/s, 17.0: \?0\.\d+ \S+ withheld", text_of(pilot))
        assert "SLA: 17.0 kept up its insert rate in 2 of 3 cells" in text_of(pilot)
        await on_line(pilot, "qr100", "sla")
        assert "x 70% 2/3 against   ok 3/3" in text_of(pilot)
        await pilot.press("enter", "down", "down", "down")
        assert "x 70%" in text_of(pilot)
        assert "x missed SLA: 70.3 of 100 rows/s inserted, 95 required" in text_of(pilot)
        assert "withheld: SLA: 17.0 kept up its insert rate in 2 of 3 cells" in text_of(pilot)

    show_compare(make_run(tmp_path / "r", change=late), script)


def test_a_cell_opens_in_live_as_a_replay(recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("enter", "down", "enter")
        await until(pilot, lambda: "REPLAY" in text_of(pilot))
        assert pilot.app.current_mode == "live"
        assert NEW in text_of(pilot).splitlines()[1]
        assert "l.i1" in text_of(pilot).splitlines()[1]
        await pilot.press("3")
        assert isinstance(pilot.app.screen, CompareScreen)

    show_compare(recording, script)
