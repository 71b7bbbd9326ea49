"""The search for the commit that made a step slower: a binary search whose answers are uncertain.

Commits are numbered from 1, after the good end, to n, the bad end. A priori each may be the first slow one. A judgement
measures one of them beside both ends at once; each pair of clusters gives the log ratios to the good end: x of the
commit, r of the bad end. 2x - r has the mean d if the commit is like the bad end and -d if it is like the good one, d
being the ends' own log ratio. The likelihoods of both are Student's, with the spread within all judgements so far, and
their ratio multiplies the odds (Waeber, Frazier and Henderson 2013: probabilistic bisection). So evidence that
contradicts an earlier judgement makes the search go back. A commit that cannot be judged, because it does not build, is
not told apart from the next one that can.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

LEAST_SPREAD = 0.002  # of a pair: no cluster repeats itself more exactly
MOST_WEIGHT = math.log(1e4)  # of one judgement: clusters of one run have more in common than chance says
# Behind the answer no stretch longer than this share of all commits there is left unchecked: otherwise a change that
# was fixed later would be taken for the answer if the search met it first. In simulated histories of 30 commits with
# one such change, this leaves 2 of 100 wrong and takes one judgement in five.
UNSEEN = 1 / 8
BETWEEN = 20.0  # smaller odds are only a hint of which end a commit is like
LOOKS_BACK = 8  # most commits looked at behind the answer; divides the error allowed for each


@dataclass(frozen=True, slots=True)
class CommitJudgement:
    """Commit `index` beside both ends: for each pair of clusters the log ratios of the commit and of the bad end."""

    index: int
    pairs: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Ends:
    ratios: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Belief:
    """The probability of each commit after `after` to be the first slow one: `first[k]` for commit `after` + 1 + k."""

    after: int
    first: tuple[float, ...]

    def of(self, group: range) -> float:
        return sum(self.first[index - self.after - 1] for index in group)


def difference(ends: Ends, judgements: Sequence[CommitJudgement]) -> float:
    """The log ratio of the ends, from all pairs in which both were measured."""
    every = [*ends.ratios, *(bad for judgement in judgements for _, bad in judgement.pairs)]
    return math.fsum(every) / len(every)


def spread(ends: Ends, judgements: Sequence[CommitJudgement]) -> tuple[float, int]:
    """The standard deviation of 2x - r from pair to pair, and its degrees of freedom.

    Before the first judgement it follows from the ends: 2x - r has six times the variance of one server, r has two.
    """
    samples = [[math.sqrt(3) * ratio for ratio in ends.ratios], *(_leaning(judgement) for judgement in judgements)]
    squares = sum((value - math.fsum(one) / len(one)) ** 2 for one in samples for value in one)
    freedom = sum(len(one) - 1 for one in samples)
    return max(math.sqrt(squares / freedom), LEAST_SPREAD) if freedom else LEAST_SPREAD * 10, max(freedom, 1)


def _weight(judgement: CommitJudgement, away: float, deviation: float, freedom: int) -> float:
    """The log likelihood ratio of bad to good: above 0 the commit is rather like the bad end."""
    leaning = _leaning(judgement)
    error = deviation / math.sqrt(len(leaning))
    mean = math.fsum(leaning) / len(leaning)
    log_weight = _student((mean - away) / error, freedom) - _student((mean + away) / error, freedom)
    return max(-MOST_WEIGHT, min(MOST_WEIGHT, log_weight))


def weighed(ends: Ends, judgements: Sequence[CommitJudgement]) -> list[tuple[int, float]]:
    measured = difference(ends, judgements), *spread(ends, judgements)
    return [(judgement.index, _weight(judgement, *measured)) for judgement in judgements]


def weights(judged: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The log likelihood ratio of bad to good of each judged commit, over all of its judgements."""
    by_index: dict[int, float] = {}
    for index, judgement in judged:
        by_index[index] = by_index.get(index, 0.0) + judgement
    return by_index


def is_between(index: int, ends: Ends, judgements: Sequence[CommitJudgement]) -> bool:
    """Whether a commit is midway between the ends, so that two commits made a part of the difference each.

    Only for commits judged at least twice, whose odds are still below `BETWEEN` either way.
    """
    of_index = [judgement for judgement in judgements if judgement.index == index]
    away, (deviation, freedom) = difference(ends, judgements), spread(ends, judgements)
    odds = abs(math.fsum(_weight(judgement, away, deviation, freedom) for judgement in of_index))
    if len(of_index) < 2 or odds > math.log(BETWEEN):
        return False
    leaning = [value for judgement in of_index for value in _leaning(judgement)]
    error, mean = deviation / math.sqrt(len(leaning)), math.fsum(leaning) / len(leaning)
    nearest = max(_student((mean - end) / error, freedom) for end in (away, -away))
    return _student(mean / error, freedom) - nearest > math.log(BETWEEN)


def belief(count: int, judged: Iterable[tuple[int, float]], after: int = 0) -> Belief:
    """The belief about `count` commits, given each judgement's weight; those up to `after` do not count."""
    logs = [0.0] * (count - after)
    for index, log_odds in judged:
        for place in range(index - after):
            logs[place] += log_odds  # if it is bad, the first slow one is not behind it
    most = max(logs)
    likely = [math.exp(log - most) for log in logs]
    total = math.fsum(likely)
    return Belief(after, tuple(weight_of / total for weight_of in likely))


def groups(count: int, broken: Collection[int], after: int = 0) -> list[range]:
    """The commits that can be distinguished: each judgeable one with those before it that are not; the last is."""
    parts, first = [], after + 1
    for index in range(after + 1, count + 1):
        if index not in broken or index == count:
            parts.append(range(first, index + 1))
            first = index + 1
    return parts


def found_in(now: Belief, parts: Iterable[range], error: float) -> range | None:
    best = max(parts, key=now.of)
    return best if now.of(best) >= 1 - error else None


def next_commit(now: Belief, parts: Sequence[range]) -> int:
    """The commit that splits the likeliest ones most evenly: the last of a group, but not the bad end."""
    below, best, nearest = 0.0, parts[0][-1], math.inf
    for group in parts[:-1]:
        below += now.of(group)
        if abs(below - 0.5) < nearest:
            nearest, best = abs(below - 0.5), group[-1]
    return best


def to_look_back(span: range, count: int, broken: Collection[int], judged: Mapping[int, float]) -> int | None:
    """The next commit between the answer and the bad end to check; None if enough were judged.

    `judged` are weights. First the least likely commit not known to be slow: a single fast one refutes the answer. Then
    one in the middle of the longest unknown stretch.
    """
    behind = {index: odds for index, odds in judged.items() if span[-1] < index < count}
    if behind and min(behind.values()) < math.log(BETWEEN):
        return min(behind, key=lambda index: behind[index])
    known = [span[-1], *sorted(behind), count]
    least = UNSEEN * (count - span[-1])
    stretches = [
        between
        for below, above in pairwise(known)
        if above - below - 1 >= least
        if (between := [index for index in range(below + 1, above) if index not in broken])
    ]
    longest = max(stretches, key=len, default=[])
    return longest[len(longest) // 2] if longest else None


def _leaning(judgement: CommitJudgement) -> list[float]:
    return [2 * commit - bad for commit, bad in judgement.pairs]


def _student(value: float, freedom: int) -> float:
    """The log density of Student's t, up to a constant."""
    return -(freedom + 1) / 2 * math.log1p(value * value / freedom)
