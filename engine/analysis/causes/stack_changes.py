"""Changes between two sides' stacks beyond chance: frames with their callees, functions by themselves.

A side's rate of a frame is p = sum x / sum m, with x its samples in a cell and m the cell's statements, or all its
samples if those are unknown. By chance alone x scatters by its mean p m (a count), and a share of all samples by
p m (1 - p). Samples within a cell are not independent, so a cell is a cluster: in addition, the cells of a side differ
by a factor, the same for all frames, whose variance c^2 is estimated from all frames together by moments
(var x = p m + c^2 p^2 m^2, as of the negative binomial distribution). A frame whose cells scatter significantly more
than that is judged by their own scatter. The difference of both rates, less Yates' half sample, over its error is held
against Student's t with Satterthwaite's degrees of freedom: for the cells' part the number of cells less the two sides,
for chance infinitely many.

With one cell on each side nothing is known of clusters: chance is then taken to be `ALONE` times as large. Time off the
CPU is not a count of samples: its error is the scatter of cells alone, and without two on both sides nothing is
certain.

Of the frames called changed, one in twenty is not, on average (Benjamini and Hochberg 1995); of two equal sides, any
frame is called changed in one of twenty graphs. Frames with the same samples, as in a chain of calls, are one test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.analysis.statistics import inference

LEAST = 10  # samples of both sides: fewer show nothing among thousands of frames
ALONE = 2.0
MANY = 1e6  # degrees of freedom of a known variance
UNLIKE = 0.05  # p-value below which a frame's own scatter is used
# Functions that a later version renamed: each would be gone under one name and new under the other.
RENAMED: Mapping[str, str] = {
    "pg_analyze_and_rewrite": "pg_analyze_and_rewrite_fixedparams",
    "pg_analyze_and_rewrite_params": "pg_analyze_and_rewrite_withcb",
    "parse_analyze": "parse_analyze_fixedparams",
    "CommitTransactionCommandInternal": "CommitTransactionCommand",
}

Folded = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CellStacks:
    """The samples of one cell, or its microseconds off the CPU, by folded line. `statements` is None if unknown."""

    folded: Folded
    statements: int | None = None


def frames(folded: Folded) -> Counter[str]:
    """Samples by frame (named by the functions from the outermost one on), with its callees."""
    frames_of: Counter[str] = Counter()
    for line, count in folded.items():
        path = ""
        for name in line.split(";"):
            path = f"{path};{name}" if path else name
            frames_of[path] += count
    return frames_of


def functions(folded: Folded) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line, count in folded.items():
        counts[line.rpartition(";")[2]] += count
    return counts


def changed(
    base: Sequence[CellStacks],
    other: Sequence[CellStacks],
    of: Callable[[Folded], Counter[str]],
    *,
    timed: bool = False,
) -> frozenset[str]:
    """The frames, or functions, that changed by more than chance; `timed`: counts are time off the CPU."""
    per_statement = all(cell.statements for cell in (*base, *other))
    exposed = [
        [float(cell.statements or 0) if per_statement else float(sum(cell.folded.values())) for cell in side]
        for side in (base, other)
    ]
    if not all(map(sum, exposed)) or (timed and min(map(len, exposed)) < 2):
        return frozenset()
    counted = [[of(cell.folded) for cell in side] for side in (base, other)]
    tests: dict[tuple[tuple[int, ...], ...], list[str]] = {}
    for name in dict.fromkeys(name for side in counted for cell in side for name in cell):
        counts = tuple(tuple(cell[name] for cell in side) for side in counted)
        if sum(map(sum, counts)) >= LEAST:
            tests.setdefault(counts, []).append(name)
    sides = [[_Side(counted, m) for counted, m in zip(counts, exposed, strict=True)] for counts in tests]
    factor = 0.0 if timed else _factor(sides, per_statement)
    p_values = [_timed_p(both) if timed else _p(both, factor, per_statement) for both in sides]
    level = inference.benjamini_hochberg_level(p_values)
    return frozenset(name for names, p in zip(tests.values(), p_values, strict=True) if p <= level for name in names)


@dataclass(frozen=True, slots=True)
class _Side:
    """A frame's samples in each cell of a side, and the totals they are compared with."""

    counts: Sequence[int]
    exposed: Sequence[float]

    @property
    def rate(self) -> float:
        return sum(self.counts) / sum(self.exposed)

    @property
    def squares(self) -> float:
        """The sum over cells of (x - p m)^2 / (p m); by chance, about the number of cells less one."""
        means = [self.rate * m for m in self.exposed]
        return sum((x - mean) ** 2 / mean for x, mean in zip(self.counts, means, strict=True) if mean)

    @property
    def weight(self) -> float:
        total = sum(self.exposed)
        return sum(self.rate * m * (1 - m / total) for m in self.exposed)


def _chance(rate: float, per_statement: bool) -> float:
    """The variance of a count, divided by its mean."""
    return 1.0 if per_statement else max(0.0, 1.0 - rate)


def _factor(tests: Sequence[Sequence[_Side]], per_statement: bool) -> float:
    """c^2, the variance of the cells' factors."""
    every = [side for both in tests for side in both if len(side.counts) > 1]
    over = sum(side.squares - (len(side.counts) - 1) * _chance(side.rate, per_statement) for side in every)
    weight = sum(side.weight for side in every)
    return max(0.0, over / weight) if weight else 0.0


def _p(both: Sequence[_Side], factor: float, per_statement: bool) -> float:
    exposed = [sum(side.exposed) for side in both]
    rate = sum(sum(side.counts) for side in both) / sum(exposed)  # as if both sides' were the same
    chance, degrees = _chance(rate, per_statement), sum(len(side.counts) - 1 for side in both)
    by_chance = sum(rate * chance / total for total in exposed)
    by_cells = sum(factor * sum((rate * m / sum(side.exposed)) ** 2 for m in side.exposed) for side in both)
    variance = (by_chance + by_cells) * (1.0 if degrees else ALONE)
    if variance <= 0:
        return 1.0
    known = degrees * ((by_chance + by_cells) / by_cells) ** 2 if by_cells else MANY
    if degrees:
        weight = sum(side.weight for side in both)
        usual = degrees * chance + factor * weight
        unlike = sum(side.squares for side in both) / usual if usual else 1.0
        if unlike > 1 and inference.f_tail(unlike, degrees, MANY) < UNLIKE:
            variance, known = variance * unlike, degrees
    half = 0.5 * sum(1 / total for total in exposed)
    apart = max(0.0, abs(both[1].rate - both[0].rate) - half)
    return inference.t_tails(apart / math.sqrt(variance), min(known, MANY))


def _timed_p(both: Sequence[_Side]) -> float:
    """Welch's test of two ratio estimators, whose errors are the scatter of cells."""
    parts = []
    for side in both:
        count = len(side.counts)
        squares = sum((x - side.rate * m) ** 2 for x, m in zip(side.counts, side.exposed, strict=True))
        parts.append((squares * count / (count - 1) / sum(side.exposed) ** 2, count - 1))
    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return 1.0
    degrees = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    return inference.t_tails((both[1].rate - both[0].rate) / math.sqrt(variance), degrees)
