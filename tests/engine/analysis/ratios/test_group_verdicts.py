"""One ratio and verdict for steps of one kind: pooled within pairs, in a family of their own, unless they disagree."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.ratios import measured_ratios, verdicts
from engine.analysis.ratios.group_verdicts import _disagreement, groups
from engine.analysis.statistics.inference import estimate, paired_interval
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.report import render, tables
from engine.results.comparison import Comparison
from engine.results.ratio import Ratio
from engine.results.section import Figure, Notes, drawn
from tests.support.journal import make_run


def compared(path: Path, **how: Any) -> Comparison:
    """A run whose index build and inserts are steps of one kind."""
    run = make_run(path, **how)
    with sqlite3.connect(run / "journal.db") as journal:
        journal.execute("UPDATE step SET plan = json_set(plan, '$.group', 'write') WHERE name IN ('l.x', 'l.i1')")
    return compare([run])


def ratio_of(run: Path) -> Ratio:
    cells = compared_cells([run])
    measured = measured_ratios.measured(cells)
    (group,) = groups(cells, measured, verdicts.ratios(cells, measured))
    assert group.steps == ("l.x", "l.i1") and group.ratio.step == "write"
    return group.ratio


def clusters(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """Clusters of 17.0 differ by up to 6%, in both steps alike; otherwise it is 3% slower in both."""
    if cell.subject.build == "16.3" or step not in ("l.x", "l.i1"):
        return totals
    return replace(totals, seconds=totals.seconds / 0.97 / (1.03, 0.97, 1.0, 1.02, 0.98)[cell.repeat - 1])


def test_a_groups_mean_has_the_scatter_of_clusters_for_all(tmp_path: Path) -> None:
    compared(tmp_path / "r", repeats=5, noise=0, change=clusters)
    ratio = ratio_of(tmp_path / "r")
    expected = paired_interval(estimate([0.97 * by for by in (1.03, 0.97, 1.0, 1.02, 0.98)]))
    assert (ratio.pairs, ratio.ratio, ratio.low) == (5, pytest.approx(expected.ratio), pytest.approx(expected.low))
    assert ratio.verdict == "no faster", "two steps of the same clusters say no more than one"


def test_a_group_is_certain_where_its_steps_are_not(tmp_path: Path) -> None:
    """Two steps of 2% noise are a family of one group, and four steps."""
    effects = {("17.0", step): 0.97 for step in ("l.x", "l.i1")}
    comparison = compared(tmp_path / "r", repeats=6, effects=effects, noise=0.012, seed=3)
    ratio = ratio_of(tmp_path / "r")
    steps = [comparison.ratio("17.0", step, "rate_per_s") for step in ("l.x", "l.i1")]
    assert ratio.verdict == "slower" and {step.verdict for step in steps if step} == {"no faster"}
    first, second = comparison.answer_for("17.0")[:2]
    assert first == f"17.0 against 16.3, write (2 steps) {ratio.effect}: slower" and second.startswith("17.0 is ")
    section = next(table for table in drawn(tables.sections(comparison), Notes()) if table.title.startswith("Groups"))
    low, high = ratio.bounds or (0, 0)
    assert section.rows[0][0] == ("write", "2", f"▼{ratio.ratio:.3f}", f"{low:.3f}-{high:.3f}", "slower")


def test_steps_that_differ_beyond_chance_have_no_group_verdict(tmp_path: Path) -> None:
    effects = {("17.0", "l.x"): 0.9, ("17.0", "l.i1"): 1.1}
    comparison = compared(tmp_path / "r", repeats=5, effects=effects)
    ratio = ratio_of(tmp_path / "r")
    why = "its steps differ by more than chance, from l.x -"
    assert ratio.verdict == "withheld" and ratio.reasons[0].startswith(why) and " to l.i1 +" in ratio.reasons[0]
    assert comparison.answer_for("17.0")[0].startswith(f"17.0 against 16.3, write (2 steps): {why}")
    assert why in render.to_markdown(comparison)


def test_only_several_steps_with_verdicts_form_a_group(tmp_path: Path) -> None:
    def idle(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        idle = step == "l.i1" and cell.subject.build == "17.0"
        return replace(totals, roles={k: replace(v, rows=0) for k, v in totals.roles.items()}) if idle else totals

    assert compared(tmp_path / "idle", change=idle).section("groups") == ()
    assert compare([make_run(tmp_path / "usual")]).section("groups") == ()
    (section,) = compared(tmp_path / "one", repeats=1).section("groups")
    assert (
        section.rows[0].values[-1] == Figure("")
        and "write" not in compared(tmp_path / "two", repeats=1).answer_for("17.0")[0]
    )


def test_several_subjects_stand_below_their_group(tmp_path: Path) -> None:
    comparison = compared(tmp_path / "r", builds=("16.3", "17.0", "18.0"))
    section = next(table for table in drawn(tables.sections(comparison), Notes()) if table.title.startswith("Groups"))
    assert [cells[0] for cells, _ in section.rows] == ["write", "  17.0", "  18.0"]


@pytest.mark.parametrize("steps", [2, 3, 8])
def test_alike_steps_disagree_as_often_as_the_level(steps: int) -> None:
    """Groups hold if one step scatters eight times as much, and all share their clusters."""
    source = np.random.default_rng(4)
    scatter = np.array([0.04, *[0.005] * (steps - 1)])[:, None]
    wrong = 0
    for _ in range(2000):
        table = source.normal(0, 0.02, 8) + scatter * source.normal(size=(steps, 8))
        wrong += bool(_disagreement(table, [f"q{step}" for step in range(steps)], 0.05))
    assert wrong <= 2000 * 0.05 + 2.33 * math.sqrt(2000 * 0.05 * 0.95)
