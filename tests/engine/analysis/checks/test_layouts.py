"""Differences small enough to be those of two binaries of any source."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.analysis.answer.compare import compared_cells
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.checks import layouts
from engine.analysis.ratios import measured_ratios, verdicts
from engine.core.model import Build
from tests.support.journal import make_run

EFFECTS = {("17.0", "l.i0"): 0.993, ("17.0", "l.i1"): 0.97}


def compared(path: Path, alike: Callable[[Build], Build]) -> ComparedCells:
    """17.0 is slower by 0.7% in one step and by 3% in another; the margin is half a percent."""
    cells = compared_cells([make_run(path, effects=EFFECTS, repeats=5, noise=0.0005)])
    (run,) = cells.runs
    known = tuple(map(alike, run.manifest.builds))
    return replace(cells, margin=0.005, runs=(replace(run, manifest=replace(run.manifest, builds=known)),))


def test_a_difference_within_layouts_reach_is_reported(tmp_path: Path) -> None:
    cells = compared(tmp_path / "r", lambda build: replace(build, provenance="source"))
    (said,) = layouts.findings(cells, verdicts.ratios(cells, measured_ratios.measured(cells)))
    assert said.startswith("l.i0: 17.0 differs from 16.3 by less than 1%, ") and ":layout1" in said
    cells = compared(tmp_path / "s", lambda build: build)
    (said,) = layouts.findings(cells, verdicts.ratios(cells, measured_ratios.measured(cells)))
    assert said.endswith("16.3 and 17.0 cannot be linked in another order, so the verdict is for these binaries")


def test_one_binary_has_one_layout(tmp_path: Path) -> None:
    cells = compared(tmp_path / "r", lambda build: replace(build, digest="d"))
    assert layouts.findings(cells, verdicts.ratios(cells, measured_ratios.measured(cells))) == []
