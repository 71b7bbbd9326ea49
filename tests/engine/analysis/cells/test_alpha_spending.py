"""Levels of analyses that share pairs, of real journals."""

import itertools
import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import multivariate_normal, norm

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.cells.alpha_spending import FIRST, Levels, alone, levels_on_the_way, planned, spent_level
from engine.core.model import INTERIM_ANALYSES, LEVEL, Cell, InterimAnalysis
from engine.journal.totals import StepTotals
from tests.support.journal import ENVIRONMENT, make_run

DAY_NS = 86_400 * 10**9


def later(run: Path, days: int) -> Path:
    """The run as if it had been measured so many days later."""
    with sqlite3.connect(run / "journal.db") as journal:
        journal.execute("UPDATE session SET wall_ns = wall_ns + ?", (days * DAY_NS,))
    journal.close()
    return run


def test_successive_runs_are_separate_analyses(tmp_path: Path) -> None:
    """Each spends half of the rest: 4%, 0.5%, 0.25%, so that all that may still come spend no more than 5%."""
    runs = [later(make_run(tmp_path / f"r{day}", repeats=4), day) for day in range(3)]
    levels = [compared_cells(runs[:count]).levels.differs() for count in (1, 2, 3)]
    assert levels == pytest.approx([0.04, 0.0099, 0.0057], rel=1e-2)
    assert compared_cells(runs[::-1]).levels.differs() == levels[2], "whatever their order on the command line"
    parts = [(4, FIRST), (8, 0.005), (12, 0.0025)]
    assert levels[2] == spent_level(*parts) and sum(part for _, part in parts) < LEVEL


def test_three_pairs_in_slices_spend_a_part_only(tmp_path: Path) -> None:
    for name, pairs, blocks, level in (("a", 3, 30, 0.01), ("b", 4, 30, FIRST), ("c", 3, 0, FIRST)):
        run = make_run(tmp_path / name, repeats=pairs, blocks=blocks)
        assert compared_cells([run]).levels.differs() == pytest.approx(level, rel=1e-4)


def test_runs_at_the_same_time_are_one_analysis(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, repeats=4) for name in ("a", "b")]
    assert compared_cells(runs).levels.differs() == pytest.approx(FIRST, rel=1e-4)


def test_blocks_of_a_farm_are_one_analysis(tmp_path: Path) -> None:
    boxed = {**ENVIRONMENT, "host": {"machine": "m", "sandbox": True}}
    runs = [later(make_run(tmp_path / f"r{day}", repeats=4, environment=boxed), day) for day in range(3)]
    assert compared_cells(runs).levels.differs() == pytest.approx(FIRST, rel=1e-4)


def test_the_last_analysis_spends_the_rest_in_older_records_too() -> None:
    """Older runs may have spent half of their part after four of up to eight pairs."""
    older = (InterimAnalysis(4, 0.02), InterimAnalysis(6, 0.01), InterimAnalysis(8, 0.01))
    assert planned(older, 8) == [(4, 0.02), (6, 0.01), (8, pytest.approx(0.01))]
    assert planned(older, 4) == planned((), 4) == [(4, FIRST)]


def test_pooled_pairs_are_judged_at_their_analysis_level(tmp_path: Path) -> None:
    """Four pairs of logs -0.0363 and -0.0583 have p = 0.005: below 4% / 4 steps, above 1% / 4."""

    def apart(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        slower = (1.037, 1.06)[cell.repeat - 1] if cell.subject.build == "17.0" else 1.0
        return replace(totals, seconds=totals.seconds * slower) if step == "l.i0" else totals

    runs = [make_run(tmp_path / f"r{day}", repeats=2, noise=0, change=apart) for day in range(2)]
    both = compare(runs)
    once = both.ratio("17.0", "l.i0", "rate_per_s")
    assert once is not None and not any("may be analysed more than once" in text for text in both.remarks.findings)
    later(runs[1], 1)
    both = compare(runs)
    twice = both.ratio("17.0", "l.i0", "rate_per_s")
    assert twice is not None and any("verdicts are at 1" in text for text in both.remarks.findings)
    assert (once.ratio, once.low, once.high) == (twice.ratio, twice.low, twice.high)
    assert (once.verdict, twice.verdict, twice.among) == ("slower", "no faster", 4)


def test_later_pairs_are_judged_at_a_smaller_level(tmp_path: Path) -> None:
    levels = compared_cells([make_run(tmp_path / "r", repeats=4)]).levels
    assert levels.later(4).differs() == pytest.approx(0.0099, rel=1e-2)
    assert levels.later(4).later(4).differs() == pytest.approx(0.0057, rel=1e-2)
    after = [levels.later(more).differs() for more in (100, 4, 1)]
    assert after == sorted(after) and after[-1] < 0.04, "the more is new, the less the two analyses share"


def test_more_pairs_keep_the_level_when_nothing_is_left(tmp_path: Path) -> None:
    """A bisection divides the error itself."""
    assert alone(0.02).later(4).differs() == 0.02
    run = make_run(tmp_path / "r", effects={("17.0", "l.i1"): 0.9}, noise=0.06, repeats=4)
    ratio = compare([run], level=0.02).ratio("17.0", "l.i1", "rate_per_s")
    assert ratio is not None and ratio.verdict == "undecided" and ratio.more_pairs is not None


def test_a_single_analysis_is_at_the_level_that_it_spends() -> None:
    assert spent_level((5, 0.04)) == pytest.approx(0.04, rel=1e-4)
    assert spent_level((0, 0.04)) == 0.04


def test_errors_of_analyses_with_shared_pairs_add_up() -> None:
    """Armitage, McPherson and Rowe 1969, table 2: five analyses at 5% each, equally far apart, are wrong in 14.2%."""
    wrong = [0.05, 0.083, 0.107, 0.126, 0.142]
    spent = [after - before for before, after in itertools.pairwise([0.0, *wrong])]
    levels = [spent_level(*((4 * n, part) for n, part in enumerate(spent[:count], 1))) for count in range(1, 6)]
    assert levels == pytest.approx([0.05] * 5, rel=0.02)


def test_an_analysis_without_new_pairs_keeps_its_level() -> None:
    assert spent_level((4, 0.04), (4, 0.005)) == spent_level((4, 0.04))
    assert spent_level((4, 0.04), (8, 0.005)) < 0.04


def spent(levels: list[Levels], share: float) -> tuple[float, float]:
    """Errors that two analyses of 4 and 8 pairs spend: for a difference, and at one side for sameness."""
    both = multivariate_normal(cov=[[1, math.sqrt(0.5)], [math.sqrt(0.5), 1]])
    differs = [-norm.ppf(alpha.differs(share) / 2) for alpha in levels]
    same = [-norm.ppf(alpha.one_sided(share)) for alpha in levels]
    inside = both.cdf(differs, lower_limit=[-bound for bound in differs])
    return 1 - float(inside), 1 - float(both.cdf(same))


@pytest.mark.parametrize(("share", "more"), [(1.0, 1.0), (0.1, 1.04), (1 / 40, 1.05)])
def test_a_test_of_a_family_spends_its_share_in_all_analyses(share: float, more: float) -> None:
    """4% and 0.5% of two runs; its share of the family's levels, 4% and 1%, would spend more."""
    levels = [Levels(((4, FIRST), (8, 0.005))[:count]) for count in (1, 2)]
    assert spent(levels, share) == pytest.approx((0.045 * share, 0.045 * share), rel=2e-3)
    in_proportion, _ = spent([alone(alpha.differs()) for alpha in levels], share)
    assert in_proportion == pytest.approx(more * 0.045 * share, rel=1e-2)


def test_an_adaptive_run_keeps_nearly_all_for_its_last_analysis() -> None:
    """Whenever time ends it: 0.1% each after 3 and 4 pairs, and 3.8% after 5."""
    assert planned(INTERIM_ANALYSES, 5) == [(3, 0.001), (4, 0.001), (5, pytest.approx(FIRST - 0.002))]
    assert planned(INTERIM_ANALYSES, 3) == [(3, FIRST)], "the same pairs again are no further analysis"
    later_run = planned(INTERIM_ANALYSES, 4, 0.005)
    assert sum(part for _, part in later_run) == pytest.approx(0.005) and later_run[0][1] < 0.0002
    on_the_way = [levels_on_the_way(INTERIM_ANALYSES, look.pairs).differs() for look in INTERIM_ANALYSES]
    assert on_the_way[0] == pytest.approx(0.001, rel=1e-3) and all(0.001 <= level < 0.0025 for level in on_the_way[1:])
