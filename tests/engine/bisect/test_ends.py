"""The step in which the bad end of a search is slower, by runs with known results."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.answer.compare import compare
from engine.bisect.ends import BAD, GOOD, LEVELS, TRIED, slowest, unlike_both
from engine.core.errors import UserError
from engine.core.model import LEVEL, Cell
from engine.journal.totals import StepTotals
from engine.results.ratio import Ratio
from tests.support.journal import make_run

ENDS = (GOOD, BAD)
CRASH = "the server was ended by SIGABRT"


def judged(paths: list[Path], step: str | None = None) -> Ratio | None:
    comparison = compare(paths, GOOD, LEVELS[len(paths) - 1])
    return slowest(comparison, step, last=len(paths) == len(LEVELS), where="see bench compare")


def runs(tmp_path: Path, count: int, **how: object) -> list[Path]:
    return [make_run(tmp_path / f"r{seed}", builds=ENDS, seed=seed, **how) for seed in range(count)]  # type: ignore[arg-type]


def late(build: str) -> Callable[[Cell, str, StepTotals], StepTotals]:
    def change(cell: Cell, name: str, totals: StepTotals) -> StepTotals:
        missed = name == "qr100" and cell.subject.build == build
        return replace(totals, seconds=totals.seconds * 1.6) if missed else totals

    return change


def test_the_slowest_step_is_searched_unless_one_is_given(tmp_path: Path) -> None:
    folders = runs(tmp_path, 1, effects={(BAD, "l.i0"): 0.9, (BAD, "qr100"): 0.8}, noise=0.0005)
    steps = [search.step for step in (None, "l.i0") if (search := judged(folders, step)) is not None]
    assert steps == ["qr100", "l.i0"]
    assert judged(runs(tmp_path / "noisy", 1, noise=0.05), "qr100") is None, "more pairs may show it"


def test_a_loss_below_the_margin_waits_for_more_pairs(tmp_path: Path) -> None:
    """l.i0 is slower by 1.7% for certain, l.i1 perhaps by more; no step is worse where that is the same."""

    def scattered(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        slower = {"l.i1": (1.04, 1.1, 1.07), "l.i0": (1.015, 1.017, 1.019)}.get(step)
        if slower is None or cell.subject.build != BAD:
            return totals
        return replace(totals, seconds=totals.seconds * slower[cell.repeat - 1])

    folders = runs(tmp_path, 3, change=scattered, noise=0)
    assert judged(folders[:1]) is None, "a search by l.i0 may be for the wrong commit"
    search = judged(folders[:1], "l.i0")
    assert search is not None and (search.step, search.verdict) == ("l.i0", "slower")
    search = judged(folders)
    assert search is not None and search.step == "l.i1"


def test_ends_that_fail_or_are_not_slower_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"the good end fails in all its cells: {CRASH}; see bench compare"):
        judged(runs(tmp_path / "fails", 1, failed=dict.fromkeys((0, 3, 4), CRASH)))
    with pytest.raises(UserError, match=f"the bad end fails in all its cells: {CRASH}; git bisect run finds such"):
        judged(runs(tmp_path / "crashes", 1, failed=dict.fromkeys((1, 2, 5), CRASH)))
    with pytest.raises(UserError, match=r"it is not certain that the bad end is slower: qr100 .*SLA: bad kept up"):
        judged(runs(tmp_path / "late", 3, change=late(BAD)), "qr100")
    with pytest.raises(UserError, match=r"the bad end is faster: l\.i0 .* swap --good and --bad"):
        judged(runs(tmp_path / "faster", 1, effects={(BAD, "l.i0"): 1.2}))


def test_a_commit_that_fails_or_misses_its_sla_cannot_be_judged(tmp_path: Path) -> None:
    three = (*ENDS, TRIED)
    crashed = compare([make_run(tmp_path / "crash", builds=three, failed={2: CRASH})], GOOD)
    missed = compare([make_run(tmp_path / "late", builds=three, change=late(TRIED))], GOOD)
    fine = compare([make_run(tmp_path / "fine", builds=three)], GOOD)
    both = compare([make_run(tmp_path / "both", builds=three, failed={0: CRASH, 2: CRASH})], GOOD)
    assert [unlike_both(run, "qr100") for run in (fine, both)] == ["", ""]
    why = unlike_both(crashed, "qr100")
    assert why.startswith("does not run: left out: tried repeat 1") and why.endswith(f"failed: {CRASH}")
    why = "cannot be compared: SLA: tried kept up its insert rate in 0 of 3 cells"
    assert unlike_both(missed, "qr100").startswith(why)


@pytest.mark.slow
def test_alike_ends_differ_in_5_of_100_searches_at_most() -> None:
    from engine.analysis.statistics.inference import estimate, p_value

    chance, wrong, unadjusted = random.Random(2), 0, 0
    for _ in range(2000):
        ratios: list[float] = []
        differs = {LEVEL: False, 0.0: False}
        for level in LEVELS:
            ratios += [math.exp(chance.gauss(0, 0.05)) for _ in range(3)]
            for at in differs:
                differs[at] |= p_value(estimate(ratios)) <= (at or level)
        wrong, unadjusted = wrong + differs[0.0], unadjusted + differs[LEVEL]
    assert wrong <= 2000 * LEVEL < 2000 * 0.08 < unadjusted
