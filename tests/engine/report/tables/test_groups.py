"""A line for each group of steps, where there are many of several kinds."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.compare import compare
from engine.report import render
from engine.report.tables.groups import step_groups
from engine.report.tables.section import Notes, Section
from engine.results.comparison import Comparison, Ratio, Verdict
from engine.results.step_groups import groups
from tests.support.journal import make_run

FIGURES: dict[str, list[tuple[float, float, float, Verdict]]] = {
    "point": [(2.0, 1.8, 2.2, "faster"), (0.5, 0.4, 0.6, "slower"), (1.0, 0.9, 1.1, "undecided")],
    "write": [(1.0, 0.99, 1.01, "same")] * 10,
}


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """Thirteen steps of two kinds in place of a run's own."""
    found = compare([make_run(tmp_path / "run", builds=("16.3", "17.0"))])
    (other,) = found.others
    like_cell, like_ratio = found.cells[0], next(each for each in found.ratios if each.metric == "rate_per_s")
    cells, ratios = [], []
    for kind, figures in FIGURES.items():
        for place, (ratio, low, high, verdict) in enumerate(figures):
            step = f"{kind}{place}"
            cells += [replace(like_cell, subject=name, step=step, group=kind) for name in found.names]
            ratios.append(
                replace(like_ratio, step=step, subject=other.name, ratio=ratio, low=low, high=high, verdict=verdict)
            )
    steps = tuple(ratio.step for ratio in ratios)
    return replace(
        found, steps=steps, cells=tuple(cells), ratios=tuple(ratios), units=dict.fromkeys(steps, "queries/s")
    )


def lines(comparison: Comparison) -> list[tuple[str, ...]]:
    (section,) = step_groups(comparison, Notes())
    assert isinstance(section, Section)
    return [cells for cells, _ in section.rows]


def test_a_group_has_its_mean_its_extremes_and_its_verdicts(comparison: Comparison) -> None:
    low, high = ((a * b * c) ** (1 / 3) for a, b, c in ((1.8, 0.4, 0.9), (2.2, 0.6, 1.1)))
    assert lines(comparison) == [
        ("point", "3", "1.000", f"{low:.3f}-{high:.3f}", "0.500", "2.000", "1 faster, 1 slower, 1 undecided"),
        ("write", "10", "1.000", "0.990-1.010", "1.000", "1.000", "10 same"),
    ]  # fmt: skip
    point, _ = groups(comparison)
    assert math.isclose(point.mean, 1.0) and point.least.step == "point1"


def test_few_steps_or_steps_of_one_kind_have_no_groups(comparison: Comparison) -> None:
    assert lines(replace(comparison, steps=comparison.steps[:-1])) == []
    one_kind = tuple(replace(cell, group="write") for cell in comparison.cells)
    assert lines(replace(comparison, cells=one_kind)) == []


def test_without_intervals_a_group_has_none(comparison: Comparison) -> None:
    def bare(ratio: Ratio) -> Ratio:
        return replace(ratio, low=None, high=None, verdict="none")

    first, *_ = lines(replace(comparison, ratios=tuple(map(bare, comparison.ratios))))
    assert first[3] == "" and first[6] == ""


def test_several_subjects_stand_below_their_group(comparison: Comparison) -> None:
    (other,) = comparison.others
    third = replace(other, name="18.0", build="18.0")
    ratios = (*comparison.ratios, *(replace(ratio, subject="18.0") for ratio in comparison.ratios))
    several = replace(comparison, subjects=(*comparison.subjects, third), ratios=ratios)
    assert [row[0] for row in lines(several)] == ["point", "  17.0", "  18.0", "write", "  17.0", "  18.0"]
    table = render.to_markdown(several).partition("### Groups of steps")[2].partition("###")[0]
    assert "| **point** |" in table and "\n| 18.0 | 10 | 1.000 |" in table
