"""Every screen at every size and in every set of glyphs: as wide as the terminal, its keys in the last row.

Prose is cut on a narrow screen; at 200 columns no row is. Below 72x24 a screen has a page without keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.core.clock import Clock
from engine.tracing import stacks
from tests.conftest import unpacked
from tests.support.journal import growing
from tests.support.screens import NEW, OLD, STALLED, STOPPED, drive, stalling, text_of, until
from tui.app import Bench
from tui.marks import width
from tui.widgets.key_row import KeyRow
from tui.widgets.text_lines import Lines

SIZES = ((60, 18), (130, 36), (200, 50), (80, 24))
FRAMES = {OLD: {"PostgresMain;ExecDelete": 40, "PostgresMain;pg_plan_query": 40}, NEW: {"PostgresMain;ExecDelete": 40}}


@dataclass(frozen=True, slots=True)
class Case:
    """A screen over a run: its mode, what is replayed in it, keys, and the words awaited before each and at the end."""

    mode: str
    words: str
    keys: tuple[tuple[str, str], ...] = ()
    run: str = "two-builds"
    replayed: tuple[str, str] | None = None


def at(seconds: str) -> tuple[tuple[str, str], ...]:
    """Keys that pause a replay at a time of its step."""
    return (("space", "REPLAY"), ("g", "REPLAY"), *((key, "Go to a time") for key in (*seconds, "enter")))


L_I1 = (STALLED, "l.i1")
CASES = {
    "launch": Case("launch", "preflight"),
    "live": Case("live", "qr100"),
    "live-replay": Case("live", "l.i1", at("10"), replayed=L_I1),
    "live-stalled": Case("live", "STALL", run="growing"),
    "live-detail": Case("live", "depth", (*at("13"), ("enter", "l.i1")), replayed=L_I1),
    "live-interleaved": Case("live", "qr100", run="interleaved"),
    "compare": Case("compare", "Comparable?"),
    "compare-cells": Case("compare", "the chosen cell", (("enter", "Comparable?"),)),
    "compare-overlay": Case("compare", "time", (("o", "Comparable?"),)),
    "compare-slices": Case("compare", "blocks", (("end", "Comparable?"), ("l", "qr100")), run="in-slices"),
    "flame": Case("compare", "ExecDelete", (("end", "Comparable?"), ("f", "qr100"), ("enter", "role"))),
    "history": Case("history", "finished"),
    "history-cells": Case("history", "qr100", (("enter", "finished"),)),
    "probes": Case("probes", "probe"),
}


@contextmanager
def run_of(case: Case, tmp_path: Path) -> Iterator[tuple[Path, Clock]]:
    if case.run == "growing":
        with growing(tmp_path) as live:
            stalling(live)
            yield live.run, live.hand.clock
        return
    run = unpacked(case.run, tmp_path / "20261120-131303-14.10_prebuilt-16.3_prebuilt")
    for place, label in enumerate((OLD, NEW) if case.run == "two-builds" else ()):
        stacks.write_folded(run / "cells" / f"00{place + 1}-{label}-auto-r1", "qr100", "query", FRAMES[label])
    yield run, STOPPED


def check(app: Bench, columns: int, rows: int) -> None:
    strips = list(app.screen._compositor.render_strips(app.size))
    shown = "\n".join(strip.text for strip in strips)
    assert [strip.cell_length for strip in strips] == [columns] * rows
    lines = [(widget, spans) for widget in app.screen.query(Lines) for spans in widget.lines]
    assert columns < 200 or not [spans for widget, spans in lines if 0 < widget.size.width < width(spans)], shown
    assert app.context.glyphs.name != "ascii" or shown.isascii(), [char for char in shown if not char.isascii()]
    if f"have {columns}x{rows}" in shown:
        assert columns < 72
        return
    (row,) = app.screen.query(KeyRow)
    assert row.region.y == rows - 1 and row.keys, shown
    for key in row.keys:
        assert strips[-1].text[key.place : key.end] == f"{key.display} {key.description}"


@pytest.mark.parametrize("glyphs", ["braille", "block", "ascii"])
@pytest.mark.parametrize("name", CASES)
def test_a_screen_fills_every_terminal(tmp_path: Path, name: str, glyphs: str) -> None:
    case = CASES[name]

    async def script(pilot: Pilot[Any]) -> None:
        for key, words in (*case.keys, ("", case.words)):
            await until(pilot, lambda words=words: words in text_of(pilot))  # type: ignore[misc]
            await pilot.press(*filter(None, (key,)))
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            await pilot.pause(0.2)
            check(pilot.app, columns, rows)  # type: ignore[arg-type]

    with run_of(case, tmp_path) as (run, clock):
        drive(script, run, run.parent, screen=case.mode, glyphs=glyphs, clock=clock, replayed=case.replayed)
