"""Three-sided tests in a family of steps: the certain statements on a step, and the verdict that they make.

Of three hypotheses exactly one is true: slower by the margin or more, within it, faster by the margin or more (Goeman,
Solari and Stijnen, Statistics in Medicine 29, 2010). So that a step is not slower by the margin, that it is not faster
by it, and that it is neither, are one-sided t tests of its log ratio; the sign is a two-sided one. The steps of a
family have a Holm sequence for each of the four, so each kind of claim is wrong in at most the error that is promised.

| certain | verdict |
|---|---|
| within the margin | `same`, with its sign if that is certain, too |
| below 1, or above it | `slower`, `faster`; by how much is what the interval says |
| above 1 - margin | `no slower` |
| below 1 + margin | `no faster` |
| nothing | `undecided` |

All is the user's view: of a cost, more is slower.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.analysis.cells.alpha_spending import Levels
from engine.analysis.statistics.inference import (
    ALPHA,
    POWER,
    Estimate,
    holm_shares,
    log_bounds,
    one_sided_p_value,
    p_value,
    t_quantile,
    t_tail,
)
from engine.results.ratio import MIN_PAIRS, Verdict

Better = Literal["more", "less"]
ONE_SIDED = ALPHA / 2  # at most: then the 95% interval, which is printed, is on the same side of the margin
MOST_PAIRS = 200  # more than this is not advice


class Hypotheses(NamedTuple):
    """A number for each thing that may be certain of a step: a p-value, a share of its family's error, or a level."""

    sign: float
    same: float
    no_slower: float
    no_faster: float


WHOLE = Hypotheses(1.0, 1.0, 1.0, 1.0)  # shares of a step that is judged alone
ALONE = Hypotheses(ALPHA, ONE_SIDED, ONE_SIDED, ONE_SIDED)  # its levels


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and whether it is certain that the sides differ at all; `none` is for a single pair."""

    verdict: Verdict
    differs: bool = False


def p_values(evidence: Estimate, margin: float, better: Better = "more") -> Hypotheses:
    """The p-value of Student's t tests; 1 for a single pair, which shows nothing."""
    no_slower, no_faster = (one_sided_p_value(evidence, room) for room in _rooms(evidence, margin, better))
    return Hypotheses(p_value(evidence), max(no_slower, no_faster), no_slower, no_faster)


def shares(tests: Sequence[Hypotheses], levels: Levels) -> list[Hypotheses]:
    """The shares of the error that the tests of a family have, from their p-values."""
    sign, *others = zip(*tests, strict=True)
    kinds = [holm_shares(sign, levels.differs), *(holm_shares(kind, levels.one_sided) for kind in others)]
    return [Hypotheses(*of_test) for of_test in zip(*kinds, strict=True)]


def levels_of(share: Hypotheses, levels: Levels) -> Hypotheses:
    return Hypotheses(levels.differs(share.sign), *(min(ONE_SIDED, levels.one_sided(level)) for level in share[1:]))


def judge(evidence: Estimate, margin: float, better: Better = "more", levels: Hypotheses = ALONE) -> Judgement:
    """The verdict on a step whose tests have these levels."""
    if evidence.pairs == 1:
        return Judgement("none")
    if evidence.pairs < MIN_PAIRS:
        return Judgement("undecided")
    values = p_values(evidence, margin, better)
    sign, same, no_slower, no_faster = (value <= level for value, level in zip(values, levels, strict=True))
    if same:
        return Judgement("same", sign)
    if sign:
        return Judgement("faster" if (evidence.mean > 0) == (better == "more") else "slower", differs=True)
    return Judgement("no slower" if no_slower else "no faster" if no_faster else "undecided")


def pairs_needed(evidence: Estimate, margin: float, later: Callable[[int], Hypotheses] = lambda _: ALONE) -> int | None:
    """Further pairs that make a step slower, faster or the same four times in five, if mean and scatter are so.

    None if that is more than `MOST_PAIRS` in all, for a single pair, and over several units, of which more would be
    needed. `later` gives the levels once that number of pairs is added.
    """
    if evidence.pairs < 2 or evidence.units > 1:
        return None
    above, below = _rooms(evidence, margin)

    def settles(count: int) -> bool:
        planned, levels = evidence.of(count), later(count - evidence.pairs)
        same = _power(planned, above, levels.same) + _power(planned, below, levels.same) - 1
        return max(_power(planned, abs(evidence.mean), levels.sign / 2), same) >= POWER

    counts = range(max(evidence.pairs + 1, MIN_PAIRS), MOST_PAIRS + 1)
    place = bisect_left(counts, True, key=settles)
    return counts[place] - evidence.pairs if place < len(counts) else None


def _rooms(evidence: Estimate, margin: float, better: Better = "more") -> tuple[float, float]:
    """Distances of the mean from slower by the margin, and from faster by it."""
    low, high = log_bounds(margin)
    above, below = evidence.mean - low, high - evidence.mean
    return (above, below) if better == "more" else (below, above)


def _power(planned: Estimate, room: float, level: float) -> float:
    """The power of a one-sided test at this level to show that the mean is on this side of a bound so far away."""
    errors = room / max(planned.error, 1e-12)
    return t_tail(t_quantile(1 - 2 * level, planned.degrees) - errors, planned.degrees)
