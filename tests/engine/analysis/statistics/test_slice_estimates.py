"""The estimator of slices against values worked out by hand, and its properties."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev, variance

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from engine.analysis.ratios.three_sided import judge, pairs_needed
from engine.analysis.statistics.inference import estimate, p_value, paired_interval, smallest_visible_effect
from engine.analysis.statistics.slice_estimates import (
    SelfCheck,
    Slices,
    Typical,
    best_blocks,
    by_kind,
    halves,
    log_ratio,
    planned,
    pooled,
    self_check,
    typical,
    typical_of,
    within_pair,
)
from engine.results import slice_ratio
from engine.results.slice_ratio import LogRatio, half_width_at_every_moment

Floats = npt.NDArray[np.float64]
Between = tuple[Slices, Slices]


def server(work: Sequence[float] | Floats, time: Sequence[float] | Floats | None = None) -> Slices:
    """A server from its work in each block and, unless that is 1, the time; half of it in each slice."""
    done = np.asarray(work, dtype=np.float64)
    spent = np.ones_like(done) if time is None else np.asarray(time, dtype=np.float64)
    return Slices(np.column_stack([done / 2, done / 2]), np.column_stack([spent / 2, spent / 2]))


def noisy(seed: int, count: int = 60, related: float = 0.0, sd: float = 0.1, rate: float = 1.0) -> Between:
    """Two servers that do `count` blocks side by side: the other at `rate` times the base's, with errors of their own.

    `related` is the autocorrelation of those from one block to the next.
    """
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, sd, (2, count))
    for block in range(1, count):
        logs[:, block] = related * logs[:, block - 1] + math.sqrt(1 - related**2) * logs[:, block]
    time = rng.uniform(0.8, 1.2, count)
    base, other = (server(np.exp(log) * time * scale, time) for log, scale in zip(logs, (1, rate), strict=True))
    return base, other


def figures(ratio: LogRatio) -> tuple[float, float]:
    """Ratio and variance, where there is one."""
    assert ratio.variance is not None
    return ratio.theta, ratio.variance


seeds = st.integers(0, 2**32)


# Level 1


def test_the_ratio_of_totals_has_no_error_for_few_blocks() -> None:
    """Base 12 in 6, other 9 in 3: 3 / 2. The mean of the blocks' ratios would be another."""
    ratio = log_ratio(server([2, 4, 6], [1, 2, 3]), server([1, 2, 6], [1, 1, 1]))
    assert (ratio.theta, ratio.variance, ratio.blocks) == (pytest.approx(math.log(1.5)), None, 3)


def test_the_error_of_alternating_blocks_has_a_lower_bound() -> None:
    """u = d, -d, d, …: autocovariances take the sum below 0; v = g0 / (Q - 1) = d^2 / 19."""
    ratio = log_ratio(server([1] * 20), server([1.1, 0.9] * 10))
    assert ratio.theta == pytest.approx(0, abs=1e-12)
    assert ratio.variance == pytest.approx(0.01 / 19)


def test_the_error_of_blocks_that_change_once_worked_out_by_hand() -> None:
    """u = d ten times, -d ten times: g_l = (20 - 3 l) / 20 d^2, r = 0.85, a = 37.53, 1.1447 (20 a)^(1/3) = 10.4.

    So b = Q / 3 = 6 and LRV = d^2 (1 + 2 sum_l (1 - l / 7) (20 - 3 l) / 20) = d^2 (1 + 2 x 1.8) = 4.6 d^2.
    """
    ratio = log_ratio(server([1] * 20), server([1.1] * 10 + [0.9] * 10))
    assert ratio.variance == pytest.approx(4.6 * 0.01 / 19)


def test_the_error_with_andrews_bandwidth_worked_out_by_hand() -> None:
    """u = d, d, -d, -d, …, 60 blocks: r = 1 / 60, a = 0.00111, 1.1447 (60 a)^(1/3) = 0.46, b = 1, LRV = d^2 61 / 60."""
    ratio = log_ratio(server([1] * 60), server([1.1, 1.1, 0.9, 0.9] * 15))
    assert ratio.variance == pytest.approx(0.01 * 61 / 60 / 59)


@pytest.mark.parametrize(
    ("step", "turn", "count", "r", "b"), [(0.08, 0.06, 200, 0.27, 5), (0.09, 0.02, 1000, 0.903, 53)]
)
def test_the_error_of_quick_and_slow_changes_worked_out_by_hand(
    step: float, turn: float, count: int, r: float, b: int
) -> None:
    """a = 0.34 and 95.9, so 1.1447 (a Q)^(1/3) = 4.7 and 52.4."""
    u = [(step if block < count / 2 else -step) + (turn if block % 2 else -turn) for block in range(count)]
    g = [sum(u[block] * u[block - lag] for block in range(lag, count)) / count for lag in range(b + 1)]
    assert g[1] / g[0] == pytest.approx(r, abs=0.01)
    ratio = log_ratio(server([1] * count), server([1 + term for term in u]))
    lrv = g[0] + 2 * sum((1 - lag / (b + 1)) * g[lag] for lag in range(1, b + 1))
    assert ratio.variance == pytest.approx(lrv / (count - 1))


def test_time_counts_as_work_does() -> None:
    """Twice the time in a block for the same work moves u by as much as that time is above its mean."""
    time = [1.1, 0.9] * 10
    assert log_ratio(server([1] * 20), server([1] * 20, time)).variance == pytest.approx(0.01 / 19)
    assert log_ratio(server(time, time), server([1] * 20)).variance == pytest.approx(0, abs=1e-30)


@given(seeds)
def test_what_neighbours_do_to_both_alike_makes_no_error(seed: int) -> None:
    load = np.random.default_rng(seed).uniform(0.2, 1, 40)
    ratio = log_ratio(server(load), server(0.97 * load))
    assert ratio.theta == pytest.approx(math.log(0.97))
    assert ratio.variance == pytest.approx(0, abs=1e-30)


@given(seeds, st.floats(0, 0.9))
def test_swapping_the_servers_mirrors_ratio_and_trimmed_mean(seed: int, related: float) -> None:
    base, other = noisy(seed, related=related)
    there, back = log_ratio(base, other), log_ratio(other, base)
    assert (-there.theta, there.variance) == pytest.approx(figures(back))
    trimmed, mirrored = typical(base, other), typical(other, base)
    assert trimmed and mirrored
    assert trimmed.log_ratio == pytest.approx(-mirrored.log_ratio)
    assert trimmed.variance == pytest.approx(mirrored.variance)
    assert trimmed.gap == pytest.approx(-mirrored.gap, abs=1e-12)
    assert trimmed.has_rare_events() == mirrored.has_rare_events()


@given(seeds, st.floats(0.01, 100), st.floats(0.01, 100))
def test_scaling_both_servers_changes_nothing(seed: int, by: float, more: float) -> None:
    base, other = noisy(seed)

    def scaled(slices: Slices, work: float, time: float) -> Slices:
        return Slices(slices.numerators * work, slices.denominators * time)

    plain = log_ratio(base, other)
    both = log_ratio(scaled(base, by, more), scaled(other, by, more))
    assert figures(both) == pytest.approx(figures(plain), abs=1e-12)
    one = log_ratio(base, scaled(other, by, more))
    assert figures(one) == pytest.approx((plain.theta + math.log(by / more), figures(plain)[1]), abs=1e-12)


@pytest.mark.parametrize(("related", "count", "least"), [(0.0, 60, 0.92), (0.2, 400, 0.92), (0.5, 400, 0.9)])
def test_a_planted_effect_is_in_the_interval_as_promised(related: float, count: int, least: float) -> None:
    """Blocks that are much alike need more: Newey and West's error is known to be too small then."""
    ratios = [log_ratio(*noisy(seed, count, related, rate=0.95)) for seed in range(300)]
    held = fmean(abs(ratio.theta - math.log(0.95)) <= 1.96 * math.sqrt(ratio.variance or 0) for ratio in ratios)
    assert least <= held <= 0.98
    assert fmean(ratio.theta for ratio in ratios) == pytest.approx(math.log(0.95), abs=0.003)


@pytest.mark.parametrize("work", [[0.0] * 20, [-1.0] * 20])
def test_a_server_that_did_nothing_has_no_ratio(work: list[float]) -> None:
    for pair in ((server(work), server([1] * 20)), (server([1] * 20), server([1] * 20, work))):
        with pytest.raises(ValueError, match="counted something"):
            log_ratio(*pair)


# The trimmed mean


def test_the_trimmed_mean_and_its_error_worked_out_by_hand() -> None:
    """Logs: 4 of 20 at either end are cut, so 1 and -0.5 become h and -h; v = h^2 / 0.6^2 / 19. Their mean: 0."""
    h = 0.1
    logs = [h, -h, 1, -h, h, -0.5, 1, -0.5, h, -h, 1, -0.5, 1, -h, h, -0.5, h, -h, h, -h]
    middle = typical(server([1] * 20), server(np.exp(logs)))
    assert middle
    assert middle.log_ratio == pytest.approx(0, abs=1e-12)
    assert middle.variance == pytest.approx(h**2 / 0.36 / 19)


def test_a_fifth_of_the_blocks_is_cut_at_either_end() -> None:
    """Squares of 4 to 15 are kept among 0 to 19: (1240 - 14) / 12."""
    middle = typical(server([1] * 20), server(np.exp(np.arange(20.0)[::-1] ** 2 / 1000)))
    assert middle and middle.log_ratio == pytest.approx(0.1226 / 1.2)


def test_blocks_without_work_count_and_without_time_do_not() -> None:
    work, base = np.array([1.1, 0.9] * 20), server([1] * 41)
    stalled = typical(base, server([*work, 0]))
    assert stalled
    assert math.isfinite(stalled.log_ratio + stalled.variance)
    left_out, without = typical(base, server([*work, 0], [1] * 40 + [0])), typical(server([1] * 40), server(work))
    assert left_out and without
    assert (left_out.log_ratio, left_out.variance) == pytest.approx((without.log_ratio, without.variance))
    assert typical(base, server([0] * 20 + [1] * 21)) is None
    assert typical(server([1] * 19), server([1] * 19)) is None


def test_rare_stalls_change_the_total_but_not_the_typical() -> None:
    """The other stands still for a fifth of every tenth block: 2% of the total."""
    base, other = noisy(1, 200, sd=0.01)
    stalls = np.where(np.arange(200) % 10 == 5, 1.2, 1.0)[:, None]
    stalling = Slices(other.numerators, other.denominators * stalls)
    middle = typical(base, stalling)
    assert middle
    assert log_ratio(base, stalling).theta == pytest.approx(-math.log(1.02), abs=0.004)
    assert middle.log_ratio == pytest.approx(0, abs=0.004)
    assert middle.gap == pytest.approx(log_ratio(base, stalling).theta - middle.log_ratio)
    assert middle.has_rare_events() and not middle.has_rare_events(inflation=10_000)
    once = Typical(0.0, 0.004, 0.0204, 0.0001)  # 2.04 errors: significant at 5%, not at 1%
    assert once.has_rare_events() and not once.has_rare_events(level=0.01)
    assert typical_of([once, replace(once, gap=0.0)]) == Typical(0.0, 0.002, 0.0102, 0.00005)
    assert not typical_of([once, replace(once, gap=0.0)]).has_rare_events()


def test_a_server_that_is_slower_all_the_time_has_no_rare_events() -> None:
    middles = [typical(*noisy(seed, 100, rate=0.9)) for seed in range(300)]
    assert 0.02 < fmean(middle is not None and middle.has_rare_events() for middle in middles) < 0.1, "a test at 5%"


def test_the_interval_of_a_pair_is_that_of_its_log_ratio() -> None:
    low, high = within_pair(LogRatio(math.log(0.9), 0.0001, 40)) or (0.0, 0.0)
    assert (low, high) == pytest.approx((0.9 * math.exp(-0.0196), 0.9 * math.exp(0.0196)), rel=1e-5)
    wider = within_pair(LogRatio(math.log(0.9), 0.0001, 40), inflation=4)
    assert wider is not None and wider[0] == pytest.approx(0.9 * math.exp(-0.0392), rel=1e-5)
    assert within_pair(LogRatio(0.0, None, 10)) is None


# How slices check themselves


def by_slice(rates: Sequence[float], count: int) -> Slices:
    """A server whose slices of each two blocks did a1, a2, a3, a4, in a time of 1 each."""
    work = np.array(rates, dtype=np.float64).reshape(2, 2)
    return Slices(np.tile(work, (count // 2, 1)), np.ones((count, 2)))


def own_ratio(server: Slices) -> LogRatio:
    return slice_ratio.log_ratio(*halves(server))


ABBA, TIME = by_slice([1, 2, 3, 7], 42), by_slice([4, 3, 2, 1], 42)


@pytest.mark.parametrize(
    ("side", "ratio", "blocks"),
    [
        (by_slice([1, 2, 3, 7], 40), (1 + 7) / (2 + 3), 20),
        (Slices(ABBA.numerators[:41], ABBA.denominators[:41]), (1 + 7) / (2 + 3), 20),  # an odd last one is left out
        (Slices(ABBA.numerators, TIME.numerators), ((1 + 7) / (4 + 1)) / ((2 + 3) / (3 + 2)), 21),
        # A linear drift is none of it: in ABBA ABBA the base has places 0, 3, 4, 7 and the other 1, 2, 5, 6.
        (by_slice([100, 97, 96, 93], 40), 1.0, 20),
        (by_slice([99, 98, 95, 94], 40), 1.0, 20),
    ],
)
def test_a_servers_own_ratio_is_outer_to_inner_slices(side: Slices, ratio: float, blocks: int) -> None:
    rate = own_ratio(side)
    assert (rate.theta, rate.variance, rate.blocks) == pytest.approx((math.log(ratio), 0, blocks))


def test_the_self_check_worked_out_by_hand() -> None:
    """z = 2 and 0: f^2 = (4 + 0) / 2. Ratios without an error say nothing."""
    check = self_check([LogRatio(0.02, 0.0001, 50), LogRatio(0.0, 0.0001, 50), LogRatio(0.5, None, 10)])
    assert (check.f, check.ratios) == (pytest.approx(math.sqrt(2)), 2)
    assert check.inflation == pytest.approx(2)
    assert self_check([]) == SelfCheck(1.0, 0)


@pytest.mark.parametrize(
    ("f", "inflation", "suspect", "withheld"),
    [(0.5, 1, False, False), (1.5, 2.25, False, False), (1.6, 2.56, True, False), (2.1, 4.41, True, True)],
)
def test_errors_are_never_narrowed_and_large_ones_are_told(
    f: float, inflation: float, suspect: bool, withheld: bool
) -> None:
    check = SelfCheck(f, 60)
    assert (check.inflation, check.suspect, check.withheld) == (pytest.approx(inflation), suspect, withheld)


def test_the_self_check_sees_whether_errors_are_as_promised() -> None:
    """Slices that are slow in whole turns, always a server's outer ones, are what no error of blocks can know."""
    rng = np.random.default_rng(1)
    honest = [Slices(np.exp(rng.normal(0, 0.1, (100, 2))), np.ones((100, 2))) for _ in range(200)]
    assert self_check([own_ratio(slices) for slices in honest]).f == pytest.approx(1, abs=0.1)
    outer = np.tile([[1.0, 0.9], [0.9, 1.0]], (50, 1))
    biased = [Slices(slices.numerators * outer, slices.denominators) for slices in honest]
    assert self_check([own_ratio(slices) for slices in biased]).withheld


# Level 2


def pairs_of(thetas: Sequence[float], v: float | None) -> list[LogRatio]:
    """Pairs with these log ratios, each with a level-1 variance `v`."""
    return [LogRatio(theta, v, 100 if v is not None else 10) for theta in thetas]


# The scatter of three pairs has the exponential distribution: it counts up to ln 10, and 0.9 is expected of it.
THREE_PAIRS, MOST = 0.9, math.log(10)


def test_one_step_worked_out_by_hand() -> None:
    """S^2 / 0.9 = 4e-4 and v = 1e-4, so tau^2 = 3e-4; no other step lends it degrees of freedom."""
    far = 0.02 * math.sqrt(THREE_PAIRS)
    pool = pooled([pairs_of([-far, 0.0, far], 1e-4)])
    (step,) = pool.steps
    assert pool.tau == pytest.approx(math.sqrt(3e-4))
    assert step.estimate.sd**2 == pytest.approx(3.6e-4)
    assert (step.estimate.degrees, step.estimate.prior_degrees) == (2, 0)
    assert step.within == pytest.approx(0.01)


def test_two_steps_share_what_they_know_of_clusters() -> None:
    """S^2 = 3.6e-4 and 0: tau^2 + v = 2e-4, d0 = 2; s^2 = (4e-4 + 7.2e-4) / 4, 4e-4 / 4; t(0.975, 4) = 2.776445."""
    far = 0.02 * math.sqrt(THREE_PAIRS)
    pool = pooled([pairs_of([0.10 - far, 0.10, 0.10 + far], 1e-4), pairs_of([0.0, 0.0, 0.0], 1e-4)])
    assert pool.tau == pytest.approx(0.01)
    wide, narrow = (step.estimate for step in pool.steps)
    assert (wide.sd**2, narrow.sd**2) == (pytest.approx(11.2e-4 / 4), pytest.approx(4e-4 / 4))
    half = 2.776445 * math.sqrt(11.2e-4 / 4 / 3)
    interval = paired_interval(wide)
    assert (interval.low, interval.high) == (
        pytest.approx(math.exp(0.10 - half), rel=1e-6),
        pytest.approx(math.exp(0.10 + half), rel=1e-6),
    )


@given(st.lists(st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=3), min_size=1, max_size=10), st.floats(0, 1e-3))
def test_tau_solves_paule_and_mandels_equation(thetas: list[list[float]], v: float) -> None:
    steps = [pairs_of(row, v * (1 + place)) for place, row in enumerate(thetas)]
    tau = pooled(steps).tau
    mean = fmean(min(variance(row) / (tau**2 + v * (1 + place)), MOST) for place, row in enumerate(thetas))
    if tau > 0.005 * (1 + 1e-9):
        assert mean == pytest.approx(THREE_PAIRS, abs=1e-6)
    else:
        assert mean <= THREE_PAIRS + 1e-9


@pytest.mark.slow
def test_a_step_with_more_pairs_counts_for_more() -> None:
    """S^2 = 2e-4 of two pairs and 8e-4 of four: (tau^2 + v) (e1 + 3 e3) = (2 + 3 x 8) x 1e-4."""
    four = math.sqrt(6e-4)
    pool = pooled([pairs_of([0.0, 0.02], 0.0), pairs_of([four, -four, four, -four], 0.0)])
    e1, e3 = (chi2(df).expect(lambda x, df=df: min(x, chi2(df).ppf(0.9)) / df) for df in (1, 3))
    assert pool.tau == pytest.approx(math.sqrt(26e-4 / (e1 + 3 * e3)), rel=1e-4)


def test_each_kind_of_steps_has_a_scatter_of_its_own() -> None:
    wide, narrow = pairs_of([0.03, -0.03, 0.03, -0.03], 1e-6), pairs_of([0.001, -0.001, 0.001, -0.001], 1e-6)
    kinds = ["point", "range", "point", "range"]
    estimates = by_kind(kinds, [wide, narrow, wide, narrow])
    apart = {"point": pooled([wide] * 2), "range": pooled([narrow] * 2)}
    assert estimates == [apart[kind].steps[0] for kind in kinds]
    assert estimates[0].tau > 0.03 and estimates[1].tau == 0.005


def test_a_step_with_two_modes_widens_no_other() -> None:
    alike = [pairs_of([0.01, -0.01, 0.02, -0.02, 0.01, -0.01], 1e-4) for _ in range(9)]
    modes = [0.8, 0.0, -0.8, 0.0, 0.8, 0.0]
    without, pool = pooled(alike), pooled([*alike, pairs_of(modes, 1e-4)])
    assert pool.tau < 1.3 * without.tau
    assert pool.steps[0].estimate.sd < 1.15 * without.steps[0].estimate.sd
    apart = pool.steps[-1].estimate
    assert (apart.sd, apart.prior_degrees) == (pytest.approx(stdev(modes)), 0.0)


def test_clusters_are_never_alike_and_slices_never_perfect() -> None:
    quiet = pooled([pairs_of([0.01, 0.01, 0.01], 0.0)] * 2)
    assert quiet.tau == 0.005
    assert quiet.steps[0].estimate.sd == pytest.approx(math.sqrt(2 * 0.005**2 / 4))
    loaded = pooled([pairs_of([0.01] * 8, 0.01)] * 3).steps[0].estimate
    assert loaded.prior_degrees == 12
    assert loaded.sd == pytest.approx(0.1), "at least the level-1 error"


def test_the_self_check_widens_level_1() -> None:
    plain, widened = (pooled([pairs_of([-0.02, 0.0, 0.02], 1e-4)], by) for by in (1, 3))
    assert (plain.steps[0].within, widened.steps[0].within) == (pytest.approx(0.01), pytest.approx(math.sqrt(3e-4)))
    explained = pytest.approx(math.sqrt(4e-4 / THREE_PAIRS - 3e-4))
    assert widened.tau == explained, "what slices explain is no longer put down to clusters"


def test_a_single_pair_tells_of_its_two_clusters_only() -> None:
    (step,) = pooled([pairs_of([-0.10], 1e-4)]).steps
    assert step.within == pytest.approx(0.01)
    assert paired_interval(step.estimate).low is None
    assert (judge(step.estimate, 0.02).verdict, p_value(step.estimate)) == ("none", 1.0)


def test_two_pairs_never_have_a_verdict_and_three_may() -> None:
    two, three = (pooled([pairs_of([-0.10] * count, 1e-6)]).steps[0].estimate for count in (2, 3))
    assert (judge(two, 0.02).verdict, judge(three, 0.02).verdict) == ("undecided", "slower")
    assert pairs_needed(two, 0.02) == 1
    assert judge(three, 0.02, "less").verdict == "faster"


def test_steps_without_errors_within_pairs_use_their_scatter() -> None:
    thetas = [0.02, 0.05, 0.03]
    unsliced, sliced, _ = pooled([pairs_of(thetas, None), *[pairs_of([-0.01, 0.0, 0.01], 1e-5)] * 2]).steps
    lent, plain = paired_interval(unsliced.estimate), paired_interval(estimate([math.exp(theta) for theta in thetas]))
    assert (lent.ratio, lent.low, lent.high) == pytest.approx((plain.ratio, plain.low, plain.high))
    assert (unsliced.within, sliced.estimate.prior_degrees > 0) == (None, True)
    with pytest.raises(ValueError, match="at least one pair"):
        pooled([[]])


@given(st.lists(st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=5), min_size=1, max_size=5), st.floats(1e-8, 1e-3))
def test_swapping_the_servers_mirrors_the_intervals(thetas: list[list[float]], v: float) -> None:
    there = pooled([pairs_of(row, v) for row in thetas])
    back = pooled([pairs_of([-theta for theta in row], v) for row in thetas])
    assert there.tau == pytest.approx(back.tau)
    for one, other in zip(there.steps, back.steps, strict=True):
        interval, mirrored = paired_interval(one.estimate), paired_interval(other.estimate)
        assert interval.low and mirrored.high
        assert interval.low == pytest.approx(1 / mirrored.high)
        assert p_value(one.estimate) == pytest.approx(p_value(other.estimate))


# While it runs, and before


def test_what_is_shown_while_it_runs_worked_out_by_hand() -> None:
    """Planned 300: r = (5.99146 + ln 6.99146) / 100 = 0.0793615; after 100 blocks 3.03521 standard errors."""
    assert half_width_at_every_moment(LogRatio(0.0, 1e-4, 100), 300) == pytest.approx(0.0303521, rel=1e-5)
    assert half_width_at_every_moment(LogRatio(0.0, None, 10), 300) is None


def test_how_many_blocks_a_pair_should_have() -> None:
    """A pair that costs 4 s a step, blocks of 0.2 s: 125 on a loaded guest, 9 on a quiet host."""
    assert best_blocks(4, 0.2, sigma=0.28, tau=0.01) == 125
    assert best_blocks(4, 0.2, sigma=0.02, tau=0.01) == 9
    assert best_blocks(4, 0.2, sigma=0.0001, tau=0.01) == 1


def test_the_smallest_effect_that_a_plan_would_show() -> None:
    """tau 1%, 3 pairs, ten steps: (t(0.9975, 4) + t(0.8, 4)) x 0.01 / sqrt(3) = (5.597568 + 0.940965) x 0.0057735."""
    few = planned(tau=0.01, within=0.0, pairs=3, alike=2)
    assert smallest_visible_effect(few, level=0.05 / 10) == pytest.approx(math.expm1(0.037750), rel=1e-4)
    five, loaded = planned(0.01, 0.0, 5, 3), planned(0.01, 0.02, 5, 3)
    visible = [smallest_visible_effect(plan, level=0.05 / 10) or 0 for plan in (few, five, loaded)]
    assert visible[1] < visible[0]
    assert visible[1] < visible[2]
    assert [planned(0.01, 0.02, pairs, 3).prior_degrees for pairs in (5, 8)] == [8, pytest.approx(10)]


# Pairs of unequal length


def of_length(theta: float, v: float, seconds: float) -> LogRatio:
    return LogRatio(theta, v, 100, seconds)


def test_pairs_of_unequal_length_worked_out_by_hand() -> None:
    """Pairs of 4 s and 48 s have variances of 3.25e-4 and 5e-5 by tau^2 = 2.5e-5 and noise of 12e-4 per second.

    With two of either the harmonic mean is 4 / (2 / 3.25e-4 + 2 / 5e-5) = 8.667e-5, so weights are 0.2667 and 1.7333.
    """
    pairs = [of_length(theta, 12e-4 / s, s) for theta, s in ((0.03, 4), (0.01, 4), (-0.001, 48), (0.001, 48))]
    alone = pooled([pairs, *[pairs_of([0.0] * 4, 1e-6)] * 2])
    assert alone.tau == 0.005
    estimated = alone.steps[0].estimate
    assert estimated.mean == pytest.approx(0.2667 * 0.04 / 4, rel=1e-3), "the plain mean would be 0.01"
    total = 4 / (2 / 3.25e-4 + 2 / 5e-5)
    d0 = 6  # twice its own; by its variance it would be 6.9
    scatter = (
        0.26667 * ((0.03 - estimated.mean) ** 2 + (0.01 - estimated.mean) ** 2)
        + 1.73333 * ((0.001 + estimated.mean) ** 2 + (0.001 - estimated.mean) ** 2)
    ) / 3
    assert estimated.prior_degrees == pytest.approx(d0)
    assert estimated.sd**2 == pytest.approx((d0 * total + 3 * scatter) / (d0 + 3), rel=1e-3)


def test_pairs_of_equal_length_are_judged_as_ever() -> None:
    rows = [[0.01, -0.02, 0.03], [0.0, 0.01, 0.0]]
    plain = pooled([pairs_of(row, 1e-4) for row in rows])
    assert pooled([[of_length(theta, 1e-4, 8.0) for theta in row] for row in rows]).steps == plain.steps


def test_weights_follow_lengths_and_not_a_pairs_own_error() -> None:
    lucky = [of_length(0.02, 1e-6, 4.0), of_length(0.0, 2e-4, 4.0), of_length(0.0, 1e-4, 8.0)]
    unlucky = [of_length(0.02, 2e-4, 4.0), of_length(0.0, 1e-6, 4.0), of_length(0.0, 1e-4, 8.0)]
    one, other = (pooled([pairs]).steps[0].estimate.mean for pairs in (lucky, unlucky))
    assert one == other
