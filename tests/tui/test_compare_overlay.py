"""From a line of Compare: two rates over each other, the flame graph of what changed, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.journal.manifest import read_manifest
from engine.report import flame
from engine.tracing import stacks
from tests.support.driving_compare import NEW, OLD, bench, compare, compared, on_line, text, until
from tui.compare.overlay import OverlayScreen


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
        assert "delete rows/s" in text(pilot)
        await pilot.press("right")
        await until(pilot, lambda: screen._sides is not None)
        assert "#2" in text(pilot).splitlines()[0]
        await pilot.press("left", "left")
        await until(pilot, lambda: screen._sides is not None)
        assert "#3" in text(pilot).splitlines()[0]
        await pilot.press("r")
        await until(pilot, lambda: "REPLAY" in text(pilot))

    compare(recording, by_time, held_to="compare-overlay-time-80x24")
    compare(recording, by_work, held_to="compare-overlay-work-80x24")
    compare(recording, by_time, glyphs="ascii", held_to="compare-overlay-ascii-80x24")
    compare(recording, others)


def test_the_flame_graph_of_what_changed_is_written_and_its_path_told(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    for name in (*flame.LIBRARY, flame.STYLE):
        (library / name).write_text(f"/* {name} */")
    monkeypatch.setenv(flame.LIBRARY_VARIABLE, str(library))
    for cell in read_manifest(recording).cells:
        samples = {"main;plan": 10, f"main;of {cell.subject.build}": 5}
        stacks.write_folded(recording / "cells" / cell.id, "l.i1", "delete", samples)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("f", "down", "enter")
        await until(pilot, lambda: "open it in a browser" in " ".join(text(pilot).split()))

    shown = "".join(compare(recording, script, size=(200, 40)).split())  # paths may be long
    (page,) = here.iterdir()
    assert page.name == f"{recording.name}-l.i1-delete-{NEW}-diff.html"
    assert page.name in shown
    assert f"of {OLD}" in page.read_text()
    assert f"of {NEW}" in page.read_text()


def test_a_flame_graph_without_stacks_is_one_clear_line(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i1", "rate_per_s")
        await pilot.press("f", "enter")
        await until(pilot, lambda: "no stacks were recorded in this run" in " ".join(text(pilot).split()))

    compare(recording, script)


def test_the_report_is_written_as_markdown_and_its_path_told(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    to = tmp_path / f"{recording.name}-compare.md"

    async def script(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        await pilot.press("H")
        await until(pilot, lambda: "written:" in text(pilot))

    shown = "".join(compare(recording, script).split())
    assert str(to) in shown
    assert to.read_text() == bench("compare", str(recording), "--md")
