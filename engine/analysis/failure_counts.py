"""Which commit made cells fail, or miss their SLA: what counts of such cells say, for `engine.analysis.bisection`.

A judgement measures a commit beside both ends and counts, of each, the cells in which it was seen. How likely a count
is where the commit is like one of the ends follows from that end's own cells, of which the share is known as Jeffreys'
prior and these have it: the count is beta-binomial. The ratio of both likelihoods multiplies the odds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.analysis.bisection import MOST_WEIGHT

PRIOR = 0.5  # Jeffreys', of cells in which it is seen, and of the others


@dataclass(frozen=True, slots=True)
class Count:
    """The number of cells in which it was seen, of all `cells`."""

    seen: int
    cells: int

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.seen} of {self.cells} cells"

    def __add__(self, other: Count) -> Count:
        return Count(self.seen + other.seen, self.cells + other.cells)


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted of both ends, and of the commit between them, if there is one."""

    good: Count
    bad: Count
    tried: Count = Count(0, 0)


def p_value(good: Count, bad: Count) -> float:
    """The probability that at least this many of the cells in which it was seen are of the bad end, if both are alike.

    Fisher's exact test, one-sided.
    """
    seen, cells = good.seen + bad.seen, good.cells + bad.cells
    ways = (math.comb(bad.cells, each) * math.comb(good.cells, seen - each) for each in range(bad.seen, seen + 1))
    return sum(ways) / math.comb(cells, seen)


def weighed(ends: Counts, judged: Sequence[tuple[int, Counts]]) -> list[tuple[int, float]]:
    """Of each judgement the commit, and the log likelihood ratio of bad to good: above 0 it is rather like the bad end.

    What an end is like is known by its cells in all judgements.
    """
    good = sum((each.good for _, each in judged), ends.good)
    bad = sum((each.bad for _, each in judged), ends.bad)
    logs = [(index, _log_likelihood(each.tried, bad) - _log_likelihood(each.tried, good)) for index, each in judged]
    return [(index, max(-MOST_WEIGHT, min(MOST_WEIGHT, found))) for index, found in logs]


def _log_likelihood(count: Count, end: Count) -> float:
    """Of a count where its cells are like those of an end, but for how many orders of cells there are."""
    seen, others = PRIOR + end.seen, PRIOR + end.cells - end.seen
    return _log_beta(seen + count.seen, others + count.cells - count.seen) - _log_beta(seen, others)


def _log_beta(one: float, other: float) -> float:
    return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)
