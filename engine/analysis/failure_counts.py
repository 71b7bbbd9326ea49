"""Which commit made cells fail, or miss their SLA: counts of such cells as weights for `engine.analysis.bisection`.

A judgement measures a commit beside both ends and counts, for each, the cells with the failure. The likelihood of a
count if the commit is like one of the ends follows from that end's own cells and Jeffreys' prior of their share: the
count is beta-binomial. The ratio of both likelihoods multiplies the odds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.analysis.bisection import MOST_WEIGHT

PRIOR = 0.5  # Jeffreys', for cells with the failure and for the others


@dataclass(frozen=True, slots=True)
class Count:
    """The number of cells with the failure, out of all `cells`."""

    seen: int
    cells: int

    @property
    def text(self) -> str:
        return f"{self.seen} of {self.cells} cells"

    def __add__(self, other: Count) -> Count:
        return Count(self.seen + other.seen, self.cells + other.cells)


@dataclass(frozen=True, slots=True)
class Counts:
    good: Count
    bad: Count
    tried: Count = Count(0, 0)


def p_value(good: Count, bad: Count) -> float:
    """P-value of Fisher's exact test, one-sided: does the bad end fail in more cells than the good one?"""
    seen, cells = good.seen + bad.seen, good.cells + bad.cells
    ways = (math.comb(bad.cells, each) * math.comb(good.cells, seen - each) for each in range(bad.seen, seen + 1))
    return sum(ways) / math.comb(cells, seen)


def weighed(ends: Counts, judged: Sequence[tuple[int, Counts]]) -> list[tuple[int, float]]:
    """The log likelihood ratio of bad to good for each judgement; an end is known from its cells in all of them."""
    good = sum((each.good for _, each in judged), ends.good)
    bad = sum((each.bad for _, each in judged), ends.bad)
    logs = [(index, _log_likelihood(each.tried, bad) - _log_likelihood(each.tried, good)) for index, each in judged]
    return [(index, max(-MOST_WEIGHT, min(MOST_WEIGHT, found))) for index, found in logs]


def _log_likelihood(count: Count, end: Count) -> float:
    """The log likelihood of a count if its cells are like those of an end, up to the number of orders of cells."""
    seen, others = PRIOR + end.seen, PRIOR + end.cells - end.seen
    return _log_beta(seen + count.seen, others + count.cells - count.seen) - _log_beta(seen, others)


def _log_beta(one: float, other: float) -> float:
    return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)
