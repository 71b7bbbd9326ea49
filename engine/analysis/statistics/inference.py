"""Claims that pairs of cells allow. The only module that imports scipy: import it late.

A sample is a cell; cells of one repeat make a pair, and the ratio of the two is judged. Everything is done on log
ratios, because a ratio's error is multiplicative and r and 1/r must be treated the same way. Tests that are read
together are a family, of which a comparison of two equal servers should rarely get one wrong. Sources: Student's paired
t; Holm 1979; Benjamini and Hochberg 1995. `analysis.ratios.three_sided` makes verdicts of it. The coverage of the
intervals, the error of a family and the effect of judging the same pairs again and again
(`analysis.cells.alpha_spending`) are simulated in tests/perf/coverage.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np
import numpy.typing as npt
from scipy import special  # not scipy.stats, which costs half a second to import

from engine.core.model import LEVEL
from engine.results.ratio import MIN_PAIRS, Ratio
from engine.results.slice_ratio import ratio_of, standard_deviation

ALPHA = LEVEL
CONFIDENCE = 1 - ALPHA
POWER = 0.8  # how often an advised number of pairs, or an effect called visible, leads to a verdict
MOST_LOG_EFFECT = 7.0  # a thousandfold: if only more would be visible, nothing is
MOST_CV, MOST_GAP = 0.05, 5.0  # of cells of one subject: see `scatter`


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio (new / base) and its confidence interval; bounds are None for a single pair."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Scatter:
    """The spread of a subject's cells: `cv` is standard deviation / mean.

    `gap` is the widest gap between two neighbours, as a fraction of the median.
    """

    cv: float
    gap: float
    wide: bool
    bimodal: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """Evidence of pairs on one metric: `mean` and `sd` (of a single pair) of their log ratios.

    `prior_degrees` are the degrees of freedom that other tests lend to `sd`, in addition to its own pairs - 1: 0 for
    Student's plain t; `analysis.statistics.slice_estimates` has more. With several `units` (`analysis.cells.pooling`),
    their number counts: then `sd` is the error of the mean times the root of the pairs.
    """

    mean: float
    sd: float
    pairs: int
    prior_degrees: float = 0.0
    units: int = 1

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.sd / math.sqrt(self.pairs)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the t distribution for its mean."""
        return self.units - 1 if self.units > 1 else self.prior_degrees + self.pairs - 1

    def of(self, pairs: int) -> Estimate:
        """The same mean and scatter with another number of pairs."""
        return replace(self, pairs=pairs)


def estimate(ratios: Sequence[float]) -> Estimate:
    """Mean and scatter of the logs of ratios (new / base), for Student's plain t. Raises ValueError without any."""
    logs = _logs(ratios)
    return Estimate(fmean(logs), standard_deviation(logs) if len(logs) > 1 else 0.0, len(logs))


def paired_interval(evidence: Estimate, confidence: float = CONFIDENCE) -> Interval:
    """The geometric mean of the pairs' ratios with Student's t interval."""
    if evidence.pairs == 1:
        return Interval(ratio_of(evidence.mean), None, None, 1)
    half = t_quantile(confidence, evidence.degrees) * evidence.error
    low, high = (ratio_of(evidence.mean + bound) for bound in (-half, half))
    return Interval(ratio_of(evidence.mean), low, high, evidence.pairs)


def mean_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Student's t interval of the mean of pairs' differences; no bounds for fewer than two."""
    if len(values) < 2:
        return None, None
    half = t_quantile(CONFIDENCE, len(values) - 1) * standard_deviation(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def share_interval(parts: Sequence[float], wholes: Sequence[float]) -> tuple[float | None, float | None]:
    """The interval of sum(parts) / sum(wholes), both from the same pairs, as a ratio estimator.

    Its error is that of the mean of part - share x whole, over the mean whole, with Student's t (W. G. Cochran,
    Sampling Techniques, 1977, chapter 6). No bounds for fewer than two pairs, or if the wholes add up to 0.
    """
    count, total = len(parts), sum(wholes)
    if count < 2 or not total:
        return None, None
    share = sum(parts) / total
    residuals = [p - share * w for p, w in zip(parts, wholes, strict=True)]
    half = t_quantile(CONFIDENCE, count - 1) * standard_deviation(residuals) * math.sqrt(count) / abs(total)
    return share - half, share + half


def p_value(evidence: Estimate) -> float:
    """P-value of Student's paired t test, two-sided; 1 for a single pair, which shows nothing."""
    if evidence.pairs == 1 or evidence.mean == evidence.error == 0:
        return 1.0
    return t_tails(evidence.mean / evidence.error, evidence.degrees) if evidence.error else 0.0


def one_sided_p_value(evidence: Estimate, room: float) -> float:
    """P-value of the test that the mean is on its side of a bound that is `room` away; 1 for a single pair."""
    if evidence.pairs == 1:
        return 1.0
    return t_tail(room / evidence.error, evidence.degrees) if evidence.error else float(room <= 0)


def holm_shares(
    p_values: Sequence[float], level: Callable[[float], float] = lambda share: ALPHA * share
) -> list[float]:
    """The share of its family's error that each test has by Holm's procedure (1979), however the tests depend.

    `level` is that of a test with a share. Where pairs are judged again and again, it is not in proportion to the
    share, and it must not fall as the share grows: see `analysis.cells.alpha_spending`.
    """
    shares = [0.0] * len(p_values)
    share, stopped = 1.0, False
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        share = share if stopped else 1 / (len(p_values) - rank)
        shares[place], stopped = share, stopped or p_values[place] > level(share)
    return shares


def benjamini_hochberg_level(p_values: Sequence[float]) -> float:
    """The level for all tests of a family: of those below it, a share of ALPHA is wrong on average (1995)."""
    ordered = sorted(p_values)
    return max((p for rank, p in enumerate(ordered, 1) if p <= ALPHA * rank / len(ordered)), default=0.0)


def smallest_visible_effect(evidence: Estimate, pairs: int | None = None, level: float = ALPHA) -> float | None:
    """The effect, as a fraction, that this number of pairs (default: as many as given) would show with this scatter.

    A test at `level` would detect it four times in five. None for fewer than two ratios, too few pairs for a verdict,
    or so much scatter that nothing would show.
    """
    if evidence.pairs < 2:
        return None
    planned = evidence if pairs is None else evidence.of(pairs)
    if planned.pairs < MIN_PAIRS:
        return None
    log_effect = (
        t_quantile(1 - level, planned.degrees) + float(special.stdtrit(planned.degrees, POWER))
    ) * planned.error
    return math.expm1(log_effect) if log_effect < MOST_LOG_EFFECT else None


def log_bounds(margin: float) -> tuple[float, float]:
    """Logs of the ratios between which two sides are the same; -inf is the lower one for a margin of 1 or more."""
    return math.log1p(-margin) if margin < 1 else -math.inf, math.log1p(margin)


def normal_tail(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Upper tail probabilities of the standard normal distribution."""
    return np.asarray(special.ndtr(-z))


def t_tail(t: float, degrees: float) -> float:
    """Upper tail probability of Student's t."""
    return float(special.stdtr(degrees, -t))


def t_tails(t: float, degrees: float) -> float:
    """Two-sided tail probability of Student's t."""
    return 2 * t_tail(abs(t), degrees)


def f_tail(f: float, between: float, within: float) -> float:
    """Upper tail probability of Fisher's F."""
    return float(special.fdtrc(between, within, f))


def scatter_quantile(p: float, degrees: int) -> float:
    """A quantile of a sample variance as a multiple of the true one: of chi-square over its degrees of freedom."""
    return 2 * float(special.gammaincinv(degrees / 2, p)) / degrees


def bounded_scatter(p: float, degrees: int) -> float:
    """The expectation of that multiple where it counts up to its `p` quantile."""
    most = scatter_quantile(p, degrees)
    return float(special.gammainc(degrees / 2 + 1, most * degrees / 2)) + most * (1 - p)


def noise_floor(of: Interval | Ratio) -> float | None:
    """The reach from 1 of the base against itself in A/A pairs, as a fraction; None without bounds."""
    return None if of.low is None or of.high is None else max(of.high - 1, 1 / of.low - 1, 0.0)


def scatter(values: Sequence[float], margin: float) -> Scatter | None:
    """The finding that the cells of one subject are wide apart or bimodal; None for fewer than two or a mean of 0.

    wide: CV above `MOST_CV`. bimodal: the widest gap between neighbours is more than `MOST_GAP` times the median gap,
    from four cells on (the two gaps of three cells can never be that unlike) and only if it is wider than the margin:
    cells very close to each other have chance gaps that mean nothing.
    """
    if len(values) < 2 or fmean(values) == 0:
        return None
    ordered = sorted(values)
    cv = standard_deviation(ordered) / fmean(ordered)
    gaps = [after - before for before, after in itertools.pairwise(ordered)]
    centre = median(ordered) or fmean(ordered)
    widest, usual = max(gaps), median(gaps)
    uneven = len(gaps) >= 3 and widest > MOST_GAP * usual
    return Scatter(cv, widest / centre, cv > MOST_CV, uneven and widest / centre > margin)


def modes(values: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Pairs of numbers, at least two, split at the widest gap of their first ones: the lower, the upper."""
    ordered = sorted(values)
    place = max(range(1, len(ordered)), key=lambda place: ordered[place][0] - ordered[place - 1][0])
    return ordered[:place], ordered[place:]


def _logs(ratios: Sequence[float]) -> list[float]:
    if not ratios or min(ratios) <= 0:
        raise ValueError("ratios must be positive, and at least one")
    return [math.log(ratio) for ratio in ratios]


def t_quantile(confidence: float, degrees: float) -> float:
    """Half the width of a two-sided interval with this confidence, in standard errors, by Student's t."""
    return float(special.stdtrit(degrees, (1 + confidence) / 2))
