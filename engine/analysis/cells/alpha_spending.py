"""The level of verdicts where the same pairs are judged more than once: interim analyses share the allowed error.

Someone who reads "undecided: 4 more pairs", measures these and judges all pairs together has analysed twice. At an
unchanged level, two equal servers would be called different in more than 5% of such comparisons (Armitage, McPherson
and Rowe 1969). So each analysis spends a part of the 5%: the first run FIRST of it, and each later one half of the
rest. A run that may end early (`--minutes`, `--until-known`) divides its part among its own analyses.

The distribution of the sum of log ratios turns what an analysis spends into a level. The sum is a random walk whose
time is the number of pairs, stopped where an earlier analysis would have named a difference (Lan and DeMets, Biometrika
70, 1983; the recursion is that of Armitage and others, Journal of the Royal Statistical Society A 132).

A test of a family spends its share of that in each analysis, and its level follows from its own spending: far out
the analyses of one test have less in common, so that the same share of the family's level would spend more. If t of m
steps are equal, a first wrong name is one of these t at a share of at most 1/t, so that together they spend the
allowed level, however the steps depend (Holm's procedure in sequential analyses: Maurer and Bretz, Statistics in
Biopharmaceutical Research 5, 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from engine.analysis.cells.run_results import RunResult
from engine.analysis.statistics.inference import normal_tail
from engine.core.model import LEVEL, InterimAnalysis
from engine.results.ratio import MIN_PAIRS

FIRST = 0.8 * LEVEL  # spent by the first run; its level if no run is added
OF_FEW = 0.01  # instead, if it is of the fewest pairs in slices: these share their scatter, which is hardly known
GRID = 401  # points of a density; twice as many change no level by a thousandth of it

Analysis = tuple[int, float]  # the pairs so far, and the error that it spends
_Grid = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of the last of several analyses, for tests with a share of the error; `left` is for later ones."""

    analyses: tuple[Analysis, ...]
    left: float = 0.0

    def differs(self, share: float = 1.0) -> float:
        """Two-sided, for a difference."""
        return spent_level(*((pairs, share * spent) for pairs, spent in self.analyses))

    def one_sided(self, share: float = 1.0) -> float:
        """One-sided, for a bound at which the truth may be.

        That is one side of a test with twice the error: no sum of log ratios goes out at both.
        """
        return self.differs(2 * share) / 2

    def part(self, pairs: int, *, sliced: bool) -> float:
        """The part of the last analysis's error for a step that has few pairs: as if the run had no more of them."""
        return min(1.0, OF_FEW / self.analyses[-1][1]) if _few(pairs, sliced) else 1.0

    def later(self, more: int) -> Levels:
        """The levels once another run adds pairs; these if nothing is left to spend, as who planned them divides it."""
        if not self.left:
            return self
        return Levels((*self.analyses, (self.analyses[-1][0] + more, self.left / 2)), self.left / 2)


def alone(level: float) -> Levels:
    """The levels of an analysis whose error was divided by who planned it."""
    return Levels(((0, level),))


def levels(runs: Sequence[RunResult]) -> Levels:
    """The levels of verdicts on the pairs of these runs together.

    Runs that overlap in time, as a farm's blocks, were planned without each other's results: they are one analysis.
    """
    done: list[Analysis] = []
    left, pairs = LEVEL, 0
    for together in _batches(runs):
        count = sum(run.whole_repeats for run in together)
        run = together[0].manifest
        part = left / 2 if done else first(count, sliced=run.design.interleave == "slices")
        analyses = planned(run.design.interim_analyses, count, part)
        done += [(pairs + pairs_so_far, share) for pairs_so_far, share in analyses]
        left -= part
        pairs += count
    return Levels(tuple(done), left)


def first(pairs: int, *, sliced: bool) -> float:
    """The error that the first run spends."""
    return OF_FEW if _few(pairs, sliced) else FIRST


def _few(pairs: int, sliced: bool) -> bool:
    return sliced and pairs <= MIN_PAIRS


def planned(on_the_way: Sequence[InterimAnalysis], pairs: int, part: float = FIRST) -> list[Analysis]:
    """The analyses of a run that ended after a number of pairs, which together spend `part`: the last one the rest."""
    done = [(look.pairs, look.level * part / FIRST) for look in on_the_way if look.pairs < pairs]
    return [*done, (pairs, part - sum(spent for _, spent in done))]


def levels_on_the_way(on_the_way: Sequence[InterimAnalysis], pairs: int) -> Levels:
    """The levels of an interim analysis after a number of pairs."""
    return Levels(tuple((look.pairs, look.level) for look in on_the_way if look.pairs <= pairs))


def _batches(runs: Sequence[RunResult]) -> list[list[RunResult]]:
    """Runs in the order in which they began, grouped where no result was available in between."""
    batches: list[list[RunResult]] = []
    for run in sorted(runs, key=lambda run: run.span_ns):
        overlaps = batches and (
            run.span_ns[0] <= max(other.span_ns[1] for other in batches[-1])
            or (run.sandboxed and all(other.sandboxed for other in batches[-1]))
        )
        if overlaps:
            batches[-1].append(run)
        else:
            batches.append([run])
    return batches


def spent_level(*analyses: Analysis) -> float:
    """Two-sided level of the last of several analyses of a growing number of pairs, each of which spends an error.

    `analyses` are pairs so far and the error spent, in order. If each is held against its level, equal sides are called
    different in any of them as often as the errors add up to. Between analyses the sum of log ratios is a random walk
    with normal steps; its density, as far as no analysis has called it different, is known on a grid (Armitage,
    McPherson and Rowe 1969). An analysis without new pairs is the same as the one before.
    """
    fresh: list[Analysis] = []
    for pairs, spent in analyses:
        if not fresh or pairs > fresh[-1][0]:
            fresh.append((pairs, spent))
    pairs, spent = fresh[-1]
    return 2 * float(normal_tail(np.array(_bound(tuple(fresh)) / math.sqrt(pairs)))) if pairs else spent


@cache
def _bound(analyses: tuple[Analysis, ...]) -> float:
    """Beyond this the last analysis calls a sum of log ratios different, in standard deviations of a pair."""
    *before, (pairs, spent) = analyses
    done, at, density = _walk(tuple(before))
    step = math.sqrt(pairs - done)

    def excess(bound: float) -> float:
        beyond = normal_tail((bound - at) / step) + normal_tail((bound + at) / step)
        return float(_integral(density * beyond, at))

    low, high = 0.0, 10 * math.sqrt(pairs)
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > spent else (low, middle)
    return high


@cache
def _walk(analyses: tuple[Analysis, ...]) -> tuple[int, _Grid, _Grid]:
    """The pairs of these analyses, values of the sum, and the density of those that none has called different."""
    if not analyses or not analyses[-1][0]:
        return 0, np.zeros(1), np.ones(1)  # at first all of it is at 0
    pairs = analyses[-1][0]
    done, at, density = _walk(analyses[:-1])
    step, bound = math.sqrt(pairs - done), _bound(analyses)
    grid = np.linspace(-bound, bound, GRID)
    moves = np.exp(-(((grid[:, None] - at[None, :]) / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
    return pairs, grid, _integral(moves * density, at)


def _integral(values: _Grid, at: _Grid) -> _Grid:
    """The integral over the last axis; a single point holds all the weight, and gives its value."""
    return values[..., 0] if len(at) == 1 else np.asarray(np.trapezoid(values, at, axis=-1))
