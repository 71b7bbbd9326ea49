"""Do intervals and verdicts from slices keep their promises? A simulation with known truth, the same on every run.

    python -m tests.perf.slices_coverage [--trials 150]

Rates are made on a grid of 5 ms: log rate is a sum of Ornstein-Uhlenbeck parts and white noise, and bursts of a
neighbour halve it. Two servers share that noise (but for `free`, where each also has its own), the engine's own plan
takes the turns, its own estimator and statistics judge ten steps together. What is lost at a switch is not modelled.
Fresh clusters add a part to each pair's log ratio, of which half the variance is common to all steps. Printed are

- level 1, one pair: coverage and half width (of logs, like all widths here) of theta -+ 1.96 sqrt(v), of totals and of
  the trimmed mean; how often these two are said to differ though nothing rare happens; sd of the self-check's z, and
  how often its f of ten steps is a finding;
- level 2, comparisons of ten steps: coverage and median half width of the 95 % intervals; how often a slow-down of one
  step by 2, 3, 5 % is named; how often any of ten steps without a difference has a verdict, each judged by itself, and
  by Holm. Cells one after the other stand beside, and what is not done but tempts: one pair, and free placement;
- looks: how often an interval excludes the truth at any of the looks in a minute, as it is and as it is shown; coverage
  and blocks where a step ends on its width.

Exit code 1 when a promise that the engine makes is broken: coverage below 93 %, or a false verdict in more than 6 % of
comparisons. Designs marked * promise nothing.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from engine.analysis.slice_estimates import Slices, log_ratio, own_ratio, pooled, self_check, typical
from engine.analysis.statistics import ALPHA, Estimate, holm_shares, judge, p_value, paired_interval
from engine.core.model import Subject
from engine.results.comparison import CHANGED
from engine.results.slice_ratio import MIN_BLOCKS, LogRatio, half_width_at_every_moment, narrow_enough
from engine.slices.block_order import SliceSeed, blocks

SEED = 20240529
GRID_S = 0.005
STEPS, MARGIN = 10, 0.02
SLOWER = (0.02, 0.03, 0.05)
BASE, OTHER = Subject("base", "auto"), Subject("other", "auto")
SCHEDULES = 100  # drawn by the plan; series take them in turns
LEAST_COVERAGE, MOST_FALSE = 0.93, 0.06
AT_ONCE = 40  # series in memory

LineOf = Callable[["Noise", int, np.random.Generator], tuple[str, list[str]]]  # a line, and which promises are broken
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """`parts` are (time constant in s, sd) that both servers feel, `own` those that each has for itself.

    `white` is the sd of a cell of the grid; `bursts`: for 0.5 to 20 s, every 20 s on average, the rate is halved.
    """

    name: str
    parts: tuple[tuple[float, float], ...]
    white: float
    bursts: bool = True
    own: tuple[tuple[float, float], ...] = ()


PLACED = ((60, 0.25), (5, 0.10), (0.4, 0.20), (0.06, 0.28))
QUIET = Noise("quiet", ((60, 0.02), (2, 0.01)), 0.06, bursts=False)
MILD = Noise("mild", ((60, 0.25), (5, 0.08), (0.4, 0.08), (0.06, 0.10)), 0.25)
LOADED = Noise("placed", PLACED, 0.6)
FREE = Noise("free", PLACED, 0.6, own=((0.08, 0.55), (0.5, 0.35)))


@dataclass(frozen=True)
class Step:
    """Level 1 of one step of one pair of clusters that do not differ, and the servers' own ratios."""

    ratio: LogRatio
    own: tuple[LogRatio, ...] = ()


@dataclass(frozen=True)
class Design:
    """One line of level 2. `cluster_sd` is that of the log rate from one fresh cluster to the next: that of the ratio
    of two is sqrt(2) times as much. `promised` is whether it must keep what the engine promises.
    """

    noise: Noise
    slice_ms: float  # 0: unsliced cells one after the other
    pairs: int
    cluster_sd: float
    promised: bool = True
    seconds: float = 60.0  # a step, both servers, all pairs

    @property
    def name(self) -> str:
        what = f"{self.slice_ms:.0f} ms" if self.slice_ms else "cells"
        return f"{self.noise.name:<7}{what:>8} x {self.pairs}{'' if self.promised else ' *'}"


DESIGNS = (
    Design(QUIET, 0, 3, 0.01, promised=False),
    Design(QUIET, 50, 1, 0.01, promised=False),
    Design(QUIET, 50, 3, 0.005),
    Design(QUIET, 50, 3, 0.01),
    Design(QUIET, 50, 5, 0.005),
    Design(QUIET, 50, 5, 0.01),
    Design(MILD, 0, 3, 0.01, promised=False),
    Design(MILD, 50, 3, 0.005),
    Design(MILD, 50, 3, 0.01),
    Design(MILD, 250, 3, 0.01),
    Design(MILD, 50, 5, 0.005),
    Design(MILD, 50, 5, 0.01),
    Design(LOADED, 20, 3, 0.01),
    Design(LOADED, 50, 3, 0.01),
    Design(LOADED, 250, 3, 0.01),
    Design(LOADED, 50, 5, 0.01),
    Design(FREE, 50, 3, 0.01, promised=False),
)


def log_rates(noise: Noise, series: int, cells: int, rng: np.random.Generator) -> Floats:
    """What both servers feel, shape (series, cells)."""
    found = noise.white * rng.standard_normal((series, cells))
    for time_constant_s, sd in noise.parts:
        found += wandering(time_constant_s, sd, (series, cells), rng)
    if noise.bursts:
        found -= math.log(2) * in_burst(series, cells, rng)
    return found


def wandering(time_constant_s: float, sd: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Ornstein-Uhlenbeck along the last axis, from its stationary state."""
    keep = math.exp(-GRID_S / time_constant_s)
    shocks = rng.standard_normal(shape)
    shocks *= sd * math.sqrt(1 - keep**2)
    shocks[..., 0] *= 1 / math.sqrt(1 - keep**2)
    return np.asarray(lfilter([1.0], [1.0, -keep], shocks, axis=-1))


def in_burst(series: int, cells: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Where at least one burst is on; those that began up to 20 s before the start are still felt."""
    before, every = round(20 / GRID_S), round(20 / GRID_S)
    counts = rng.poisson((cells + before) / every, series)
    rows = np.repeat(np.arange(series), counts)
    begins = rng.integers(-before, cells, len(rows))
    ends = begins + np.round(np.exp(rng.uniform(math.log(0.5), math.log(20), len(rows))) / GRID_S).astype(int)
    edges = np.zeros((series, cells + 1), dtype=np.int32)
    np.add.at(edges, (rows, np.clip(begins, 0, cells)), 1)
    np.add.at(edges, (rows, np.clip(ends, 0, cells)), -1)
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


def sliced(
    noise: Noise, slice_ms: float, seconds: float, series: int, rng: np.random.Generator
) -> list[tuple[Slices, Slices]]:
    """So many stretches of slices of two servers (base, other) that do not differ."""
    all_bounds, all_turns = schedules(slice_ms, seconds)
    found = []
    for start in range(0, series, AT_ONCE):
        chosen = np.arange(start, min(start + AT_ONCE, series)) % SCHEDULES
        bounds, turns = all_bounds[chosen], all_turns[chosen]
        cells = math.ceil(bounds[:, -1].max() / GRID_S) + 1
        shared = log_rates(noise, len(chosen), cells, rng)
        servers = []
        for _ in range(2 if noise.own else 1):
            extra = [wandering(time_constant_s, sd, shared.shape, rng) for time_constant_s, sd in noise.own]
            servers.append(work(np.exp(sum(extra, start=shared)), bounds).reshape(turns.shape))
        durations = np.diff(bounds, axis=1).reshape(turns.shape)
        # A stable sort puts the base's two places of each block first, both in order of time.
        own = np.argsort(turns, axis=2, kind="stable")
        spent = np.take_along_axis(durations, own, axis=2)
        base, other = (np.take_along_axis(server, own, axis=2) for server in (servers[0], servers[-1]))
        found += [
            (Slices(base[each, :, :2], spent[each, :, :2]), Slices(other[each, :, 2:], spent[each, :, 2:]))
            for each in range(len(chosen))
        ]
    return found


def work(rates: Floats, bounds: Floats) -> Floats:
    """What is done between each two bounds (s) at these rates, shape (series, bounds - 1)."""
    done = np.zeros((rates.shape[0], rates.shape[1] + 1))
    np.cumsum(rates, axis=1, out=done[:, 1:])
    cell = (bounds / GRID_S).astype(np.intp)
    within = bounds / GRID_S - cell
    at_bounds = np.take_along_axis(done, cell, axis=1) + within * np.take_along_axis(rates, cell, axis=1)
    return np.diff(at_bounds, axis=1)


def steps_of_pairs(design: Design, comparisons: int, rng: np.random.Generator) -> list[list[list[Step]]]:
    """Level 1 of every comparison, step and pair, before clusters differ."""
    per_pair_s = design.seconds / design.pairs
    wanted = comparisons * STEPS * design.pairs
    if design.slice_ms:
        made = [
            Step(log_ratio(base, other), (own_ratio(base), own_ratio(other)))
            for base, other in sliced(design.noise, design.slice_ms, per_pair_s, wanted, rng)
        ]
    else:
        made = []
        for start in range(0, wanted, AT_ONCE):
            count = min(AT_ONCE, wanted - start)
            rates = np.exp(log_rates(design.noise, 2 * count, round(per_pair_s / 2 / GRID_S), rng)).mean(axis=1)
            made += [
                Step(LogRatio(math.log(b / a), None, 0)) for a, b in zip(rates[:count], rates[count:], strict=True)
            ]
    each = iter(made)
    return [[list(itertools.islice(each, design.pairs)) for _ in range(STEPS)] for _ in range(comparisons)]


def estimates(steps: Sequence[Sequence[Step]], cluster_sd: float, rng: np.random.Generator) -> list[Estimate]:
    """What the engine makes of one comparison; half the variance of its clusters is common to all steps."""
    pairs = len(steps[0])
    clusters = cluster_sd * (rng.standard_normal((STEPS, pairs)) + rng.standard_normal(pairs))
    ratios = [
        [
            LogRatio(step.ratio.theta + by, step.ratio.variance, step.ratio.blocks)
            for step, by in zip(row, add, strict=True)
        ]
        for row, add in zip(steps, clusters.tolist(), strict=True)
    ]
    check = self_check([own for row in steps for step in row for own in step.own])
    return [step.estimate for step in pooled(ratios, check.inflation).steps]


def slowed(found: Estimate, by: float) -> Estimate:
    """The same pairs of a server that does so much less: all its blocks are scaled alike, so errors stay."""
    return Estimate(found.mean + math.log(1 - by), found.sd, found.pairs, found.prior_degrees)


def family(found: Sequence[Estimate]) -> list[bool]:
    """Which steps have a verdict of change, judged together."""
    levels = [ALPHA * share for share in holm_shares([p_value(each) for each in found])]
    return [judge(each, MARGIN, level=level).verdict in CHANGED for each, level in zip(found, levels, strict=True)]


@dataclass(frozen=True)
class Line:
    """The figures of a design, as shares; `half` is the median half width of the log ratio."""

    coverage: float
    half: float
    named: tuple[float, ...]
    false_alone: float
    false_holm: float


def level_2(design: Design, steps: Sequence[Sequence[Sequence[Step]]], rng: np.random.Generator) -> Line:
    """Coverage, width and verdicts over all comparisons."""
    hits, halves, named, alone, holm = [], [], [[0] for _ in SLOWER], [], []
    for comparison in steps:
        found = estimates(comparison, design.cluster_sd, rng)
        if design.pairs == 1:
            within = [math.sqrt(row[0].ratio.variance or 0) for row in comparison]
            hits += [abs(each.mean) <= 1.96 * error for each, error in zip(found, within, strict=True)]
            halves += [1.96 * error for error in within]
            continue
        intervals = [paired_interval(each) for each in found]
        hits += [not interval.excludes_one() for interval in intervals]
        halves += [math.log((interval.high or 0) / (interval.low or 1)) / 2 for interval in intervals]
        alone.append(any(judge(each, MARGIN, level=ALPHA).verdict in CHANGED for each in found))
        holm.append(any(family(found)))
        for place, by in enumerate(SLOWER):
            named[place].append(family([slowed(found[0], by), *found[1:]])[0])
    shares = tuple(sum(each) / max(1, len(each) - 1) for each in named)
    return Line(fmean(hits), median(halves), shares, fmean(alone or [0]), fmean(holm or [0]))


def level_1(noise: Noise, series: int, rng: np.random.Generator) -> tuple[str, list[str]]:
    """One line of figures of 20 s of 50 ms slices, and which promises are broken."""
    made = sliced(noise, 50, 20, series, rng)
    totals = [log_ratio(base, other) for base, other in made]
    trimmed = [found for base, other in made if (found := typical(base, other))]
    own = [own_ratio(server) for pair in made for server in pair]
    cover, half = covered([(each.theta, each.variance or 0) for each in totals])
    cover_trimmed, half_trimmed = covered([(each.log_ratio, each.variance) for each in trimmed])
    rare = fmean(each.has_rare_events() for each in trimmed)
    checks = [self_check(own[start : start + 2 * STEPS]) for start in range(0, len(own), 2 * STEPS)]
    suspect = fmean(check.suspect for check in checks)
    line = (
        f"{noise.name:<10}{cover:>8.1%}{half:>8.2%}{cover_trimmed:>11.1%}{half_trimmed:>8.2%}{rare:>8.1%}"
        f"{self_check(own).f:>8.2f}{suspect:>9.1%}"
    )
    broken = [f"level 1, {noise.name}: {name} cover {share:.1%}" for name, share in
              (("totals", cover), ("trimmed means", cover_trimmed)) if share < LEAST_COVERAGE]  # fmt: skip
    return line, broken


def covered(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(share, median half width) of 95 % intervals from log ratios and variances, where the truth is 0."""
    halves = [1.96 * math.sqrt(variance) for _, variance in found]
    return fmean(abs(theta) <= half for (theta, _), half in zip(found, halves, strict=True)), median(halves)


def looks(noise: Noise, series: int, rng: np.random.Generator) -> tuple[str, list[str]]:
    """A minute of 50 ms slices looked at every 2 s, and ended on a width that is usual in its middle."""
    every = [
        [
            log_ratio(*(Slices(each.numerators[:count], each.denominators[:count]) for each in (base, other)))
            for count in range(MIN_BLOCKS, 301, 10)
        ]
        for base, other in sliced(noise, 50, 60, series, rng)
    ]
    tau = 2 * median(math.sqrt(row[len(row) // 2].variance or 0) for row in every)
    plain = fmean(any(abs(each.theta) > error(each) for each in row) for row in every)
    shown = fmean(any(abs(each.theta) > always(each) for each in row) for row in every)
    wider = median(always(each) / error(each) for row in every for each in row)
    ended = [next((each for each in row if narrow_enough(each, tau)), row[-1]) for row in every]
    cover = fmean(abs(each.theta) <= error(each) for each in ended)
    usual = median(each.blocks for each in ended)
    line = f"{noise.name:<10}{plain:>8.1%}{shown:>8.1%}{wider:>7.1f}x{cover:>12.1%}{usual:>8.0f}"
    broken = [f"looks, {noise.name}: what is shown excludes the truth in {shown:.1%}"] if shown > 0.05 else []
    broken += [f"looks, {noise.name}: ended on width, {cover:.1%}"] if cover < LEAST_COVERAGE else []
    return line, broken


def error(ratio: LogRatio) -> float:
    """Half the 95 % interval."""
    return 1.96 * math.sqrt(ratio.variance or 0)


def always(ratio: LogRatio) -> float:
    """The same, for all looks at once in a minute."""
    return half_width_at_every_moment(ratio, 300) or 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200, help="comparisons of ten steps")
    trials = parser.parse_args().trials
    broken: list[str] = []

    def table(title: str, line_of: LineOf, noises: Sequence[Noise]) -> None:
        print(title)
        for noise in noises:
            line, found = line_of(noise, 10 * trials, np.random.default_rng(SEED))
            print(line + (" *" if noise.own else ""), flush=True)
            broken.extend([] if noise.own else found)

    table(
        f"level 1: 20 s of 50 ms slices, {10 * trials} pairs\n"
        f"{'noise':<10}{'totals':>8}{'half':>8}{'trimmed':>11}{'half':>8}{'rare':>8}{'sd of z':>8}{'f > 1.5':>9}",
        level_1,
        (QUIET, MILD, LOADED, FREE),
    )

    print(f"\nlevel 2: ten steps, 60 s a step, {trials} comparisons")
    print(
        f"{'design':<23}{'cluster sd':>11}{'cover':>8}{'half':>8}{'P(2)':>6}{'P(3)':>6}{'P(5)':>6}"
        f"{'any false: alone':>18}{'Holm':>7}"
    )
    kept: dict[tuple[str, float, int], list[list[list[Step]]]] = {}
    for design in DESIGNS:
        rng = np.random.default_rng(SEED)
        key = (design.noise.name, design.slice_ms, design.pairs)
        if key not in kept:  # the same noise under clusters that differ more
            kept = {key: steps_of_pairs(design, trials, rng)}
        line = level_2(design, kept[key], rng)
        named = "".join(f"{share:>6.0%}" for share in line.named)
        print(
            f"{design.name:<23}{design.cluster_sd:>11.1%}{line.coverage:>8.1%}{line.half:>8.1%}{named}"
            f"{line.false_alone:>18.1%}{line.false_holm:>7.1%}",
            flush=True,
        )
        if design.promised and line.coverage < LEAST_COVERAGE:
            broken.append(f"{design.name} covers only {line.coverage:.1%}")
        if design.promised and line.false_holm > MOST_FALSE:
            broken.append(f"{design.name}: {line.false_holm:.1%} of comparisons have a false verdict")

    print()
    table(
        "looks every 2 s for a minute: the truth is excluded at some time; ended on width\n"
        f"{'noise':<10}{'plain':>8}{'shown':>8}{'wider':>8}{'end: cover':>12}{'blocks':>8}",
        looks,
        (QUIET, MILD, LOADED),
    )
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
