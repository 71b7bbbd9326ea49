"""The ratio that slices show of two servers, with its error, in plain Python: for who watches a run, and for analysis.

Level 1 of what slices say, see `engine.analysis.slice_estimates`, which has the rest. The error knows that blocks are
alike when they are near in time: Newey and West 1987 with the bandwidth of Andrews 1991 (10.2307/2938229). What is
shown while more comes is the asymptotic confidence sequence of Waudby-Smith et al. 2024 (arXiv 2103.06476).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul

TURNS = 2  # of a server in a block
MIN_BLOCKS = 20  # fewer give a ratio without an error
MOST_AUTOCORRELATION = 0.97  # the bandwidth has a pole at 1
EVER_WRONG = 0.05  # how often the truth may be outside at any moment at all of what is shown
MOST_LOG = 700.0  # a bound past it is no number that a float or JSON could hold


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Level 1: ln(other / base) of a pair of clusters. `variance` is None where blocks are too few to tell it.

    It holds for these two clusters: others of the same builds differ by more than chance within them.
    """

    theta: float
    variance: float | None
    blocks: int


def ratio_of(log: float) -> float:
    """The ratio of this log; one that absurd records or two wild pairs give stops at 1e304 and 1e-304."""
    return math.exp(max(-MOST_LOG, min(MOST_LOG, log)))


Sums = tuple[Sequence[float], Sequence[float]]  # numerators and denominators of one side, by block


def log_ratio(base: Sums, other: Sums) -> LogRatio:
    """The ratio of the totals, and the variance of its log. Raises ValueError where a total is not positive."""
    count = len(base[0])
    totals = [math.fsum(each) for each in (*base, *other)]
    theta = log_of_totals(*totals)
    if count < MIN_BLOCKS:
        return LogRatio(theta, None, count)
    # By how much each block moves the log of the ratio, times the number of blocks; its mean is 0.
    weights = [count / total for total in totals]
    u = [
        (other_x * weights[2] - other_y * weights[3]) - (base_x * weights[0] - base_y * weights[1])
        for base_x, base_y, other_x, other_y in zip(*base, *other, strict=True)
    ]
    variance = variance_of_mean(count, lambda lag: math.fsum(map(mul, u[lag:], u)) / count)
    return LogRatio(theta, variance, count)


def log_of_totals(base_x: float, base_y: float, other_x: float, other_y: float) -> float:
    """ln of (other / base), each a quotient of its totals. Raises ValueError where one is not positive."""
    if min(base_x, base_y, other_x, other_y) <= 0:
        raise ValueError("each side must have counted something")
    return math.log(other_x / other_y) - math.log(base_x / base_y)


def variance_of_mean(count: int, autocovariance: Callable[[int], float]) -> float:
    """Newey and West's variance of the mean of a series with mean 0, never below that of unrelated values."""
    unrelated = autocovariance(0)
    if unrelated == 0:
        return 0.0
    bandwidth = _bandwidth(autocovariance(1) / unrelated, count)
    related = sum((1 - lag / (bandwidth + 1)) * autocovariance(lag) for lag in range(1, bandwidth + 1))
    return max(unrelated, unrelated + 2 * related) / (count - 1)


def _bandwidth(autocorrelation: float, count: int) -> int:
    """Andrews' automatic bandwidth for Bartlett's kernel, as if the series were autoregressive of order 1."""
    r = max(-MOST_AUTOCORRELATION, min(MOST_AUTOCORRELATION, autocorrelation))
    a = 4 * r**2 / ((1 - r) ** 2 * (1 + r) ** 2)
    return min(count // 3, math.ceil(1.1447 * math.cbrt(a * count)))


def half_width_at_every_moment(ratio: LogRatio, planned_blocks: float, alpha: float = EVER_WRONG) -> float | None:
    """What to show after -+ while a step runs: the truth is within it at all moments at once, 95 % of the time.

    The asymptotic confidence sequence, narrowest at a third of `planned_blocks`; half width in logs, for these two
    clusters. None where there is no variance.
    """
    if ratio.variance is None:
        return None
    tightest = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / (planned_blocks / 3)
    grown = ratio.blocks * tightest + 1
    return math.sqrt(ratio.variance * 2 * grown / (ratio.blocks * tightest) * math.log(math.sqrt(grown) / alpha))
