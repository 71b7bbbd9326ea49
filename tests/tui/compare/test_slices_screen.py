"""The way from a line of Compare to the slices of its step: each block's ratio over time, and foreign load."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.conftest import RECORDINGS
from tests.support.screens import compared, on_line, printed, show_compare, text_of, until
from tui.compare.screen import CompareScreen
from tui.compare.slices_screen import SlicesScreen

pytestmark = pytest.mark.slow  # opens the interface

STEP = "qr100"


@pytest.fixture
def in_slices(tmp_path: Path) -> Path:
    """A run of 14.10 and 16.3, two repeats, whose query step was interleaved of 50 ms; a copy of one's own."""
    run = tmp_path / "20261122-100700-14.10_prebuilt-16.3_prebuilt"
    (run / "cells").mkdir(parents=True)
    shutil.copyfile(RECORDINGS / "in-slices" / "manifest.json", run / "manifest.json")
    (run / "journal.db").write_bytes(gzip.decompress((RECORDINGS / "in-slices" / "journal.db.gz").read_bytes()))
    return run


async def opened(pilot: Pilot[Any]) -> SlicesScreen:
    await on_line(pilot, STEP, "rate_per_s")
    await pilot.press("l")
    screen = pilot.app.screen
    assert isinstance(screen, SlicesScreen)
    await until(pilot, lambda: screen.sliced_step is not None or bool(screen.problem))
    return screen


def test_the_screen(in_slices: Path) -> None:
    show_compare(in_slices, opened, held_to="compare-slices")


def test_figures_are_those_of_bench_compare(in_slices: Path) -> None:
    sliced = json.loads(printed("compare", str(in_slices), "--slices", STEP, "--json"))
    (first, second), (check,) = sliced["pairs"], sliced["checks"]
    assert len(first["blocks"]) > 20 and len(first["machine"]) > 5
    assert all(0 <= block["others_cpus"] <= block["busy_cpus"] <= first["cpus"] * 1.02 for block in first["machine"])
    assert all(block["others_cpus"] is not None for block in first["blocks"])

    async def script(pilot: Pilot[Any]) -> None:
        await opened(pilot)
        shown = text_of(pilot)
        assert f"ratio {first['ratio']:.3f} {first['low']:.3f}-{first['high']:.3f}" in shown
        assert f"typical {first['typical']:.3f}  {len(first['blocks'])} blocks" in shown
        said, leaks = " ".join(shown.split()), [100 * first[f"{side}_spill_over_share"] for side in ("base", "other")]
        assert f"errors {check['f']:.2f} x the computed ones ({check['ratios']} ratios)" in said
        assert f"CPU in the other's slices {leaks[0]:.1f}%, {leaks[1]:.1f}%" in said
        await pilot.press("right")
        assert "pair 2 of 2" in text_of(pilot).splitlines()[1]
        assert f"ratio {second['ratio']:.3f}" in text_of(pilot)
        await pilot.press("right")
        assert "pair 1 of 2" in text_of(pilot).splitlines()[1]

    show_compare(in_slices, script)


def test_the_key_is_there_where_a_step_was_sliced(in_slices: Path, recording: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, "l.i0", "rate_per_s")
        assert "l slices" not in text_of(pilot) and "s sort" in text_of(pilot)
        await pilot.press("l")
        assert isinstance(pilot.app.screen, CompareScreen)
        await on_line(pilot, STEP, "rate_per_s")
        keys = text_of(pilot).splitlines()[-1]
        assert "l slices" in keys and keys.endswith("q quit") and len(keys) <= 80
        before = text_of(pilot)
        await pilot.press("s")
        assert text_of(pilot) != before, "a key that has no room in the row holds all the same"

    show_compare(in_slices, script)

    async def steps_in_cells(pilot: Pilot[Any]) -> None:
        await compared(pilot)
        await pilot.press("l")
        assert isinstance(pilot.app.screen, CompareScreen)

    assert "l slices" not in show_compare(recording, steps_in_cells)


def test_the_title_of_compare_says_what_took_turns(in_slices: Path) -> None:
    assert "2 pairs in slices of 50 ms" in show_compare(in_slices).splitlines()[1]


def test_a_run_that_goes_under_it_is_one_clear_line(in_slices: Path) -> None:
    async def script(pilot: Pilot[Any]) -> None:
        await on_line(pilot, STEP, "rate_per_s")
        (in_slices / "manifest.json").write_text("{")
        await opened(pilot)
        assert "manifest.json: cannot be read" in " ".join(text_of(pilot).split())

    assert re.search(r"SLICES +qr100", show_compare(in_slices, script))
