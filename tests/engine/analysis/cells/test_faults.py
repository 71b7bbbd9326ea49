"""Failures of a build beside its ratios: by its cells, and by its baseline's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.analysis.answer.compare import compare
from engine.analysis.cells import faults
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from tests.support.journal import make_run


def test_failed_cells_count_unless_the_baselines_failed(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", repeats=4, failed={1: "killed", 2: "killed", 3: "killed"})])
    assert [cell.repeat for cell in faults.failed(comparison, "17.0")] == [1, 2]
    assert [cell.repeat for cell in faults.lost(comparison, "17.0")] == [1]
    assert (faults.cells_of(comparison, "17.0"), faults.cells_of(comparison, "16.3")) == (4, 4)


def test_cells_that_finished_alone_are_not_lost(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", failed={1: "killed"}, slices=lambda cell, step: ())])
    assert [(cell.name, cell.state) for cell in comparison.remarks.left_out] == [("16.3", "alone"), ("17.0", "failed")]
    assert faults.lost(comparison, "16.3") == [] and len(faults.lost(comparison, "17.0")) == 1


def test_slas_are_by_cell_and_of_steps_that_have_one(tmp_path: Path) -> None:
    def late(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        missed = step == "qr100" and (cell.subject.build, cell.repeat) == ("17.0", 2)
        return replace(totals, seconds=totals.seconds * 1.4) if missed else totals

    comparison = compare([make_run(tmp_path / "r", change=late)])
    assert [sla.passed for sla in faults.slas(comparison, "17.0", "qr100").values()].count(False) == 1
    assert not faults.slas(comparison, "17.0", "qr100")["r", 2].passed and faults.slas(comparison, "17.0", "l.x") == {}
    assert faults.without(comparison, "17.0", "qr100") == faults.idle(comparison, "17.0", "qr100") == 0
