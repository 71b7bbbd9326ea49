"""The ratio of two servers over their slices, with its error, in plain Python: for a live view, the run, and analysis.

Level 1 of the estimate; `analysis.statistics.slice_estimates` has level 2. The error allows for the correlation of
neighbouring blocks: Newey and West 1987 with the bandwidth of Andrews 1991 (10.2307/2938229). While data come in, the
asymptotic confidence sequence of Waudby-Smith et al. 2024 (arXiv 2103.06476) is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean

TURNS = 2  # of a server in a block
MIN_BLOCKS = 20  # fewer give a ratio without an error
MIN_TAU = 0.005  # clusters of one build never differed significantly by less
MOST_PRIOR_DEGREES = 12.0  # that other steps lend to a step's variance
MOST_AUTOCORRELATION = 0.97  # the bandwidth has a pole at 1
EVER_WRONG = 0.05  # probability that the truth is ever outside the bounds shown
MOST_LOG = 700.0  # a bound past it would overflow a float, and JSON


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Level 1: ln(other / base) of a pair of clusters. `variance` is None if blocks are too few.

    It holds for these two clusters only: others of the same builds differ by more than the chance within them.
    `seconds` is the planned active time of each server; 0 if the length of the step is given as work.
    """

    theta: float
    variance: float | None
    blocks: int
    seconds: float = 0.0


def ratio_of(log: float) -> float:
    """The ratio of this log, limited to 1e-304..1e304 for absurd records or two wild pairs."""
    return math.exp(max(-MOST_LOG, min(MOST_LOG, log)))


Sums = tuple[Sequence[float], Sequence[float]]  # numerators and denominators of one side, by block


def log_ratio(base: Sums, other: Sums) -> LogRatio:
    """The ratio of the totals, and the variance of its log. Raises ValueError for a total that is not positive."""
    count = len(base[0])
    theta = log_of_totals(base, other)
    if count < MIN_BLOCKS:
        return LogRatio(theta, None, count)
    return LogRatio(theta, variance_of_mean(influence(base, other)), count)


def influence(base: Sums, other: Sums) -> list[float]:
    """Influence of each block on the log of the ratio of totals, times the number of blocks; its mean is 0."""
    base_x, base_y, other_x, other_y = (len(part) / math.fsum(part) for part in (*base, *other))
    return [
        (x2 * other_x - y2 * other_y) - (x1 * base_x - y1 * base_y)
        for x1, y1, x2, y2 in zip(*base, *other, strict=True)
    ]


def log_of_totals(base: Sums, other: Sums) -> float:
    """ln of (other / base), each a quotient of its totals. Raises ValueError for a total that is not positive."""
    base_x, base_y, other_x, other_y = (math.fsum(part) for part in (*base, *other))
    if min(base_x, base_y, other_x, other_y) <= 0:
        raise ValueError("each side must have counted something")
    return math.log(other_x / other_y) - math.log(base_x / base_y)


def variance_of_mean(values: Sequence[float]) -> float:
    """Newey and West's variance of the mean of a series with mean 0, never below its value without correlation."""
    count = len(values)

    def autocovariance(lag: int) -> float:
        total: float = sum(map(mul, values[lag:], values))
        return total / count

    unrelated = autocovariance(0)
    if unrelated == 0:
        return 0.0
    bandwidth = _bandwidth(autocovariance(1) / unrelated, count)
    related = sum((1 - lag / (bandwidth + 1)) * autocovariance(lag) for lag in range(1, bandwidth + 1))
    return max(unrelated, unrelated + 2 * related) / (count - 1)


def prior_degrees(tau_squared: float, total: float) -> float:
    """Degrees of freedom of one step's variance by all steps, `total`, of which `tau_squared` is between clusters.

    The rest, from slices, is nearly certain, that from clusters is worth 2; at most `MOST_PRIOR_DEGREES`.
    """
    return min(MOST_PRIOR_DEGREES, 2 * total / tau_squared) if tau_squared else MOST_PRIOR_DEGREES


def standard_deviation(values: Sequence[float]) -> float:
    """Standard deviation of two or more, by floating point: `statistics.stdev` adds fractions, 40 times as slowly."""
    mean = fmean(values)
    return math.hypot(*(value - mean for value in values)) / math.sqrt(len(values) - 1)


def _bandwidth(autocorrelation: float, count: int) -> int:
    """Andrews' automatic bandwidth for Bartlett's kernel, assuming an autoregressive series of order 1."""
    r = max(-MOST_AUTOCORRELATION, min(MOST_AUTOCORRELATION, autocorrelation))
    a = 4 * r**2 / ((1 - r) ** 2 * (1 + r) ** 2)
    return min(count // 3, math.ceil(1.1447 * math.cbrt(a * count)))


def half_width_at_every_moment(ratio: LogRatio, planned_blocks: float) -> float | None:
    """The half width, in logs, to show while a step runs: it covers the truth at all moments at once, 95% of the time.

    The asymptotic confidence sequence, narrowest at a third of `planned_blocks`; for these two clusters only. None
    without a variance.
    """
    if ratio.variance is None:
        return None
    tightest = (-2 * math.log(EVER_WRONG) + math.log(1 - 2 * math.log(EVER_WRONG))) / (planned_blocks / 3)
    grown = ratio.blocks * tightest + 1
    return math.sqrt(ratio.variance * 2 * grown / (ratio.blocks * tightest) * math.log(math.sqrt(grown) / EVER_WRONG))
