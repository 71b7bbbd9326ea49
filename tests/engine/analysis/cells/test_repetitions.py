"""Times of statements that last longer than slices: their ratio, its error, and records that make no sense."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.cells import repetitions
from engine.analysis.cells.compared_cells import Pair
from engine.analysis.cells.run_results import load
from engine.analysis.ratios import slice_verdicts
from engine.core.errors import UserError
from engine.core.record import converted
from engine.journal.rows import SliceRow
from tests.support.journal import make_run
from workloads.api.report import Report

STEP = "l.x"
BASE, OTHER = [1.0, 1.1, 0.9, 1.0], [1.1, 1.2, 1.0, 1.1]
# Cut anywhere: in a slice, nothing is known of the work.
ROW = SliceRow(1, 0, 0, 0, 0, 50_000_000, 0, 0, 50_000_000, 0, 0, 0, 8, 300_000, 0, 0, 0)


def pair(path: Path, *reports: dict[str, Any], slices: tuple[SliceRow, ...] = (ROW,)) -> Pair:
    """The first pair of a made run, with these reports of its index builds."""
    cells = load(make_run(path, repeats=1)).cells
    sides = []
    for cell, report in zip(cells, reports, strict=True):
        step = replace(cell.steps[STEP], report=converted(report, Report, "a report"), slices=slices)
        sides.append(replace(cell, steps={**cell.steps, STEP: step}))
    return sides[0], sides[1]


def timed(times_s: object) -> dict[str, Any]:
    return {"timing": {"times_s": times_s}}


def test_the_ratio_of_summed_times_has_no_error_within_a_pair(tmp_path: Path) -> None:
    both = pair(tmp_path / "r", timed(BASE), timed(OTHER))
    (rate,) = slice_verdicts.log_ratios([both], STEP, "rate_per_s")
    assert rate.theta == pytest.approx(math.log(sum(BASE) / sum(OTHER))) and rate.theta < 0, "more time is less speed"
    assert rate.variance is None and rate.blocks == 4
    assert slice_verdicts.log_ratios([both], STEP, "server_cpu_us_per_op") == []
    assert slice_verdicts.own_ratios([both], STEP, "rate_per_s") == [], "there are no halves to compare"
    assert repetitions.log_ratio(BASE[:2], OTHER).theta == pytest.approx(math.log(sum(BASE[:2]) / sum(OTHER[:2])))


def test_without_slices_times_are_not_compared_one_by_one(tmp_path: Path) -> None:
    both = pair(tmp_path / "r", timed(BASE), timed(OTHER), slices=())
    assert slice_verdicts.log_ratios([both], STEP, "rate_per_s") == []


@pytest.mark.parametrize("times_s", ["1", [0.0], [5e-324], [-1.0], [1e300], {"a": 1}])
def test_times_that_make_no_sense_are_refused(tmp_path: Path, times_s: object) -> None:
    with pytest.raises(UserError, match="times_s"):
        both = pair(tmp_path / "r", timed(times_s), timed(OTHER))
        slice_verdicts.log_ratios([both], STEP, "rate_per_s")
