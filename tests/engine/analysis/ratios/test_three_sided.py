"""Verdicts from tests of four kinds: their claims, agreement with the interval, and the effect of more pairs."""

from __future__ import annotations

import math
import random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.cells.alpha_spending import alone
from engine.analysis.ratios.three_sided import (
    ALONE,
    Hypotheses,
    Judgement,
    judge,
    levels_of,
    p_values,
    pairs_needed,
    shares,
)
from engine.analysis.statistics.inference import ALPHA, POWER, Estimate, estimate, paired_interval
from engine.results.ratio import UNCLEAR

MARGIN = 0.02
ratio_lists = st.lists(st.floats(0.2, 5.0), min_size=3, max_size=12)
MIRRORED = {"faster": "slower", "slower": "faster", "no faster": "no slower", "no slower": "no faster"}


@pytest.mark.parametrize(
    ("ratios", "verdict", "differs"),
    [
        ([0.90, 0.91, 0.89, 0.90], "slower", True),
        ([0.981, 0.972, 0.978, 0.979], "slower", True),  # by the margin or less: its sign is certain
        ([0.991, 0.990, 0.991, 0.992], "same", True),  # within the margin, and a little slower
        ([1.001, 0.999, 1.000, 1.002], "same", False),
        ([0.99, 1.03, 1.00, 1.03], "no slower", False),
        ([0.975, 1.005, 0.97, 1.0], "no faster", False),
        ([0.80, 1.25, 0.90, 1.10], "undecided", False),
        ([0.80, 0.80], "undecided", False),  # too few pairs
        ([0.80], "none", False),
    ],
)
def test_verdicts(ratios: list[float], verdict: str, differs: bool) -> None:
    expected = Judgement(verdict, differs)  # type: ignore[arg-type]
    assert judge(estimate(ratios), MARGIN) == expected
    of_cost = judge(estimate(ratios), MARGIN, "less")
    assert (of_cost.verdict, of_cost.differs) == (MIRRORED.get(verdict, verdict), differs)


@given(ratio_lists, st.sampled_from(["more", "less"]))
def test_a_verdict_alone_is_what_its_interval_shows(ratios: list[float], better: Literal["more", "less"]) -> None:
    verdict, interval = judge(estimate(ratios), MARGIN, better), paired_interval(estimate(ratios))
    assert interval.low is not None and interval.high is not None
    low, high = (interval.low, interval.high) if better == "more" else (1 / interval.high, 1 / interval.low)
    bound = 1 - MARGIN if better == "more" else 1 / (1 + MARGIN)
    if min(abs(end - at) for end in (low, high) for at in (1, bound, 1 / bound, 1 + MARGIN, 1 / (1 - MARGIN))) > 1e-9:
        assert verdict.differs == (not interval.low <= 1 <= interval.high)
        assert (verdict.verdict in ("same", "no slower")) <= (low > bound)
        assert (verdict.verdict == "same") == (interval.low > 1 - MARGIN and interval.high < 1 + MARGIN)
        assert (verdict.verdict == "slower") == (high < 1 and verdict.verdict != "same")


def test_p_values_worked_out_by_hand() -> None:
    """Logs 0.008, 0, -0.008, 0: error 0.00327, so log(1 - 0.02) is 6.19 errors away: p = 0.0042 with 3 degrees."""
    values = p_values(estimate([math.exp(log) for log in (0.008, 0.0, -0.008, 0.0)]), MARGIN)
    assert values.no_slower == pytest.approx(0.0042, abs=0.0002)
    assert values.sign == pytest.approx(1) and values.same == max(values.no_slower, values.no_faster)
    assert p_values(estimate([1.0]), MARGIN) == (1, 1, 1, 1)
    assert p_values(estimate([1.1, 1.1]), MARGIN) == (0, 1, 0, 1)
    assert p_values(estimate([1.1, 1.1]), MARGIN, "less") == (0, 1, 1, 0)


def test_each_kind_has_a_sequence_of_its_own() -> None:
    """Ten steps: a sign that is far from certain does not lower what `no slower` is held against."""
    tests = [Hypotheses(0.9, 0.9, 0.001, 0.9)] * 9 + [Hypotheses(0.004, 0.9, 0.9, 0.9)]
    sequences = shares(tests, alone(ALPHA))
    assert sequences[-1].sign == pytest.approx(1 / 10) and sequences[0].sign == pytest.approx(1 / 9)
    assert sequences[0].no_slower == pytest.approx(1 / 10) and sequences[8].no_slower == pytest.approx(1 / 2)
    levels = levels_of(sequences[8], alone(ALPHA))
    assert levels == pytest.approx((ALPHA / 9, ALPHA / 10, ALPHA / 2, ALPHA / 10))
    assert levels_of(Hypotheses(1, 1, 1, 1), alone(ALPHA)) == ALONE, "no more than the printed interval shows"


@given(st.lists(st.tuples(st.floats(-0.05, 0.05), st.floats(0.001, 0.03)), min_size=1, max_size=12))
def test_the_same_in_a_family_excludes_slower_and_faster(steps: list[tuple[float, float]]) -> None:
    tests = [p_values(Estimate(mean, sd, 5), MARGIN) for mean, sd in steps]
    for values, share in zip(tests, shares(tests, alone(ALPHA)), strict=True):
        levels = levels_of(share, alone(ALPHA))
        if values.same <= levels.same:
            assert values.no_slower <= levels.no_slower and values.no_faster <= levels.no_faster


@pytest.mark.parametrize(
    ("mean", "sd", "pairs"),
    [(0.03, 0.03, 4), (-0.05, 0.04, 4), (0.0, 0.03, 5), (0.005, 0.02, 4), (0.04, 0.05, 6), (-0.0202, 0.03, 5)],
)
def test_the_advised_pairs_decide_four_times_in_five(mean: float, sd: float, pairs: int) -> None:
    """The last is slower by the margin, where nothing but the sign can be certain."""
    planted = Estimate(mean, sd, pairs)
    more = pairs_needed(planted, MARGIN)
    assert judge(planted, MARGIN).verdict in UNCLEAR and more is not None
    chance = random.Random(7)

    def share(count: int) -> float:
        samples = ([math.exp(chance.gauss(mean, sd)) for _ in range(count)] for _ in range(2000))
        return sum(judge(estimate(ratios), MARGIN).verdict not in UNCLEAR for ratios in samples) / 2000

    assert share(pairs + more) >= POWER - 0.03
    if more > 1:
        assert share(pairs + more - 1) <= POWER + 0.1


def test_pairs_needed_grows_with_scatter_and_has_an_end() -> None:
    few, many = (pairs_needed(Estimate(0.03, sd, 2), MARGIN) for sd in (0.014, 0.042))
    assert few is not None and many is not None and 1 <= few < many
    assert pairs_needed(estimate([0.2, 5.0]), MARGIN) is None
    assert pairs_needed(estimate([0.9]), MARGIN) is None
    lent, strict = Estimate(0.016, 0.01, 3, prior_degrees=2), Hypotheses(*[0.001] * 4)
    plain = Estimate(lent.mean, lent.sd, lent.pairs)
    assert [pairs_needed(sample, 0.005, lambda _: strict) for sample in (plain, lent)] == [9, 8]


def test_more_pairs_are_judged_at_the_levels_left_for_them() -> None:
    sample, strict = estimate([0.90, 0.93, 0.88, 0.91]), Hypotheses(1e-4, 1e-4, 1e-4, 1e-4)
    assert judge(sample, MARGIN).verdict == "slower" and judge(sample, MARGIN, levels=strict).verdict == "undecided"
    more = pairs_needed(sample, MARGIN, lambda _: strict)
    assert more is not None and judge(sample.of(4 + more), MARGIN, levels=strict).verdict == "slower"
    later = pairs_needed(sample, MARGIN, lambda _: Hypotheses(*(level / 1e3 for level in strict)))
    assert later is not None and later > more
