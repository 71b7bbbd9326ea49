"""Intervals and verdicts against values worked out by hand, and their properties."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from engine.statistics import (
    Interval,
    judge,
    noise_floor,
    paired_interval,
    pairs_needed,
    scatter,
    smallest_visible_effect,
)

ratio_lists = st.lists(st.floats(0.2, 5.0), min_size=2, max_size=12)


def test_interval_of_three_pairs_is_the_one_worked_out_by_hand() -> None:
    """Logs -1, 0, 1 (x 0.01): mean 0, sd 0.01, t(0.975, 2) = 4.302653, half = 0.01 x 4.302653 / sqrt(3)."""
    interval = paired_interval([math.exp(-0.01), 1.0, math.exp(0.01)])
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
        interval = paired_interval([math.exp(log) for log in logs], confidence)
        assert interval.low == pytest.approx(math.exp(0.10 - t * sd / math.sqrt(5)), rel=1e-6)
        assert interval.high == pytest.approx(math.exp(0.10 + t * sd / math.sqrt(5)), rel=1e-6)


def test_one_pair_is_a_ratio_without_interval_or_verdict() -> None:
    judgement = judge([0.8], 0.02)
    assert judgement.interval == Interval(pytest.approx(0.8), None, None, 1)
    assert (judgement.verdict, judgement.more_pairs) == ("none", None)


def test_two_pairs_give_an_interval_but_no_verdict() -> None:
    judgement = judge([0.80, 0.80], 0.02)
    assert judgement.interval.low is not None
    assert (judgement.verdict, judgement.more_pairs) == ("inconclusive", 1)


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
    assert judge(ratios, 0.02, "less" if better == "less" else "more").verdict == verdict


@given(ratio_lists, st.floats(0.005, 0.1))
def test_swapping_the_sides_mirrors_interval_and_direction(ratios: list[float], margin: float) -> None:
    there, back = paired_interval(ratios), paired_interval([1 / ratio for ratio in ratios])
    assert there.low is not None
    assert back.high is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)
    verdict, mirrored = judge(ratios, margin, "more").verdict, judge(ratios, margin, "less").verdict
    assert mirrored == {"faster": "slower", "slower": "faster"}.get(verdict, verdict)


@given(ratio_lists)
def test_a_verdict_of_change_never_has_one_inside_its_interval(ratios: list[float]) -> None:
    judgement = judge(ratios, 0.02)
    if judgement.verdict in ("faster", "slower"):
        assert judgement.interval.excludes_one()
        assert (judgement.interval.ratio > 1) == (judgement.verdict == "faster")
    if judgement.verdict != "inconclusive":
        assert judgement.more_pairs is None


@given(ratio_lists)
def test_more_pairs_of_the_same_kind_settle_what_was_inconclusive(ratios: list[float]) -> None:
    """Told "n more", n more with the same mean and standard deviation do give a verdict."""
    judgement = judge(ratios, 0.02)
    if judgement.more_pairs is None:
        return
    count = len(ratios) + judgement.more_pairs
    interval = paired_interval(ratios)
    half95 = math.log(interval.high / interval.ratio) if interval.high else 0
    sd = half95 * math.sqrt(len(ratios)) / special.stdtrit(len(ratios) - 1, 0.975)
    if count % 2:  # -a, 0, a has standard deviation a
        spread = [0.0] + [sd, -sd] * ((count - 1) // 2)
    else:
        spread = [sign * sd * math.sqrt((count - 1) / count) for sign in (1, -1)] * (count // 2)
    settled = judge([interval.ratio * math.exp(value) for value in spread], 0.02001)
    assert settled.verdict != "inconclusive" or abs(interval.ratio - 1) == pytest.approx(0.02, rel=0.01)


def test_pairs_needed_grows_with_scatter_and_has_an_end() -> None:
    quiet, noisy = ([math.exp(0.03 + sd), math.exp(0.03 - sd)] for sd in (0.01, 0.03))
    few, many = pairs_needed(quiet, 0.02), pairs_needed(noisy, 0.02)
    assert few is not None
    assert many is not None
    assert 1 <= few < many
    assert pairs_needed([0.2, 5.0], 0.02) is None
    assert pairs_needed([0.9], 0.02) is None


def test_noise_floor_and_smallest_visible_effect_of_an_aa_pair() -> None:
    """sd 0.01 over three pairs: half = 0.024841; at 80 % power (4.302653 + 1.060660) x 0.01 / sqrt(3)."""
    ratios = [math.exp(-0.01), 1.0, math.exp(0.01)]
    assert noise_floor(paired_interval(ratios)) == pytest.approx(math.expm1(0.024841), rel=1e-4)
    assert smallest_visible_effect(ratios) == pytest.approx(math.expm1(0.030965), rel=1e-3)
    assert smallest_visible_effect(ratios, pairs=12) < smallest_visible_effect(ratios)  # type: ignore[operator]
    assert noise_floor(paired_interval([1.1])) is None
    assert smallest_visible_effect([1.1]) is None


def test_the_two_modes_that_a_median_hides_are_flagged() -> None:
    found = scatter([10.4, 25.3, 10.4, 10.4, 11.3], 0.02)
    assert found is not None
    assert found.two_modes
    assert found.wide


def test_three_cells_have_no_modes_but_may_be_wide() -> None:
    for values in ([100.0, 100.0, 130.0], [100.0, 101.0, 130.0]):
        found = scatter(values, 0.02)
        assert found is not None
        assert (found.two_modes, found.wide) == (False, True)
    calm = scatter([100.0, 100.1, 103.0], 0.02)
    assert calm is not None
    assert not calm.flagged


def test_a_chance_gap_within_the_margin_is_no_second_mode() -> None:
    found = scatter([100.0, 100.01, 100.02, 101.0], 0.02)
    assert found is not None
    assert not found.two_modes
    two = scatter([100.0, 100.1, 100.2, 104.0, 104.1], 0.02)
    assert two is not None
    assert two.two_modes
    assert not two.wide


def test_scatter_of_too_little_is_unknown() -> None:
    assert scatter([1.0], 0.02) is None
    assert scatter([0.0, 0.0], 0.02) is None


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [-1.0]])
def test_impossible_ratios_are_refused(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        paired_interval(ratios)


def test_the_rest_of_the_engine_loads_without_scipy() -> None:
    code = "import sys, engine.compare, engine.report, engine.export; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
