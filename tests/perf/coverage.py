"""Do intervals and verdicts keep what they promise? A simulation with known truth, the same on every run.

    python -m tests.perf.coverage [--trials 100] [--only WORD]

A design makes comparisons of ten steps that differ by a known factor, and the engine's own plan, estimators and
statistics judge them. Clusters add a part to each pair's log ratio, of which half the variance is common to all steps.
Printed are for each design

- how often a 95 % interval holds the truth (at least 93 %), and its median half width;
- if the truth is no difference: in how many comparisons any step is named (at most 6 %), and how often a step is named
  that is slower by 2, 3 or 5 %; else how often a step is called the same (at most 6 %).

Then how often something is claimed that is not there, and how often it may be. Exit code 1 if a promise is broken by
more than chance.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import fmean, median

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from engine.analysis import trend_changes
from engine.analysis.change_points import LEVEL, levels
from engine.analysis.interference import STOLEN, TASKS, step_ratios
from engine.analysis.slice_estimates import Slices, halves, log_ratio, pooled, self_check
from engine.analysis.statistics import ALPHA, Estimate, estimate, holm_shares, judge, p_value, paired_interval, scatter
from engine.core.model import Subject
from engine.plan.schedule import interleave
from engine.results import slice_ratio
from engine.results.comparison import CHANGED
from engine.results.slice_ratio import MIN_BLOCKS, LogRatio, half_width_at_every_moment, narrow_enough
from engine.slices.block_order import SliceSeed, blocks

SEED = 20240529
STEPS, MARGIN, SLOWER = 10, 0.02, (0.02, 0.03, 0.05)
BASE, OTHER = Subject("base", "auto"), Subject("other", "auto")
LEAST_COVERAGE, MOST_WRONG = 0.93, 0.06
GRID_S = 0.005  # rates are made on a grid of so much
SCHEDULES = 100  # drawn by the plan; series take them in turns

Random = np.random.Generator
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """`compared` makes one comparison: an estimate for each of ten steps, whose log ratio is `truth`."""

    name: str
    compared: Callable[[Random], list[Estimate]]
    truth: float = 0.0


def cells(pairs: int, noise: float, drift: float, rng: Random, truth: float = 0.0) -> list[Estimate]:
    """Whole cells in the plan's order; rates fall by `drift` over a session."""
    subjects = [cell.subject for cell in interleave([BASE, OTHER], pairs)]
    level = np.log1p(-drift * np.arange(2 * pairs) / (2 * pairs - 1))
    found = []
    for _ in range(STEPS):
        logs = level + rng.normal(0, noise, 2 * pairs)
        sides = [
            [log for log, subject in zip(logs, subjects, strict=True) if subject == side] for side in (BASE, OTHER)
        ]
        found.append(estimate([math.exp(other - base + truth) for base, other in zip(*sides, strict=True)]))
    return found


@dataclass(frozen=True)
class Noise:
    """Of a rate's log: `parts` wander with a time constant in s and an sd, `white` is the sd of a cell of the grid.

    With `bursts`, for 0.5 to 20 s, every 20 s on average, a neighbour halves the rate.
    """

    parts: tuple[tuple[float, float], ...]
    white: float
    bursts: bool = True


QUIET = Noise(((60, 0.02), (2, 0.01)), 0.06, bursts=False)
MILD = Noise(((60, 0.25), (5, 0.08), (0.4, 0.08), (0.06, 0.10)), 0.25)
LOADED = Noise(((60, 0.25), (5, 0.10), (0.4, 0.20), (0.06, 0.28)), 0.6)


def log_rates(noise: Noise, shape: tuple[int, int], rng: Random) -> Floats:
    """Series of log rates, from their stationary state."""
    found = noise.white * rng.standard_normal(shape)
    for time_constant_s, sd in noise.parts:
        keep = math.exp(-GRID_S / time_constant_s)
        shocks = rng.standard_normal(shape) * sd * math.sqrt(1 - keep**2)
        shocks[:, 0] /= math.sqrt(1 - keep**2)
        found += lfilter([1.0], [1.0, -keep], shocks, axis=1)
    return found - math.log(2) * in_burst(shape, rng) if noise.bursts else found


def in_burst(shape: tuple[int, int], rng: Random) -> npt.NDArray[np.bool_]:
    """Where at least one burst is on; those that began up to 20 s before the start are still felt."""
    series, length = shape
    before = round(20 / GRID_S)
    rows = np.repeat(np.arange(series), rng.poisson((length + before) / before, series))
    begins = rng.integers(-before, length, len(rows))
    ends = begins + np.round(np.exp(rng.uniform(math.log(0.5), math.log(20), len(rows))) / GRID_S).astype(int)
    edges = np.zeros((series, length + 1), dtype=np.int32)
    np.add.at(edges, (rows, np.clip(begins, 0, length)), 1)
    np.add.at(edges, (rows, np.clip(ends, 0, length)), -1)
    return np.asarray(np.cumsum(edges[:, :-1], axis=1) > 0)


@cache
def schedules(slice_ms: float, seconds: float) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The plan's turns: bounds in s, (SCHEDULES, 4 blocks + 1); whether it is the other's, (SCHEDULES, blocks, 4)."""
    count = round(seconds / (4 * slice_ms / 1000))
    bounds, turns = np.zeros((SCHEDULES, 4 * count + 1)), np.zeros((SCHEDULES, count, 4), dtype=np.intp)
    for number in range(SCHEDULES):
        drawn = list(itertools.islice(blocks((BASE, OTHER), SliceSeed(SEED, number, "step"), slice_ms), count))
        bounds[number, 1:] = np.cumsum(np.repeat([block.slice_ns / 1e9 for block in drawn], 4))
        turns[number] = [[subject == OTHER for subject in block.order] for block in drawn]
    return bounds, turns


def sliced(noise: Noise, slice_ms: float, seconds: float, series: int, rng: Random) -> list[tuple[Slices, Slices]]:
    """So many stretches of slices of two servers (base, other) that do not differ, and feel the same noise."""
    bounds, turns = (drawn[rng.permutation(np.arange(series) % SCHEDULES)] for drawn in schedules(slice_ms, seconds))
    rates = np.exp(log_rates(noise, (series, math.ceil(bounds[:, -1].max() / GRID_S) + 1), rng))
    done = np.zeros((series, rates.shape[1] + 1))
    np.cumsum(rates, axis=1, out=done[:, 1:])
    at = (bounds / GRID_S).astype(np.intp)
    reached = np.take_along_axis(done, at, axis=1) + (bounds / GRID_S - at) * np.take_along_axis(rates, at, axis=1)
    return sides(np.diff(reached, axis=1), np.diff(bounds, axis=1), turns)


def sides(work: Floats, spent: Floats, turns: npt.NDArray[np.intp], **others: Floats) -> list[tuple[Slices, Slices]]:
    """The slices of each server; `others` are covariates."""
    own = np.argsort(turns, axis=2, kind="stable")  # the base's two places of a block first, both in order of time
    numerators, denominators, *more = (
        np.take_along_axis(part.reshape(turns.shape), own, axis=2) for part in (work, spent, *others.values())
    )

    def side(each: int, turn: slice) -> Slices:
        covariates = {name: part[each, :, turn] for name, part in zip(others, more, strict=True)}
        return Slices(numerators[each, :, turn], denominators[each, :, turn], covariates=covariates)

    return [(side(each, slice(0, 2)), side(each, slice(2, 4))) for each in range(len(turns))]


def judged(
    steps: Sequence[Sequence[LogRatio]], own: Sequence[LogRatio], cluster_sd: float, rng: Random
) -> list[Estimate]:
    """What the engine makes of the pairs of a comparison, in clusters that differ."""
    pairs = len(steps[0])
    clusters = cluster_sd * (rng.standard_normal((STEPS, pairs)) + rng.standard_normal(pairs))
    ratios = [
        [replace(ratio, theta=ratio.theta + by) for ratio, by in zip(row, add, strict=True)]
        for row, add in zip(steps, clusters.tolist(), strict=True)
    ]
    return [step.estimate for step in pooled(ratios, self_check(own).inflation).steps]


def in_slices(noise: Noise, slice_ms: float, pairs: int, cluster_sd: float, rng: Random) -> list[Estimate]:
    """A minute for each step."""
    made = sliced(noise, slice_ms, 60 / pairs, STEPS * pairs, rng)
    ratios = [log_ratio(base, other) for base, other in made]
    steps = [ratios[start : start + pairs] for start in range(0, len(ratios), pairs)]
    return judged(steps, [slice_ratio.log_ratio(*halves(side)) for pair in made for side in pair], cluster_sd, rng)


@dataclass(frozen=True)
class Disturbed:
    """Five pairs of sixty blocks. A hypervisor takes the CPU away for a part of a share of slices, of which the meter
    sees a part; on average so many tasks of others slow down whoever runs. The other server is `slower`, loses 60 % of
    a slice in a share `stalls` of them, and has as many of others' tasks wait after its slices as are `caused`.
    """

    stolen: float = 0.0
    tasks: float = 0.0
    slower: float = 0.0
    stalls: float = 0.0
    caused: float = 0.0

    PAIRS, BLOCKS, STALL, SLICE_NS = 5, 60, 0.6, 50e6

    @property
    def truth(self) -> float:
        if not self.caused:
            return math.log1p(-self.slower) + math.log1p(-self.stalls * self.STALL)
        # What these tasks cost in the long run.
        made = self.made(2000, np.random.default_rng(SEED + 1))
        return math.log(
            sum(other.numerators.sum() for _, other in made) / sum(base.numerators.sum() for base, _ in made)
        )

    def made(self, series: int, rng: Random) -> list[tuple[Slices, Slices]]:
        shape = (series, 4 * self.BLOCKS)
        swapped = rng.random((series, self.BLOCKS)) < 0.5
        is_other = np.repeat(swapped, 4, axis=1) ^ np.tile(np.array([False, True, True, False]), self.BLOCKS)
        tasks, state = np.zeros((series, shape[1] + 1)), rng.poisson(self.tasks, series)
        burst, on = np.zeros(shape), rng.random(series) < self.stolen  # that lasts for four slices on average
        for place in range(shape[1] + 1):
            state = rng.binomial(state, 0.8) + rng.poisson(0.2 * self.tasks, series)
            tasks[:, place] = state
            chance = rng.random(series)
            on = np.where(on, chance >= 0.25, chance < 0.25 * self.stolen / (1 - self.stolen))
            burst[:, min(place, shape[1] - 1)] = on
        tasks[:, 1:] += np.where(is_other, rng.poisson(self.caused, shape), 0)
        between = (tasks[:, :-1] + tasks[:, 1:]) / 2
        stolen = burst * rng.uniform(0.05, 0.7, shape)
        own = math.log1p(-self.slower) + np.log1p(-self.STALL * (rng.random(shape) < self.stalls))
        logs = rng.normal(0, 0.08, shape) - np.log1p(0.5 * between) + np.log1p(-stolen) + np.where(is_other, own, 0.0)
        seen = self.SLICE_NS * stolen * rng.uniform(0.2, 1.0, shape)
        turns = is_other.reshape(series, self.BLOCKS, 4).astype(np.intp)
        return sides(1000 * np.exp(logs), np.full(shape, self.SLICE_NS), turns, **{STOLEN: seen, TASKS: 2 * between})

    def compared(self, rng: Random) -> list[Estimate]:
        made = self.made(STEPS * self.PAIRS, rng)
        steps = [step_ratios(made[start : start + self.PAIRS]) for start in range(0, len(made), self.PAIRS)]
        return judged([step.ratios for step in steps], [own for step in steps for own in step.own], 0.0035, rng)


DISTURBED = {
    "stolen time": Disturbed(stolen=0.15),
    "others' tasks": Disturbed(tasks=0.7),
    "both, 3 % slower": Disturbed(0.15, 0.7, slower=0.03),
    "both, rare stalls": Disturbed(0.15, 0.7, stalls=0.02),
    "rare stalls": Disturbed(stalls=0.01),
    "tasks it causes": Disturbed(tasks=0.3, caused=0.3),
}
DESIGNS = (
    *(Design(f"cells x {pairs}, drift {drift:.0%}", partial(cells, pairs, 0.01, drift))
      for pairs in (3, 4, 8) for drift in (0.0, 0.06)),
    Design("cells x 6, 3 % less", partial(cells, 6, 0.01, 0.0, truth=math.log(0.97)), math.log(0.97)),
    *(Design(f"{name}, {slice_ms} ms x {pairs}", partial(in_slices, noise, slice_ms, pairs, cluster_sd))
      for name, noise, slice_ms, pairs, cluster_sd in (
        ("quiet", QUIET, 50, 3, 0.01), ("quiet", QUIET, 50, 5, 0.005), ("mild", MILD, 50, 3, 0.01),
        ("mild", MILD, 250, 3, 0.01), ("loaded", LOADED, 20, 3, 0.01), ("loaded", LOADED, 50, 5, 0.01))),
    *(Design(name, line.compared, line.truth) for name, line in DISTURBED.items()),
)  # fmt: skip


def family(found: Sequence[Estimate]) -> list[str]:
    """The verdicts of steps that are judged together."""
    shares = holm_shares([p_value(each) for each in found])
    return [judge(each, MARGIN, level=ALPHA * share).verdict for each, share in zip(found, shares, strict=True)]


def measured(design: Design, trials: int) -> Iterator[str]:
    """Print the line of a design; yield the promises that it breaks."""
    rng = np.random.default_rng(SEED)
    held, halves, wrong, named = [], [], [], [[0] for _ in SLOWER]
    for _ in range(trials):
        found = design.compared(rng)
        for interval in map(paired_interval, found):
            low, high = math.log(interval.low or 1e-9), math.log(interval.high or 1e9)
            held.append(low <= design.truth <= high)
            halves.append((high - low) / 2)
        verdicts = family(found)
        if abs(design.truth) >= MARGIN:
            wrong += [verdict == "same" for verdict in verdicts]
        elif not design.truth:
            wrong.append(any(verdict in CHANGED for verdict in verdicts))
            for place, by in enumerate(SLOWER):
                slowed = replace(found[0], mean=found[0].mean + math.log1p(-by))
                named[place].append(family([slowed, *found[1:]])[0] in CHANGED)
    cover, errors = fmean(held), fmean(wrong) if wrong else 0.0
    texts = "".join(f"{sum(each) / trials:>7.0%}" for each in named) if not design.truth else ""
    print(f"{design.name:<24}{cover:>8.1%}{median(halves):>8.2%}{errors:>8.1%}{texts}", flush=True)
    if cover < LEAST_COVERAGE:
        yield f"{design.name}: intervals hold the truth in {cover:.1%}"
    if wrong and errors > MOST_WRONG + chance(MOST_WRONG, len(wrong)):
        yield f"{design.name}: {errors:.1%} wrong"


def chance(share: float, count: int) -> float:
    """By how much a share may be exceeded, in one of a hundred."""
    return 2.33 * math.sqrt(share * (1 - share) / count)


def two_modes(cells: int, noise: float, rng: Random) -> bool:
    found = scatter(np.exp(rng.normal(0, noise, cells)).tolist(), MARGIN)
    return found is not None and found.bimodal


def wandering(shape: tuple[int, int], memory: float, rng: Random) -> Floats:
    """Series of sd 1, in which each value keeps a part of the one before."""
    fresh = rng.standard_normal(shape) * math.sqrt(1 - memory**2)
    fresh[:, 0] /= math.sqrt(1 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], fresh, axis=1))


def several_rates(seconds: int, noise: float, memory: float, rng: Random) -> bool:
    (away,) = wandering((1, seconds), memory, rng)
    return len(levels([(second + 1.0, 100 * (1 + noise * each)) for second, each in enumerate(away.tolist())])) > 1


def changed_folder(points: int, memory: float, rng: Random) -> bool:
    """Whether a change is named in a folder of twenty series without one."""
    rows = 100 + wandering((20, points), memory, rng)
    return any(trend_changes.changes(row.tolist(), 20, 0.0) for row in rows)


def looks(noise: Noise, rng: Random) -> list[LogRatio]:
    """A minute of slices, looked at every two seconds."""
    ((base, other),) = sliced(noise, 50, 60, 1, rng)
    return [
        log_ratio(*(Slices(side.numerators[:count], side.denominators[:count]) for side in (base, other)))
        for count in range(MIN_BLOCKS, 301, 10)
    ]


def excluded_at_a_look(noise: Noise, rng: Random) -> bool:
    return any(abs(look.theta) > (half_width_at_every_moment(look, 300) or 0) for look in looks(noise, rng))


def excluded_at_its_width(noise: Noise, tau: float, rng: Random) -> bool:
    """Whether the interval excludes the truth when a step ends as soon as it is narrow enough."""
    found = looks(noise, rng)
    ended = next((look for look in found if narrow_enough(look, tau)), found[-1])
    return abs(ended.theta) > 1.96 * math.sqrt(ended.variance or 0)


CLAIMS: dict[str, tuple[Callable[[Random], bool], float]] = {
    "two modes of three cells": (partial(two_modes, 3, 0.02), 0.0),
    "several rates in a minute": (partial(several_rates, 60, 0.1, 0.0), 1.5 * LEVEL),
    "several rates, with memory": (partial(several_rates, 60, 0.1, 0.5), 0.05),
    "a change in a trend": (partial(changed_folder, 30, 0.0), trend_changes.PROMISED),
    "a change, with memory": (partial(changed_folder, 30, trend_changes.MEMORY), trend_changes.PROMISED),
    "a difference at any look": (partial(excluded_at_a_look, MILD), ALPHA),
    "a difference at its width": (partial(excluded_at_its_width, MILD, 0.03), 1 - LEAST_COVERAGE),
}


def claimed(name: str, trials: int) -> Iterator[str]:
    """Print how often a claim is made without cause; yield it if that is too often."""
    claim, most = CLAIMS[name]
    rng = np.random.default_rng(SEED)
    share = sum(claim(rng) for _ in range(trials)) / trials
    print(f"{name:<28}{share:>8.1%}{most:>10.1%}", flush=True)
    if share > most + chance(most, trials):
        yield f"{name}: claimed in {share:.1%} without cause"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="comparisons of ten steps")
    parser.add_argument("--only", default="", help="the designs and claims with this in their names")
    asked = parser.parse_args()
    print(f"{'design':<24}{'holds':>8}{'half':>8}{'wrong':>8}{'2 %':>7}{'3 %':>7}{'5 %':>7}")
    broken = [text for each in DESIGNS if asked.only in each.name for text in measured(each, asked.trials)]
    print(f"\n{'claimed without cause':<28}{'share':>8}{'at most':>10}")
    broken += [text for name in CLAIMS if asked.only in name for text in claimed(name, 5 * asked.trials)]
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
