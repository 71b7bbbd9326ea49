"""Intervals and verdicts against values worked out by hand, and their properties."""

import math
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.statistics import (
    ALPHA,
    POWER,
    Estimate,
    Interval,
    benjamini_hochberg_level,
    estimate,
    holm_shares,
    judge,
    noise_floor,
    p_value,
    paired_interval,
    pairs_needed,
    same_p_value,
    scatter,
    smallest_visible_effect,
)

ratio_lists = st.lists(st.floats(0.2, 5.0), min_size=2, max_size=12)


def test_interval_of_three_pairs_is_the_one_worked_out_by_hand() -> None:
    """Logs -1, 0, 1 (x 0.01): mean 0, sd 0.01, t(0.975, 2) = 4.302653, half = 0.01 x 4.302653 / sqrt(3)."""
    interval = paired_interval(estimate([math.exp(-0.01), 1.0, math.exp(0.01)]))
    half = 0.01 * 4.302653 / math.sqrt(3)
    assert interval.ratio == pytest.approx(1.0)
    assert (interval.low, interval.high) == (
        pytest.approx(math.exp(-half), rel=1e-6),
        pytest.approx(math.exp(half), rel=1e-6),
    )


def test_interval_of_five_pairs_uses_four_degrees_of_freedom() -> None:
    """t(0.975, 4) = 2.776445 and, for the 90 % interval, t(0.95, 4) = 2.131847."""
    logs = [0.10, 0.12, 0.08, 0.11, 0.09]
    sd = math.sqrt(0.001 / 4)
    for confidence, t in ((0.95, 2.776445), (0.90, 2.131847)):
        interval = paired_interval(estimate([math.exp(log) for log in logs]), confidence)
        assert interval.low == pytest.approx(math.exp(0.10 - t * sd / math.sqrt(5)), rel=1e-6)
        assert interval.high == pytest.approx(math.exp(0.10 + t * sd / math.sqrt(5)), rel=1e-6)


def test_bounds_that_no_float_could_hold_end_where_one_can() -> None:
    interval = paired_interval(estimate([1e-290, 1e290]))
    assert (interval.low, interval.high) == (pytest.approx(math.exp(-700)), pytest.approx(math.exp(700)))
    assert paired_interval(Estimate(mean=800.0, sd=0.0, pairs=1)).ratio == pytest.approx(math.exp(700))
    assert noise_floor(interval) == pytest.approx(math.exp(700))


def test_one_pair_is_a_ratio_without_interval_or_verdict_and_two_have_no_verdict() -> None:
    one, two = judge(estimate([0.8]), 0.02), judge(estimate([0.80, 0.80]), 0.02)
    assert one.interval == Interval(0.8, None, None, 1) and two.interval.low is not None
    assert [(each.verdict, each.more_pairs) for each in (one, two)] == [("none", None), ("inconclusive", 1)]


@pytest.mark.parametrize(
    ("ratios", "better", "verdict"),
    [
        ([0.90, 0.91, 0.89, 0.90], "more", "slower"),
        ([1.10, 1.11, 1.09, 1.10], "more", "faster"),
        ([1.10, 1.11, 1.09, 1.10], "less", "slower"),
        ([0.90, 0.91, 0.89, 0.90], "less", "faster"),
        ([1.001, 0.999, 1.000, 1.002], "more", "same"),
        ([1.010, 1.011, 1.010, 1.009], "more", "same"),  # differs for certain, by less than the margin
        ([0.80, 1.25, 0.90, 1.10], "more", "inconclusive"),
    ],
)
def test_verdicts(ratios: list[float], better: str, verdict: str) -> None:
    assert judge(estimate(ratios), 0.02, "less" if better == "less" else "more").verdict == verdict


@given(ratio_lists, st.floats(0.005, 0.1))
def test_swapping_the_sides_mirrors_interval_and_direction(ratios: list[float], margin: float) -> None:
    there, back = paired_interval(estimate(ratios)), paired_interval(estimate([1 / ratio for ratio in ratios]))
    assert there.low is not None
    assert back.high is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)
    verdict, mirrored = (judge(estimate(ratios), margin, better).verdict for better in ("more", "less"))
    assert mirrored == {"faster": "slower", "slower": "faster"}.get(verdict, verdict)


@given(ratio_lists)
def test_a_verdict_of_change_never_has_one_inside_its_interval(ratios: list[float]) -> None:
    judgement = judge(estimate(ratios), 0.02)
    if judgement.verdict in ("faster", "slower"):
        assert judgement.interval.excludes_one()
        assert (judgement.interval.ratio > 1) == (judgement.verdict == "faster")
    if judgement.verdict != "inconclusive":
        assert judgement.more_pairs is None


@pytest.mark.parametrize(
    ("mean", "sd", "pairs"), [(0.03, 0.03, 4), (-0.05, 0.04, 4), (0.0, 0.03, 5), (0.005, 0.02, 4), (0.04, 0.05, 6)]
)
def test_the_advised_pairs_settle_it_four_times_in_five_if_mean_and_scatter_are_the_truth(
    mean: float, sd: float, pairs: int
) -> None:
    found = Estimate(mean, sd, pairs)
    more = pairs_needed(found, 0.02)
    assert judge(found, 0.02).verdict == "inconclusive" and more is not None
    chance = random.Random(7)

    def share(count: int) -> float:
        made = ([math.exp(chance.gauss(mean, sd)) for _ in range(count)] for _ in range(2000))
        return sum(judge(estimate(ratios), 0.02).verdict != "inconclusive" for ratios in made) / 2000

    assert share(pairs + more) >= POWER - 0.03
    if more > 1:
        assert share(pairs + more - 1) <= POWER + 0.05


@given(ratio_lists)
def test_the_interval_beside_same_lies_within_the_margin(ratios: list[float]) -> None:
    judgement = judge(estimate(ratios), 0.02)
    if judgement.verdict == "same":
        assert judgement.interval.within(0.98 - 1e-9, 1.02 + 1e-9)


def test_same_needs_the_level_of_its_family_too() -> None:
    """Logs 0.008, 0, -0.008, 0: error 0.00327, so log(1 - 0.02) is 6.19 errors away: p = 0.0042 with 3 degrees."""
    found = estimate([math.exp(log) for log in (0.008, 0.0, -0.008, 0.0)])
    assert same_p_value(found, 0.02) == pytest.approx(0.0047, abs=0.0006)
    assert [judge(found, 0.02, same_level=level).verdict for level in (0.025, 0.003)] == ["same", "inconclusive"]
    assert [same_p_value(estimate(ratios), 0.02) for ratios in ([1.0], [1.0, 1.0], [1.1, 1.1])] == [1, 0, 1]


def test_p_value_of_pairs_worked_out_by_hand() -> None:
    """Logs 0.01, 0.02, 0.03: t = 0.02 / (0.01 / sqrt(3)) = 3.464102, and with 2 degrees p = 1 - t / sqrt(t^2 + 2)."""
    found = estimate([math.exp(0.01), math.exp(0.02), math.exp(0.03)])
    assert p_value(found) == pytest.approx(1 - 3.464102 / math.sqrt(14), rel=1e-5)
    assert [p_value(estimate(ratios)) for ratios in ([0.8], [1.0, 1.0], [0.5, 0.5])] == [1.0, 1.0, 0.0]


@given(ratio_lists, st.floats(0.5, 0.999))
def test_the_p_value_is_where_the_interval_begins_to_hold_one(ratios: list[float], confidence: float) -> None:
    interval = paired_interval(estimate(ratios), confidence)
    assert interval.low is not None
    if min(abs(interval.low - 1), abs((interval.high or 0) - 1)) > 1e-9:
        assert interval.excludes_one() == (p_value(estimate(ratios)) < 1 - confidence)


def test_holm_worked_out_by_hand() -> None:
    """0.05 / 4, / 3, / 2: the third fails, so the fourth is held against no more than the third was."""
    p_values = [0.04, 0.01, 0.03, 0.012]
    levels = [ALPHA * share for share in holm_shares(p_values)]
    assert levels == pytest.approx([0.025, 0.0125, 0.025, 0.05 / 3])
    assert [p <= level for p, level in zip(p_values, levels, strict=True)] == [False, True, False, True]
    assert holm_shares([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_rejects_what_its_definition_does(p_values: list[float]) -> None:
    ordered = sorted(p_values)
    failing = [p for rank, p in enumerate(ordered) if p > ALPHA * (1 / (len(ordered) - rank))]
    rejected = [p for p in ordered if not failing or p < failing[0]]
    shares = holm_shares(p_values)
    assert sorted(p for p, share in zip(p_values, shares, strict=True) if p <= ALPHA * share) == rejected


def test_holm_asks_for_the_level_of_a_share() -> None:
    """Levels that shrink faster than shares: the smallest of three p-values is held against 0.05 / 9, the next / 4."""
    found = [holm_shares([p, 0.02, 0.5], lambda share: ALPHA * share**2) for p in (0.005, 0.006)]
    assert found == [pytest.approx([1 / 3, 1 / 2, 1 / 2]), pytest.approx([1 / 3] * 3)]


def test_benjamini_and_hochberg_worked_out_by_hand() -> None:
    """0.05 x rank / 5: 0.01, 0.02, 0.03, 0.04, 0.05. The third is above its own, the fourth below: both are in."""
    assert benjamini_hochberg_level([0.9, 0.001, 0.039, 0.035, 0.015]) == 0.039
    assert benjamini_hochberg_level([0.5, 0.9]) == 0.0


def test_a_verdict_of_change_needs_the_level_of_its_family() -> None:
    found = estimate([0.90, 0.93, 0.88, 0.91])
    alone, among = judge(found, 0.02, level=0.05), judge(found, 0.02, level=1e-4)
    assert (alone.verdict, among.verdict, among.interval) == ("slower", "inconclusive", alone.interval)
    assert among.more_pairs is not None
    assert judge(found.of(4 + among.more_pairs), 0.02, level=1e-4).verdict == "slower"
    later = judge(found, 0.02, level=1e-4, later=lambda more: (1e-5, 0.0025)).more_pairs
    assert later is not None and later > among.more_pairs, "at the level that is left for them"
    assert smallest_visible_effect(found, level=1e-4) > smallest_visible_effect(found)  # type: ignore[operator]


def test_pairs_needed_grows_with_scatter_and_has_an_end() -> None:
    few, many = (pairs_needed(Estimate(0.03, sd, 2), 0.02) for sd in (0.014, 0.042))
    assert few is not None and many is not None and 1 <= few < many
    assert pairs_needed(estimate([0.2, 5.0]), 0.02) is None
    assert pairs_needed(estimate([0.9]), 0.02) is None


def test_degrees_of_freedom_that_others_lend_narrow_interval_and_p_value() -> None:
    """sd 0.01, three pairs, 2 degrees more: t(0.975, 4) = 2.776445; and t = 2.776445 is p = 0.05."""
    lent = Estimate(2.776445 * 0.01 / math.sqrt(3), 0.01, 3, prior_degrees=2)
    assert paired_interval(lent).low == pytest.approx(1, abs=1e-8)
    assert p_value(lent) == pytest.approx(0.05, abs=1e-6)
    plain = Estimate(lent.mean, lent.sd, lent.pairs)
    assert p_value(plain) > p_value(lent)
    assert (pairs_needed(plain, 0.005, 0.001), pairs_needed(lent, 0.005, 0.001)) == (9, 8)
    assert lent.of(5).degrees == 6


def test_noise_floor_and_smallest_visible_effect_of_an_aa_pair() -> None:
    """sd 0.01 over three pairs: half = 0.024841; at 80 % power (4.302653 + 1.060660) x 0.01 / sqrt(3)."""
    found = estimate([math.exp(-0.01), 1.0, math.exp(0.01)])
    assert noise_floor(paired_interval(found)) == pytest.approx(math.expm1(0.024841), rel=1e-4)
    assert smallest_visible_effect(found) == pytest.approx(math.expm1(0.030965), rel=1e-3)
    assert smallest_visible_effect(found, pairs=12) < smallest_visible_effect(found)  # type: ignore[operator]
    assert noise_floor(paired_interval(estimate([1.1]))) is None
    assert smallest_visible_effect(estimate([1.1])) is None


@pytest.mark.parametrize(
    ("values", "bimodal", "wide"),
    [
        ([10.4, 25.3, 10.4, 10.4, 11.3], True, True),  # the two modes that a median hides
        ([100.0, 100.1, 100.2, 104.0, 104.1], True, False),
        ([100.0, 100.01, 100.02, 101.0], False, False),  # a chance gap within the margin is no second mode
        ([100.0, 100.0, 130.0], False, True),  # three cells have no modes but may be wide
        ([100.0, 101.0, 130.0], False, True),
        ([100.0, 100.1, 103.0], False, False),
    ],
)
def test_cells_that_are_far_apart_are_wide_or_have_two_modes(values: list[float], bimodal: bool, wide: bool) -> None:
    found = scatter(values, 0.02)
    assert found is not None and (found.bimodal, found.wide) == (bimodal, wide)


def test_scatter_of_too_little_is_unknown() -> None:
    assert scatter([1.0], 0.02) is None
    assert scatter([0.0, 0.0], 0.02) is None


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [-1.0]])
def test_impossible_ratios_are_refused(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        estimate(ratios)


@pytest.mark.slow
def test_the_rest_of_the_engine_loads_without_scipy() -> None:
    modules = "engine.analysis.compare, engine.report.render"
    code = f"import sys, {modules}; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
