"""Do intervals and verdicts keep what they promise? A simulation with known truth, the same on every run.

    python -m tests.perf.coverage [--trials 100] [--only WORD]

A design makes comparisons of ten steps that differ by a known factor, and the engine's own plan, estimators and
statistics judge them. Clusters add a part to each pair's log ratio, of which half the variance is common to all steps.
Printed are for each design

- how often a 95% interval holds the truth (at least 93%), in the step in which it does so least (at least 85%: one
  step may scatter unlike others of its kind), and its median half width;
- if the truth is no difference: in how many comparisons the sign of any step is certain, in any analysis (at most 6%),
  and how often that of a step that is slower by 2, 3 or 5%; if it is the margin: how often a step is called the same,
  or no faster (at most 6%).

Then, for families of 10 and 33 steps with known effects, in how many a sign is wrong, a step is called the same that
differs by the margin, and one no slower that is slower by it (each at most 5%); how often something is claimed that is
not there, and how often it may be; and the error spent by analyses that share pairs, summed over the steps of a
family, with a scatter that is known: so little is seen only over millions of series. Exit code 1 if a promise is broken
by more than chance.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median

import numpy as np
from scipy import special
from scipy.signal import lfilter

from engine.analysis.cells.alpha_spending import FIRST, Analysis, Levels, alone, first, levels_on_the_way, planned
from engine.analysis.ratios.three_sided import Judgement, judge, levels_of, p_values, shares
from engine.analysis.series import trend_changes
from engine.analysis.statistics.change_points import LEVEL as RATES_LEVEL
from engine.analysis.statistics.change_points import levels as rate_levels
from engine.analysis.statistics.inference import Estimate, estimate, paired_interval, scatter
from engine.analysis.statistics.slice_estimates import (
    Slices,
    by_kind,
    log_ratio,
    noise_per_root_second,
    own_ratio,
    self_check,
)
from engine.core.model import INTERIM_ANALYSES, LEVEL, PAIRS
from engine.plan.allocation import Budget, OpenStep, divide
from engine.plan.schedule import interleave
from engine.results.ratio import KNOWN
from engine.results.slice_ratio import MIN_BLOCKS, LogRatio, half_width_at_every_moment
from tests.perf.noise import BASE, LOADED, MILD, OTHER, QUIET, SEED, Floats, Noise, Random, sliced

KINDS = ("load", "index", "write", "write", *("range", "point") * 3)  # of the steps of a comparison
STEPS, MARGIN, SLOWER = len(KINDS), 0.02, (0.02, 0.03, 0.05)
LEAST_COVERAGE, LEAST_OF_A_STEP, MOST_WRONG = 0.93, 0.85, 0.06
SERIES, AT_ONCE = 4_000_000, 500_000
USUAL = alone(LEVEL)


@dataclass(frozen=True)
class Compared:
    """The steps of one comparison, the levels of its verdicts, and which verdicts there were before."""

    steps: list[Estimate]
    levels: Levels = USUAL
    before: frozenset[Judgement] = frozenset()

    def verdicts(self) -> list[Judgement]:
        """Ratios of steps that are judged together."""
        family = shares([p_values(step, MARGIN) for step in self.steps], self.levels)
        return [
            judge(step, MARGIN, levels=levels_of(share, self.levels))
            for step, share in zip(self.steps, family, strict=True)
        ]


@dataclass(frozen=True)
class Design:
    """`compared` makes one comparison: ten steps whose log ratio is `truth`."""

    name: str
    compared: Callable[[Random], Compared]
    truth: float = 0.0


def cells(pairs: int, noise: float, drift: float, rng: Random, truth: float = 0.0) -> Compared:
    """Whole cells in the plan's order; rates fall by `drift` over a session."""
    subjects = [cell.subject for cell in interleave([BASE, OTHER], pairs)]
    level = np.log1p(-drift * np.arange(2 * pairs) / (2 * pairs - 1))
    estimates = []
    for _ in range(STEPS):
        logs = level + rng.normal(0, noise, 2 * pairs)
        sides = [
            [log for log, subject in zip(logs, subjects, strict=True) if subject == side] for side in (BASE, OTHER)
        ]
        estimates.append(estimate([math.exp(other - base + truth) for base, other in zip(*sides, strict=True)]))
    return Compared(estimates)


def judged(steps: Sequence[Sequence[LogRatio]], halves: Sequence[LogRatio], cluster_sd: float, rng: Random) -> Compared:
    """The engine's verdicts on the pairs of a comparison, in clusters that differ."""
    pairs = len(steps[0])
    clusters = cluster_sd * (rng.standard_normal((STEPS, pairs)) + rng.standard_normal(pairs))
    ratios = [
        [replace(ratio, theta=ratio.theta + by) for ratio, by in zip(row, add, strict=True)]
        for row, add in zip(steps, clusters.tolist(), strict=True)
    ]
    levels = alone(first(pairs, sliced=True))
    return Compared([step.estimate for step in by_kind(KINDS, ratios, self_check(halves).inflation)], levels)


def in_slices(noise: Noise, slice_ms: float, pairs: int, cluster_sd: float, rng: Random) -> Compared:
    """A minute for each step."""
    pairs_of = sliced(noise, slice_ms, 60 / pairs, STEPS * pairs, rng)
    ratios = [log_ratio(base, other) for base, other in pairs_of]
    steps = [ratios[start : start + pairs] for start in range(0, len(ratios), pairs)]
    halves = [ratio for pair in pairs_of for side in pair if (ratio := own_ratio(side)) is not None]
    return judged(steps, halves, cluster_sd, rng)


def scattered(pairs: int, clusters: Sequence[float], rng: Random) -> Compared:
    """Pairs with an error of 0.7%, of clusters whose log ratios scatter by another standard deviation in each step."""
    within, blocks = 0.007, 50
    thetas = rng.normal(0, np.hypot(within, clusters)[:, None], (STEPS, pairs)).tolist()
    variances = (within**2 * rng.chisquare(blocks - 1, (STEPS, pairs)) / (blocks - 1)).tolist()
    rows = [
        [LogRatio(theta, variance, blocks) for theta, variance in zip(*both, strict=True)]
        for both in zip(thetas, variances, strict=True)
    ]
    return Compared([step.estimate for step in by_kind(KINDS, rows)], alone(first(pairs, sliced=True)))


@dataclass(frozen=True)
class Adaptive:
    """A run that ends when its steps are known, or its time is over (`bench run --minutes`, `--until-known`).

    Four steps are of given work, six of free length: the engine's rule divides the time left among those undecided.
    `within` is the error of each step in a pair of planned length, `between` that between pairs of clusters.
    """

    within: tuple[float, ...]
    between: float
    minutes: float = math.inf
    truth: float = 0.0

    SECONDS, BLOCKS_PER_S, FREE = 4, 10, range(4, STEPS)
    BESIDES_S, PER_SECOND = 60.0, 2.1  # of a pair: besides steps of free length, and for a second of theirs

    def compared(self, rng: Random) -> Compared:
        pairs: list[list[LogRatio]] = [[] for _ in range(STEPS)]
        seconds, spent_s, done = dict.fromkeys(self.FREE, self.SECONDS), 0.0, 0
        unknown, before = set(range(STEPS)), set[Judgement]()
        while True:
            self._add(pairs, seconds, rng)
            done, spent_s = done + 1, spent_s + self.BESIDES_S + self.PER_SECOND * sum(seconds.values())
            pooled = by_kind(KINDS, pairs)
            steps = [step.estimate for step in pooled]
            if any(done == look.pairs for look in INTERIM_ANALYSES):
                verdicts = Compared(steps, levels_on_the_way(INTERIM_ANALYSES, done)).verdicts()
                unknown = {step for step, found_so in enumerate(verdicts) if found_so.verdict not in KNOWN}
                before |= set(verdicts)
            free = {
                str(step): OpenStep(
                    self.SECONDS, noise_per_root_second(pairs[step]), tuple(pair.seconds for pair in pairs[step])
                )
                for step in self.FREE
                if step in unknown
            }
            budget = Budget(60 * self.minutes - spent_s, self.BESIDES_S, self.PER_SECOND)
            most = (PAIRS if math.isinf(self.minutes) else 1000) - done
            tau = math.sqrt(fmean(step.tau**2 for step in pooled)) if done > 2 else 0.005
            rest = divide(free, max(len(unknown) - len(free), not free), budget, tau, done, most)
            if not rest.pairs or not unknown:
                return Compared(steps, Levels(tuple(planned(INTERIM_ANALYSES, done))), frozenset(before))
            seconds = {int(step): length for step, length in rest.seconds.items()}

    def _add(self, pairs: list[list[LogRatio]], seconds: dict[int, int], rng: Random) -> None:
        common = rng.normal(0, self.between * math.sqrt(0.5))
        for step, within in enumerate(self.within):
            length = seconds.get(step, 0) if step in self.FREE else self.SECONDS
            if length:
                error, degrees = within * math.sqrt(self.SECONDS / length), self.BLOCKS_PER_S * length - 1
                theta = self.truth + common + rng.normal(0, self.between * math.sqrt(0.5)) + rng.normal(0, error)
                variance = error**2 * rng.chisquare(degrees) / degrees
                planned_s = float(length) if step in self.FREE else 0.0
                pairs[step].append(LogRatio(theta, variance, degrees + 1, planned_s))


SHARED = Adaptive((0.02, 0.04, 0.04, 0.03, 0.015, 0.015, 0.018, 0.02, 0.024, 0.026), 0.005)
ALONE = Adaptive((0.006, 0.01, 0.006, 0.006, 0.004, 0.004, 0.005, 0.005, 0.006, 0.006), 0.008)
SCATTERS = {
    "alike": (0.015,) * STEPS,
    "kinds": (0.006, 0.005, 0.003, 0.003, *(0.003, 0.012) * 3),
    "one noisy load": (0.03, *(0.004,) * 9),
    "one noisy query": (*(0.004,) * 4, 0.03, *(0.004,) * 5),
}
DESIGNS = (
    *(Design(f"cells x {pairs}, drift {drift:.0%}", partial(cells, pairs, 0.01, drift))
      for pairs in (3, 4, 8) for drift in (0.0, 0.06)),
    Design("cells x 6, 3% less", partial(cells, 6, 0.01, 0.0, truth=math.log(0.97)), math.log(0.97)),
    *(Design(f"{name}, {slice_ms} ms x {pairs}", partial(in_slices, noise, slice_ms, pairs, cluster_sd))
      for name, noise, slice_ms, pairs, cluster_sd in (
        ("quiet", QUIET, 50, 3, 0.01), ("quiet", QUIET, 50, 5, 0.005), ("mild", MILD, 50, 3, 0.01),
        ("mild", MILD, 250, 3, 0.01), ("loaded", LOADED, 20, 3, 0.01), ("loaded", LOADED, 50, 5, 0.01))),
    *(Design(f"{name} x {pairs}", partial(scattered, pairs, sds)) for name, sds in SCATTERS.items()
      for pairs in (3, 4, 8)),
    *(Design(f"{name}, {limit}", replace(run, minutes=minutes, truth=truth).compared, truth)
      for name, run in (("shared", SHARED), ("alone", ALONE))
      for limit, minutes, truth in (
        ("11 minutes", 11, 0.0), ("until known", math.inf, 0.0), ("differ by 2%", 33, math.log1p(MARGIN)))),
)  # fmt: skip


def measured(design: Design, trials: int) -> Iterator[str]:
    """Print the line of a design; yield the promises that it breaks."""
    rng = np.random.default_rng(SEED)
    held, widths, wrong, named = [], [], [], [[0] for _ in SLOWER]
    for _ in range(trials):
        result = design.compared(rng)
        for interval in map(paired_interval, result.steps):
            low, high = math.log(interval.low or 1e-9), math.log(interval.high or 1e9)
            held.append(low <= design.truth <= high)  # of all steps in turn
            widths.append((high - low) / 2)
        verdicts = {*result.verdicts(), *result.before}
        if abs(math.expm1(design.truth)) >= MARGIN - 1e-9:
            mistaken = ("same", "no slower" if design.truth < 0 else "no faster")
            wrong.append(any(verdict.verdict in mistaken for verdict in verdicts))
        elif not design.truth:
            wrong.append(any(verdict.differs for verdict in verdicts))
            for place, by in enumerate(SLOWER):
                slowed = replace(result.steps[0], mean=result.steps[0].mean + math.log1p(-by))
                named[place].append(replace(result, steps=[slowed, *result.steps[1:]]).verdicts()[0].differs)
    least = min(fmean(held[step::STEPS]) for step in range(STEPS))
    cover, errors = fmean(held), fmean(wrong) if wrong else 0.0
    texts = "".join(f"{sum(hits) / trials:>7.0%}" for hits in named) if not design.truth else ""
    print(f"{design.name:<24}{cover:>8.1%}{least:>8.1%}{median(widths):>8.2%}{errors:>8.1%}{texts}", flush=True)
    if cover < LEAST_COVERAGE:
        yield f"{design.name}: intervals hold the truth in {cover:.1%}"
    if least < LEAST_OF_A_STEP - chance(LEAST_OF_A_STEP, trials):
        yield f"{design.name}: intervals of one step hold the truth in {least:.1%}"
    if wrong and errors > MOST_WRONG + chance(MOST_WRONG, len(wrong)):
        yield f"{design.name}: {errors:.1%} wrong"


SLOW, FAST = math.log1p(-MARGIN), math.log1p(MARGIN)
EFFECTS = {"equal": (0.0,), "at the margin": (SLOW, FAST), "mixed": (0.0, SLOW, 0.01, FAST, -0.05)}
CLAIMED = ("a sign", "same", "no slower")


def in_family(steps: int, name: str, trials: int) -> Iterator[str]:
    """Print in how many families of steps, whose effects repeat, a claim of each kind is wrong; yield broken promises.

    Eight pairs; the noise of steps is from 0.2 to 3%, and half a percent that clusters add is common to all.
    """
    rng, counts = np.random.default_rng(SEED), np.zeros(len(CLAIMED))
    truths, noise = np.resize(EFFECTS[name], steps), np.geomspace(0.002, 0.03, steps)
    rng.shuffle(noise)
    for _ in range(trials):
        logs = truths[:, None] + rng.normal(0, 0.005, PAIRS) + noise[:, None] * rng.standard_normal((steps, PAIRS))
        estimates = [Estimate(float(row.mean()), float(row.std(ddof=1)), PAIRS) for row in logs]
        tests = [p_values(step, MARGIN) for step in estimates]
        wrong = [
            (
                (p.sign <= level.sign) and step.mean * truth <= 0,
                (p.same <= level.same) and not SLOW < truth < FAST,
                (p.no_slower <= level.no_slower) and truth <= SLOW,
            )
            for step, p, share, truth in zip(estimates, tests, shares(tests, USUAL), truths.tolist(), strict=True)
            for level in [levels_of(share, USUAL)]
        ]
        counts += np.any(wrong, axis=0)
    errors = counts / trials
    print(f"{f'{steps} steps, {name}':<24}" + "".join(f"{error:>11.1%}" for error in errors), flush=True)
    for claim, error in zip(CLAIMED, errors, strict=True):
        if error > LEVEL + chance(LEVEL, trials):
            yield f"{steps} steps, {name}: {claim} is wrong in {error:.1%}"


def chance(share: float, count: int) -> float:
    """The excess of a share that one trial in a hundred may show."""
    return 2.33 * math.sqrt(share * (1 - share) / count)


def two_modes(cells: int, noise: float, rng: Random) -> bool:
    spread = scatter(np.exp(rng.normal(0, noise, cells)).tolist(), MARGIN)
    return spread is not None and spread.bimodal


def wandering(shape: tuple[int, int], memory: float, rng: Random) -> Floats:
    """Series of sd 1, in which each value keeps a part of the one before."""
    fresh = rng.standard_normal(shape) * math.sqrt(1 - memory**2)
    fresh[:, 0] /= math.sqrt(1 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], fresh, axis=1))


def several_rates(seconds: int, noise: float, memory: float, rng: Random) -> bool:
    (away,) = wandering((1, seconds), memory, rng)
    return len(rate_levels([(second + 1.0, 100 * (1 + noise * far)) for second, far in enumerate(away.tolist())])) > 1


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


CLAIMS: dict[str, tuple[Callable[[Random], bool], float]] = {
    "two modes of three cells": (partial(two_modes, 3, 0.02), 0.0),
    "several rates in a minute": (partial(several_rates, 60, 0.1, 0.0), 1.5 * RATES_LEVEL),
    "several rates, with memory": (partial(several_rates, 60, 0.1, 0.5), 0.05),
    "a change in a trend": (partial(changed_folder, 30, 0.0), LEVEL),
    "a change, with memory": (partial(changed_folder, 30, trend_changes.MEMORY), LEVEL),
    "a difference at any look": (partial(excluded_at_a_look, MILD), LEVEL),
}


def claimed(name: str, trials: int) -> Iterator[str]:
    """Print how often a claim is made without cause; yield it if that is too often."""
    claim, most = CLAIMS[name]
    rng = np.random.default_rng(SEED)
    share = sum(claim(rng) for _ in range(trials)) / trials
    print(f"{name:<28}{share:>8.1%}{most:>10.1%}", flush=True)
    if share > most + chance(most, trials):
        yield f"{name}: claimed in {share:.1%} without cause"


ADDED = [FIRST, *((LEVEL - FIRST) / 2**n for n in range(1, 3))]
SHARING: dict[str, list[Analysis]] = {
    "three runs of 4 pairs": [(4 * number, part) for number, part in enumerate(ADDED, 1)],
    "--until-known": planned(INTERIM_ANALYSES, PAIRS),
    "--minutes, 12 pairs": planned(INTERIM_ANALYSES, 12),
}


def spent(name: str, steps: int) -> Iterator[str]:
    """Print what so many steps spend in all analyses, for a difference and on one side; yield it if it is too much."""
    rng, counts = np.random.default_rng(SEED), np.zeros(2)
    plan = SHARING[name]
    analyses = [Levels(tuple(plan[:count])) for count in range(1, len(plan) + 1)]
    levels = [(analysis.differs(1 / steps), analysis.one_sided(1 / steps)) for analysis in analyses]
    for _ in range(SERIES // AT_ONCE):
        total, before, wrong = np.zeros(AT_ONCE), 0, np.zeros((2, AT_ONCE), bool)
        for (pairs, _), (differs, one_sided) in zip(plan, levels, strict=True):
            total += rng.standard_normal(AT_ONCE) * math.sqrt(pairs - before)
            before, away = pairs, total / math.sqrt(pairs)
            wrong |= np.array([abs(away) > -special.ndtri(differs / 2), away > -special.ndtri(one_sided)])
        counts += wrong.sum(axis=1)
    shares, allowed = steps * counts / SERIES, sum(part for _, part in plan)
    print(f"{name:<22}{steps:>3} steps{shares[0]:>9.2%}{shares[1]:>8.2%}{allowed:>10.2%}", flush=True)
    if max(shares) > allowed + 3 * math.sqrt(allowed * steps / SERIES):
        yield f"{name}, {steps} steps: {max(shares):.2%} spent, {allowed:.2%} allowed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="comparisons of ten steps")
    parser.add_argument("--only", default="", help="the designs and claims with this in their names")
    asked = parser.parse_args()
    print(f"{'design':<24}{'holds':>8}{'least':>8}{'half':>8}{'wrong':>8}{'2%':>7}{'3%':>7}{'5%':>7}")
    broken = [text for design in DESIGNS if asked.only in design.name for text in measured(design, asked.trials)]
    print(f"\n{'wrong in a family':<24}" + "".join(f"{claim:>11}" for claim in CLAIMED))
    families = [(steps, name) for steps in (10, 33) for name in EFFECTS if asked.only in f"{steps} steps, {name}"]
    broken += [text for family in families for text in in_family(*family, 5 * asked.trials)]
    print(f"\n{'claimed without cause':<28}{'share':>8}{'at most':>10}")
    broken += [text for name in CLAIMS if asked.only in name for text in claimed(name, 5 * asked.trials)]
    print(f"\n{'spent by all steps':<31}{'differs':>9}{'a side':>8}{'at most':>10}")
    broken += [text for name in SHARING if asked.only in name for steps in (1, 10, 40) for text in spent(name, steps)]
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
