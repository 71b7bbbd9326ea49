"""Intervals and tests against values worked out by hand, and their properties."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.statistics.inference import (
    ALPHA,
    Estimate,
    benjamini_hochberg_level,
    estimate,
    holm_shares,
    noise_floor,
    p_value,
    paired_interval,
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
    """t(0.975, 4) = 2.776445 and, for the 90% interval, t(0.95, 4) = 2.131847."""
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


@given(ratio_lists)
def test_swapping_the_sides_mirrors_the_interval(ratios: list[float]) -> None:
    there, back = paired_interval(estimate(ratios)), paired_interval(estimate([1 / ratio for ratio in ratios]))
    assert there.low is not None
    assert back.high is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)


def test_p_value_of_pairs_worked_out_by_hand() -> None:
    """Logs 0.01, 0.02, 0.03: t = 0.02 / (0.01 / sqrt(3)) = 3.464102, and with 2 degrees p = 1 - t / sqrt(t^2 + 2)."""
    pairs = estimate([math.exp(0.01), math.exp(0.02), math.exp(0.03)])
    assert p_value(pairs) == pytest.approx(1 - 3.464102 / math.sqrt(14), rel=1e-5)
    assert [p_value(estimate(ratios)) for ratios in ([0.8], [1.0, 1.0], [0.5, 0.5])] == [1.0, 1.0, 0.0]


@given(ratio_lists, st.floats(0.5, 0.999))
def test_the_p_value_is_where_the_interval_begins_to_hold_one(ratios: list[float], confidence: float) -> None:
    interval = paired_interval(estimate(ratios), confidence)
    assert interval.low is not None and interval.high is not None
    if min(abs(interval.low - 1), abs(interval.high - 1)) > 1e-9:
        assert (not interval.low <= 1 <= interval.high) == (p_value(estimate(ratios)) < 1 - confidence)


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
    shares = [holm_shares([p, 0.02, 0.5], lambda share: ALPHA * share**2) for p in (0.005, 0.006)]
    assert shares == [pytest.approx([1 / 3, 1 / 2, 1 / 2]), pytest.approx([1 / 3] * 3)]


def test_benjamini_and_hochberg_worked_out_by_hand() -> None:
    """0.05 x rank / 5: 0.01, 0.02, 0.03, 0.04, 0.05. The third is above its own, the fourth below: both are in."""
    assert benjamini_hochberg_level([0.9, 0.001, 0.039, 0.035, 0.015]) == 0.039
    assert benjamini_hochberg_level([0.5, 0.9]) == 0.0


def test_borrowed_degrees_of_freedom_narrow_interval_and_p() -> None:
    """sd 0.01, three pairs, 2 degrees more: t(0.975, 4) = 2.776445; and t = 2.776445 is p = 0.05."""
    lent = Estimate(2.776445 * 0.01 / math.sqrt(3), 0.01, 3, prior_degrees=2)
    assert paired_interval(lent).low == pytest.approx(1, abs=1e-8)
    assert p_value(lent) == pytest.approx(0.05, abs=1e-6)
    plain = Estimate(lent.mean, lent.sd, lent.pairs)
    assert p_value(plain) > p_value(lent)
    assert lent.of(5).degrees == 6


def test_noise_floor_and_smallest_visible_effect_of_an_aa_pair() -> None:
    """sd 0.01 over three pairs: half = 0.024841; at 80% power (4.302653 + 1.060660) x 0.01 / sqrt(3)."""
    pairs = estimate([math.exp(-0.01), 1.0, math.exp(0.01)])
    assert noise_floor(paired_interval(pairs)) == pytest.approx(math.expm1(0.024841), rel=1e-4)
    assert smallest_visible_effect(pairs) == pytest.approx(math.expm1(0.030965), rel=1e-3)
    assert smallest_visible_effect(pairs, pairs=12) < smallest_visible_effect(pairs)  # type: ignore[operator]
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
    spread = scatter(values, 0.02)
    assert spread is not None and (spread.bimodal, spread.wide) == (bimodal, wide)


def test_scatter_of_too_little_is_unknown() -> None:
    assert scatter([1.0], 0.02) is None
    assert scatter([0.0, 0.0], 0.02) is None


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [-1.0]])
def test_impossible_ratios_are_refused(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        estimate(ratios)


@pytest.mark.slow
def test_the_rest_of_the_engine_loads_without_scipy() -> None:
    modules = "engine.analysis.answer.compare, engine.report.render"
    code = f"import sys, {modules}; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
