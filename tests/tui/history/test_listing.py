"""History with runs that were driven in slices: they are marked, found, and behave as others do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support.screens import dated_run, row_with, show_history
from tests.support.totals import made_slices

pytestmark = pytest.mark.slow  # opens the interface

RATES = {"16.3": 8000.0, "17.0": 7600.0}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with a run of whole cells, and one in slices."""
    dated_run(tmp_path, "20261119-100000-16.3-17.0", repeats=1)
    slices = partial(made_slices, rate_per_s=RATES)
    dated_run(tmp_path, "20261120-100000-16.3-17.0", repeats=1, slices=slices)
    return tmp_path


def test_a_run_in_slices_is_marked_and_one_of_whole_cells_is_not(out: Path) -> None:
    wide = show_history(out, size=(130, 36))
    assert "slices" in wide.splitlines()[2]
    assert row_with(wide, " 50 ms ", "2/2").startswith(">"), "the newest, and no other"
    text = show_history(out)
    assert "g24b 100000, slices 50 ms, 1 client" in text
    assert "slices" not in show_history(out, "down").splitlines()[-2], "the line about the other run"
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_column_takes_no_room_from_the_builds(tmp_path: Path) -> None:
    builds = ("12.11-prebuilt", "16.3-prebuilt")
    rates = dict.fromkeys(builds, 8000.0)
    dated_run(tmp_path, "20261120-100000-12.11-16.3", builds=builds, repeats=1,
         slices=lambda cell, step: made_slices(cell, step, rates))  # fmt: skip
    show_history(tmp_path, held_to="history-slices")


def test_its_cells_are_flagged(out: Path) -> None:
    text = show_history(out, "enter")
    assert text.count("slices 50 ms") >= 8
    assert "slices 50 ms" not in show_history(out, "down", "enter")
    both = show_history(out, "c", size=(130, 30))
    assert sum("slices 50 ms" in line for line in both.splitlines()[2:18]) == 8
