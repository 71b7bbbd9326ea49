"""The attributions of each step of a run of two builds, as a comparison has them."""

from __future__ import annotations

from pathlib import Path

from engine.analysis.answer.compare import compared_cells
from engine.analysis.causes.attribution import attributions
from engine.analysis.causes.time_parts import Attribution
from engine.analysis.ratios import measured_ratios, verdicts


def attributions_of(run: Path) -> dict[str, Attribution]:
    cells = compared_cells([run])
    return {row.step: row for row in attributions(cells, verdicts.ratios(cells, measured_ratios.measured(cells)))}
