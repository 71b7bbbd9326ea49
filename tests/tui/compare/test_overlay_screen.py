"""From a line of Compare: two rates over each other, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.support.screens import compared, on_line, printed, show_compare, text_of, until
from tui.compare.overlay_screen import OverlayScreen

pytestmark = pytest.mark.slow  # opens the interface


@pytest.mark.slow
def test_two_rates_lie_over_each_other_by_time_and_by_work(recording: Path) -> None:
    async def by_time(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("o")
        screen = pilot.app.screen
        assert isinstance(screen, OverlayScreen)
        await until(pilot, lambda: screen._sides is not None)

    async def by_work(pilot: Pilot[Any]) -> None:
        await by_time(pilot)
        await pilot.press("o")

    async def others(pilot: Pilot[Any]) -> None:
        await by_work(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, OverlayScreen)
        await pilot.press("i")
        assert "delete rows/s" in text_of(pilot)
        await pilot.press("right")
        await until(pilot, lambda: screen._sides is not None)
        assert "#2" in text_of(pilot).splitlines()[1]
        await pilot.press("left", "left")
        await until(pilot, lambda: screen._sides is not None)
        assert "#3" in text_of(pilot).splitlines()[1]
        await pilot.press("r")
        await until(pilot, lambda: "REPLAY" in text_of(pilot))

    show_compare(recording, by_time, held_to="compare-overlay-time")
    show_compare(recording, by_work, held_to="compare-overlay-work")
    show_compare(recording, others)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "form", "begins"), [("e", "html", "<!DOCTYPE html>"), ("H", "md", "**")])
def test_the_report_is_written_and_its_path_told(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, form: str, begins: str
) -> None:
    monkeypatch.chdir(tmp_path)
    to = tmp_path / f"{recording.name}-report.{form}"

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        await pilot.press(key)
        await until(pilot, lambda: " MB" in text_of(pilot))

    shown = "".join(show_compare(recording, script).split())
    assert str(to) in shown
    assert to.read_text().startswith(begins)
    assert printed("compare", str(recording), "--md").splitlines()[-1] in to.read_text() or form == "html"
