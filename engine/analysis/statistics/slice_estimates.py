"""Estimates from slices: servers up side by side, interleaved, compared within a pair of clusters and between pairs.

Level 1 is one step and metric of one pair: the ratio of totals over its blocks, with an error that allows for the
correlation of neighbouring blocks. Level 2 is the pairs of fresh clusters: their scatter is judged together with that
of other steps of the same kind, because three pairs say little of it, and kinds differ in it. Slices check themselves:
a ratio whose truth is 1 is formed from each server's own. All ratios are other / base, in natural logs; a variance is
in squares of those.

Sources, besides those of `engine.results.slice_ratio`, which has the error of a ratio: Paule and Mandel 1982; moderated
variances, Smyth 2004 (limma); how many of which level, Kalibera and Jones 2013 (10.1145/2464157.2464160). Verdicts on
an `Estimate` are given by `analysis.ratios.three_sided.judge`, which loads scipy: import this late, too. How well
promises are kept is simulated in tests/perf/coverage.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

import numpy as np
import numpy.typing as npt

from engine.analysis.statistics.inference import ALPHA, CONFIDENCE, Estimate, bounded_scatter, scatter_quantile
from engine.results import slice_ratio
from engine.results.slice_ratio import (
    MIN_BLOCKS,
    MIN_TAU,
    LogRatio,
    Sums,
    prior_degrees,
    ratio_of,
    standard_deviation,
    variance_of_mean,
)

TRIMMED = 0.2  # of the blocks, at each end
SUSPECT, WITHHELD = 1.5, 2.0  # inflation in the self-check: a finding; no verdict
BOUNDED = 0.9  # quantile of a step's scatter: up to it the step counts in that of all, beyond it is judged alone
FEW_PAIRS = 6  # with fewer, other steps lend a step at most twice the degrees of freedom that it has itself
TAU_PRECISION = 1e-9  # relative error of tau^2

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Slices:
    """One server's slices in a step: arrays of shape (blocks, 2), its two turns of each block in order of time.

    `numerators` are operations and `denominators` counted ns for a rate; CPU ns and operations for CPU per operation.
    """

    numerators: Floats
    denominators: Floats


@dataclass(frozen=True, slots=True)
class Typical:
    """The trimmed mean of the blocks' log ratios, and its variance.

    `gap` is the log of the ratio of totals less this one, `gap_variance` the variance of that difference.
    """

    log_ratio: float
    variance: float
    gap: float
    gap_variance: float

    def has_rare_events(self, level: float = ALPHA, inflation: float = 1.0) -> bool:
        """Whether the gap exceeds its error at `level`: rare events (stalls) in few blocks then affect the total."""
        return abs(self.gap) > _normal(1 - level) * math.sqrt(self.gap_variance * inflation)


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """Factor `f` by which errors exceed the promised ones, from `ratios` ratios whose truth is 1; 1 without any."""

    f: float
    ratios: int

    @property
    def inflation(self) -> float:
        return max(1.0, self.f**2)

    @property
    def suspect(self) -> bool:
        return self.f > SUSPECT

    @property
    def withheld(self) -> bool:
        return self.f > WITHHELD


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Level 2, one step and metric: the input of `judge`, `p_value` and `paired_interval`, and the error within a pair.

    `within` is the level-1 standard error of one pair's log ratio, None if no pair has one. There is never a verdict
    below three pairs (`judge` sees to it); a single pair has `within` only. `tau` is that of its kind.
    """

    estimate: Estimate
    within: float | None
    tau: float = MIN_TAU


@dataclass(frozen=True, slots=True)
class Pooled:
    """Level 2 of one kind and metric: `tau` is the standard deviation of the log ratio between pairs of clusters."""

    tau: float
    steps: tuple[StepEstimate, ...]


def log_ratio(base: Slices, other: Slices) -> LogRatio:
    """Level 1: the ratio of totals, without a variance below `MIN_BLOCKS`. Raises ValueError for totals <= 0."""
    return slice_ratio.log_ratio(sums(base), sums(other))


def typical(base: Slices, other: Slices) -> Typical | None:
    """The trimmed mean of the blocks' log ratios; None if it rests on fewer than `MIN_BLOCKS` blocks.

    Blocks in which numerator and denominator of a side are 0 are left out. The variance is that of the influence
    function (winsorised values / (1 - 2 x `TRIMMED`), Huber 1981), allowing for neighbours as for the totals.
    """
    both = sums(base), sums(other)
    (base_x, base_y), (other_x, other_y) = np.array(both)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(other_x / other_y) - np.log(base_x / base_y)
    known = ~np.isnan(logs)
    logs = logs[known]
    if len(logs) < MIN_BLOCKS:
        return None
    ordered = np.sort(logs)
    cut = int(TRIMMED * len(logs))
    kept = ordered[cut : len(logs) - cut]
    middle = float(kept.mean())
    if not math.isfinite(middle):
        return None
    winsorised = np.clip(logs, kept[0], kept[-1])
    influence = (winsorised - winsorised.mean()) / (1 - 2 * TRIMMED)
    totals = np.array(slice_ratio.influence(*both))[known]
    gap = slice_ratio.log_of_totals(*both) - middle
    gap_variance = variance_of_mean((totals - totals.mean() - influence).tolist())
    return Typical(middle, variance_of_mean(influence.tolist()), gap, gap_variance)


def typical_of(pairs: Sequence[Typical]) -> Typical:
    """The mean of several pairs of clusters; its variances are those within these."""
    count = len(pairs)
    return Typical(
        fmean(pair.log_ratio for pair in pairs),
        sum(pair.variance for pair in pairs) / count**2,
        fmean(pair.gap for pair in pairs),
        sum(pair.gap_variance for pair in pairs) / count**2,
    )


def within_pair(ratio: LogRatio, inflation: float = 1.0) -> tuple[float, float] | None:
    """The 95% interval of a pair's ratio, for these two clusters; None without a variance."""
    if ratio.variance is None:
        return None
    half = _normal(CONFIDENCE) * math.sqrt(ratio.variance * inflation)
    return ratio_of(ratio.theta - half), ratio_of(ratio.theta + half)


def halves(server: Slices) -> tuple[Sums, Sums]:
    """The inner and the outer slices of each two blocks, whose ratio (a1 + a4) / (a2 + a3) is 1 in truth.

    An odd last block is left out.
    """
    count = len(server.numerators) // 2
    x, y = (values[: 2 * count].reshape(count, 4) for values in (server.numerators, server.denominators))
    inner, outer = ([(part[:, i] + part[:, j]).tolist() for part in (x, y)] for i, j in ((1, 2), (0, 3)))
    return (inner[0], inner[1]), (outer[0], outer[1])


def own_ratio(server: Slices) -> LogRatio | None:
    """The ratio of a server's outer to its inner slices, whose truth is 1; None if nothing was done in either."""
    inner, outer = halves(server)
    done = all(sum(part) > 0 for part in (*inner, *outer))
    return slice_ratio.log_ratio(inner, outer) if done else None


def sums(server: Slices) -> Sums:
    """A server's numerators and denominators, by block."""
    return server.numerators.sum(axis=1).tolist(), server.denominators.sum(axis=1).tolist()


def self_check(own_ratios: Sequence[LogRatio]) -> SelfCheck:
    """Check the promised errors on ratios whose truth is 1, of all steps, pairs and servers: f^2 = mean theta^2 / v."""
    squares = [ratio.theta**2 / ratio.variance for ratio in own_ratios if ratio.variance]
    return SelfCheck(math.sqrt(fmean(squares)) if squares else 1.0, len(squares))


def by_kind(kinds: Sequence[str], steps: Sequence[Sequence[LogRatio]], inflation: float = 1.0) -> list[StepEstimate]:
    """Level 2 of steps of these kinds: clusters may differ by more in point queries, say, than in range queries."""
    of_kind: dict[str, list[Sequence[LogRatio]]] = {kind: [] for kind in kinds}
    for kind, pairs in zip(kinds, steps, strict=True):
        of_kind[kind].append(pairs)
    by_kind_steps = {kind: iter(pooled(steps_of, inflation).steps) for kind, steps_of in of_kind.items()}
    return [next(by_kind_steps[kind]) for kind in kinds]


def pooled(steps: Sequence[Sequence[LogRatio]], inflation: float = 1.0) -> Pooled:
    """Level 2: for every step the mean of its pairs, with a scatter moderated by that of all steps of its kind.

    `steps` has the pairs of every interleaved step of one kind and metric; `inflation` is the self-check's. The scatter
    is s^2 = max(v, (d0 (tau^2 + v) + (P - 1) S^2) / (d0 + P - 1)): it combines the step's own (S^2, P pairs) with the
    likely scatter of their clusters and of slices (v), with d0 = 2 (tau^2 + v) / tau^2 degrees of freedom, at most 12,
    at most those of the other steps, and of few pairs (`FEW_PAIRS`) at most 2 (P - 1). A step without level-1 variances
    is judged by its own scatter alone, and so is one with two modes, say, that scatters more than chance allows nine
    steps in ten (`BOUNDED`); pairs of unequal planned length are weighted by it. Raises ValueError for a step without
    pairs.
    """
    if not all(steps):
        raise ValueError("a step has at least one pair")
    within = [_mean_variance(pairs, inflation) for pairs in steps]
    known = [(pairs, v) for pairs, v in zip(steps, within, strict=True) if v is not None]
    kind = _Kind(_between(known), sum(len(pairs) - 1 for pairs, _ in known), inflation)
    estimates = tuple(_step(pairs, v, kind) for pairs, v in zip(steps, within, strict=True))
    return Pooled(math.sqrt(kind.tau_squared), estimates)


def best_blocks(pair_cost_s: float, block_cost_s: float, sigma: float, tau: float) -> int:
    """The number of blocks of a step in each pair for the narrowest interval in a given time; at least 1.

    `pair_cost_s` is what a pair costs apart from slices, divided by its interleaved steps; `sigma` the standard
    deviation of the log ratio in one block, `tau` between pairs. Kalibera and Jones: sqrt(C / c) sigma / tau.
    """
    return max(1, round(math.sqrt(pair_cost_s / block_cost_s) * sigma / tau))


def planned(tau: float, within: float, pairs: int, alike: int) -> Estimate:
    """The estimate to expect if nothing differs, of one of `alike` steps of a kind.

    `tau` is the sd between pairs, `within` the error in one pair.
    """
    kind = _Kind(tau**2, alike * (pairs - 1), 1.0)
    return Estimate(0.0, math.hypot(tau, within), pairs, kind.prior_degrees(tau**2 + within**2, pairs))


@dataclass(frozen=True, slots=True)
class _Kind:
    """Steps of one kind: the variance between pairs of clusters, all degrees of freedom, the self-check's inflation."""

    tau_squared: float
    degrees: int
    inflation: float

    def prior_degrees(self, likely: float, pairs: int) -> float:
        """Degrees of freedom that the others lend to a step of this number of pairs, whose variance is `likely`."""
        most = min(self.degrees - (pairs - 1), 2 * (pairs - 1) if pairs < FEW_PAIRS else math.inf)
        return min(most, prior_degrees(self.tau_squared, likely))


def _mean_variance(pairs: Sequence[LogRatio], inflation: float) -> float | None:
    known = [pair.variance for pair in pairs if pair.variance is not None]
    return fmean(known) * inflation if known else None


def _between(steps: Sequence[tuple[Sequence[LogRatio], float]]) -> float:
    """tau^2 by Paule and Mandel's equation, bounded: the mean of S^2 / (tau^2 + v) over the steps is its expectation.

    Steps are weighted by their degrees of freedom, as some may lack pairs. A term counts up to the `BOUNDED` quantile
    of its distribution, and its expectation is that of the bounded one: a step with two modes would otherwise widen the
    intervals of all.
    """
    scatters = [(_scatter(pairs), v, len(pairs) - 1) for pairs, v in steps if len(pairs) > 1]
    most = [scatter_quantile(BOUNDED, degrees) for _, _, degrees in scatters]
    expected = sum(degrees * bounded_scatter(BOUNDED, degrees) for _, _, degrees in scatters)

    def excess(tau_squared: float) -> float:
        terms = zip(scatters, most, strict=True)
        return sum(degrees * min(s2 / (tau_squared + v), bound) for (s2, v, degrees), bound in terms) - expected

    low, high = MIN_TAU**2, MIN_TAU**2
    while excess(high) > 0:
        low, high = high, 2 * high
    while high - low > TAU_PRECISION * low:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


def _step(pairs: Sequence[LogRatio], v: float | None, kind: _Kind) -> StepEstimate:
    count, mean, tau = len(pairs), fmean(pair.theta for pair in pairs), math.sqrt(kind.tau_squared)
    if count == 1:
        return StepEstimate(Estimate(mean, 0.0, 1), None if v is None else math.sqrt(v), tau)
    if v is None:
        return StepEstimate(Estimate(mean, math.sqrt(_scatter(pairs)), count), None, tau)
    if len({pair.seconds for pair in pairs}) > 1 and all(pair.seconds and pair.variance is not None for pair in pairs):
        return StepEstimate(_unequal(pairs, kind), math.sqrt(v), tau)
    return StepEstimate(_moderated(mean, _scatter(pairs), count, kind, kind.tau_squared + v, v), math.sqrt(v), tau)


def noise_per_root_second(pairs: Sequence[LogRatio], inflation: float = 1.0) -> float | None:
    """The level-1 error of a pair of one second; None if no pair has an error and a planned length."""
    known = [pair.variance * pair.seconds for pair in pairs if pair.variance is not None and pair.seconds]
    return math.sqrt(fmean(known) * inflation) if known else None


def _unequal(pairs: Sequence[LogRatio], kind: _Kind) -> Estimate:
    """Pairs of unequal length: each weighs as much as one over the variance that its length makes likely.

    The weights follow from planned lengths and the noise of all pairs, never from a pair's own error, which may go with
    its ratio. With weights of 1 on average the scatter about the weighted mean estimates the harmonic mean of the
    variances, which divided by the number of pairs is that of the mean.
    """
    count, noise, tau_squared = len(pairs), (noise_per_root_second(pairs, kind.inflation) or 0.0) ** 2, kind.tau_squared
    errors = [noise / pair.seconds for pair in pairs]
    total = count / math.fsum(1 / (tau_squared + error) for error in errors)
    weights = [total / (tau_squared + error) for error in errors]
    mean = math.fsum(w * pair.theta for w, pair in zip(weights, pairs, strict=True)) / count
    scatter = math.fsum(w * (pair.theta - mean) ** 2 for w, pair in zip(weights, pairs, strict=True)) / (count - 1)
    within = math.fsum(w * w * error for w, error in zip(weights, errors, strict=True)) / count
    return _moderated(mean, scatter, count, kind, total, within)


def _moderated(mean: float, scatter: float, count: int, kind: _Kind, likely: float, least: float) -> Estimate:
    """The step's own scatter combined with the variance that clusters and slices make `likely`; at least `least`."""
    apart = scatter > scatter_quantile(BOUNDED, count - 1) * likely
    d0 = 0.0 if apart else kind.prior_degrees(likely, count)
    s2 = max(least, (d0 * likely + (count - 1) * scatter) / (d0 + count - 1))
    return Estimate(mean, math.sqrt(s2), count, d0)


def _scatter(pairs: Sequence[LogRatio]) -> float:
    return standard_deviation([pair.theta for pair in pairs]) ** 2


def _normal(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
