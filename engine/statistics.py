"""What may be claimed from pairs of cells. The only module that imports scipy: import it late.

A sample is a cell; cells of one repeat make a pair, and the ratio of the two is what is judged. Everything is done
on log ratios, because a ratio's error is multiplicative and r and 1/r must be treated alike. Sources: Student's
paired t; two one-sided tests for sameness (Schuirmann 1987). How well the intervals
cover the truth is simulated in tests/perf/statistics_coverage.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Literal

from scipy import special  # not scipy.stats, which costs half a second to import

CONFIDENCE = 0.95
MIN_PAIRS = 3  # below, an interval may be printed but no verdict is given
MOST_PAIRS = 200  # more than this is no advice

Verdict = Literal["faster", "slower", "same", "inconclusive", "withheld", "none"]
Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio (new / base) and the bounds within which the true one lies; bounds are None for a single pair."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int
    confidence: float = CONFIDENCE

    def excludes_one(self) -> bool:
        """Whether the bounds are known and 1 is not between them."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    def within(self, low: float, high: float) -> bool:
        """Whether the bounds are known and strictly inside the ones given."""
        return self.low is not None and self.high is not None and low < self.low and self.high < high


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and what it rests on.

    `faster` and `slower` are meant as the user feels it: where less is better (CPU per operation), fewer is
    `faster`. `none`: one pair, a ratio without a verdict. `more_pairs` is set for `inconclusive`: about how many
    further pairs would settle it if mean and scatter stay as they are; None when more than `MOST_PAIRS`.
    """

    verdict: Verdict
    interval: Interval
    more_pairs: int | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """How the cells of one subject lie. `cv` is standard deviation / mean; `gap` the widest empty space between two
    neighbours, as a fraction of the median; `gap_ratio` is that gap over the median gap (None below four cells).
    """

    cv: float
    gap: float
    gap_ratio: float | None
    wide: bool
    two_modes: bool

    @property
    def flagged(self) -> bool:
        """Whether a single number does not describe these cells."""
        return self.wide or self.two_modes


def paired_interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The geometric mean of the pairs' ratios with Student's t interval. Raises ValueError when there is none."""
    logs = _logs(ratios)
    mean = fmean(logs)
    if len(logs) == 1:
        return Interval(math.exp(mean), None, None, 1, confidence)
    half = _t(confidence, len(logs)) * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs), confidence)


def judge(ratios: Sequence[float], margin: float, better: Better = "more") -> Judgement:
    """The verdict on pairs of one metric. `margin` is the smallest effect that is called one: 0.02 is 2 %.

    faster, slower: the 95 % interval excludes 1 and the effect is at least the margin. same: the 90 % interval lies
    inside 1 -/+ margin, which is two one-sided tests at 5 %.
    """
    interval = paired_interval(ratios)
    if interval.pairs == 1:
        return Judgement("none", interval)
    if interval.pairs >= MIN_PAIRS:
        effect = interval.ratio - 1
        if interval.excludes_one() and abs(effect) >= margin:
            return Judgement("faster" if (effect > 0) == (better == "more") else "slower", interval)
        if paired_interval(ratios, 2 * CONFIDENCE - 1).within(1 - margin, 1 + margin):
            return Judgement("same", interval)
    return Judgement("inconclusive", interval, pairs_needed(ratios, margin))


def pairs_needed(ratios: Sequence[float], margin: float) -> int | None:
    """How many further pairs would settle an inconclusive comparison if mean and scatter stay as they are.

    None when that is more than `MOST_PAIRS` in all, or cannot be told from a single pair.
    """
    logs = _logs(ratios)
    if len(logs) < 2:
        return None
    mean, sd = fmean(logs), stdev(logs)
    for pairs in range(max(len(logs) + 1, MIN_PAIRS), MOST_PAIRS + 1):
        error = sd / math.sqrt(pairs)
        differs = abs(mean) > _t(CONFIDENCE, pairs) * error and abs(math.exp(mean) - 1) >= margin
        half = _t(2 * CONFIDENCE - 1, pairs) * error
        if differs or (mean - half > math.log(1 - margin) and mean + half < math.log(1 + margin)):
            return pairs - len(logs)
    return None


def smallest_visible_effect(ratios: Sequence[float], pairs: int | None = None, power: float = 0.8) -> float | None:
    """The effect, as a fraction, that so many pairs (default: as many as given) with this scatter would show.

    `power` is how often it would be called one. None for fewer than two ratios, or pairs too few for a verdict.
    """
    pairs = len(ratios) if pairs is None else pairs
    if len(ratios) < 2 or pairs < MIN_PAIRS:
        return None
    error = stdev(_logs(ratios)) / math.sqrt(pairs)
    return math.expm1((_t(CONFIDENCE, pairs) + float(special.stdtrit(pairs - 1, power))) * error)


def noise_floor(interval: Interval) -> float | None:
    """From the interval of A/A pairs: how far from 1 the base against itself reaches, as a fraction.

    None where there are no bounds.
    """
    if interval.low is None or interval.high is None:
        return None
    return max(interval.high - 1, 1 / interval.low - 1, 0.0)


def scatter(values: Sequence[float], margin: float, most_cv: float = 0.05, most_gap: float = 5.0) -> Scatter | None:
    """Whether the cells of one subject are wide apart or fall into two modes; None for fewer than two or a mean of 0.

    wide: CV above `most_cv`. two modes: the widest gap between neighbours is more than `most_gap` times the median
    gap, counted from four cells on (the two gaps of three cells can never be that unlike) and only when it is
    wider than the margin: cells that lie within a hair of each other have chance gaps that mean nothing.
    """
    if len(values) < 2 or fmean(values) == 0:
        return None
    ordered = sorted(values)
    cv = stdev(ordered) / fmean(ordered)
    gaps = [after - before for before, after in itertools.pairwise(ordered)]
    centre = median(ordered) or fmean(ordered)
    widest, usual = max(gaps), median(gaps)
    ratio = None if len(gaps) < 3 or usual == 0 else widest / usual
    uneven = len(gaps) >= 3 and widest > most_gap * usual
    return Scatter(cv, widest / centre, ratio, cv > most_cv, uneven and widest / centre > margin)


def _logs(ratios: Sequence[float]) -> list[float]:
    if not ratios or min(ratios) <= 0:
        raise ValueError("ratios must be positive, and at least one")
    return [math.log(ratio) for ratio in ratios]


def _t(confidence: float, count: int) -> float:
    return float(special.stdtrit(count - 1, (1 + confidence) / 2))
