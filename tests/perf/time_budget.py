"""Does a run with a time budget keep its promises, and what does it gain? A simulation, the same on every run.

    python -m tests.perf.time_budget [--trials 1000]

Ten steps are compared: four of given work, whose lengths stay as they are, and six of free length. After each pair the
engine's own rule divides the time left (`engine.plan.allocation`), and its own analyses say which steps are known, with
scatter within pairs, whose errors are estimated from blocks, and between pairs, of which half the variance is common to
all steps. Beside it stand as many pairs as fit, all as planned. Printed are, for two noises and two budgets, and for
the same rule without a limit (`--until-known`) beside the maximum of pairs,

- how often any of ten equal steps is called different, at the end or in any analysis before;
- how often any of ten steps that differ by exactly the margin is called the same;
- with four steps that differ, the coverage of the 95 % intervals of all steps, and of those that were left out;
- in this comparison the number of steps that are known, and the median over steps of the widths, as a share of those of
  fixed pairs.

Exit code 1 if one of the first two is more than 5 % by more than chance, or a coverage of all steps below 93 %.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from engine.analysis.alpha_spending import FIRST, Levels, alone, levels_on_the_way, planned
from engine.analysis.slice_estimates import noise_per_root_second, pooled
from engine.analysis.statistics import (
    SAME,
    Estimate,
    holm_shares,
    p_value,
    paired_interval,
    same_p_value,
)
from engine.core.model import INTERIM_ANALYSES, LEVEL, PAIRS
from engine.plan.allocation import Budget, OpenStep, divide
from engine.results.slice_ratio import LogRatio

SEED = 20261124
MARGIN = 0.02
SECONDS = 4  # planned, of each server
BLOCKS_PER_S = 10
BESIDES_S, PER_SECOND = 60.0, 2.1  # of a pair: what it takes besides steps of free length, and for a second of theirs
FREE, STEPS = range(4, 10), range(10)
DIFFERING = {0: -0.09, 5: -0.06, 6: -0.08, 7: -0.03}  # log ratios, by step
PAIR_S = BESIDES_S + PER_SECOND * SECONDS * len(FREE)
LEAST_COVERAGE = 0.93


@dataclass(frozen=True)
class Noise:
    """`within` is the error of a step in a pair of planned length, `between` that between pairs of clusters."""

    name: str
    within: tuple[float, ...]
    between: float


SHARED = Noise("shared", (0.02, 0.04, 0.04, 0.03, 0.015, 0.015, 0.018, 0.02, 0.024, 0.026), 0.005)
QUIET = Noise("quiet", (0.006, 0.01, 0.006, 0.006, 0.004, 0.004, 0.005, 0.005, 0.006, 0.006), 0.008)


@dataclass
class Comparison:
    """The pairs of each step so far, and which steps are not known."""

    noise: Noise
    truth: Sequence[float]
    chance: random.Random
    pairs: list[list[LogRatio]] = field(default_factory=lambda: [[] for _ in STEPS])
    open: set[int] = field(default_factory=lambda: set(STEPS))
    named: set[int] = field(default_factory=set)  # in any analysis

    def add(self, seconds: dict[int, int]) -> None:
        """A pair with these lengths of the steps of free length."""
        common = self.noise.between * math.sqrt(0.5) * self.chance.gauss(0, 1)
        for step in STEPS:
            length = seconds.get(step, 0) if step in FREE else SECONDS
            if not length:
                continue
            own = self.noise.between * math.sqrt(0.5) * self.chance.gauss(0, 1)
            within = self.noise.within[step] * math.sqrt(SECONDS / length)
            degrees = BLOCKS_PER_S * length - 1
            variance = within**2 * self.chance.gammavariate(degrees / 2, 2 / degrees)
            theta = self.truth[step] + common + own + self.chance.gauss(0, within)
            planned_s = float(length) if step in FREE else 0.0
            self.pairs[step].append(LogRatio(theta, variance, degrees + 1, planned_s))

    def estimates(self) -> tuple[list[Estimate], float]:
        found = pooled(self.pairs)
        return [step.estimate for step in found.steps], found.tau

    def judge(self, found: Sequence[Estimate], levels: Levels) -> tuple[set[int], set[int]]:
        """The steps that are called different, and those that are called the same."""
        p_values = [p_value(each) for each in found]
        same = [same_p_value(each, MARGIN) for each in found]
        shares = zip(STEPS, found, p_values, holm_shares(p_values, levels.differs), strict=True)
        different = {
            step
            for step, each, p, share in shares
            if p <= levels.differs(share) and abs(math.expm1(each.mean)) >= MARGIN
        }
        shares_same = zip(STEPS, same, holm_shares(same, levels.same), strict=True)
        alike = {step for step, p, share in shares_same if p <= min(levels.same(share), SAME)}
        self.named |= different
        return different, alike - different


def fixed(comparison: Comparison, minutes: float) -> Levels:
    """As many pairs as fit, as planned; return the levels of the verdicts."""
    for _ in range(PAIRS if math.isinf(minutes) else int(60 * minutes / PAIR_S)):
        comparison.add(dict.fromkeys(FREE, SECONDS))
    return alone(FIRST)


def adaptive(comparison: Comparison, minutes: float) -> Levels:
    """Pairs by the engine's rule; return the levels of the verdicts."""
    seconds, spent_s, done = dict.fromkeys(FREE, SECONDS), 0.0, 0
    most = PAIRS if math.isinf(minutes) else 1000
    while True:
        comparison.add(seconds)
        done += 1
        spent_s += BESIDES_S + PER_SECOND * sum(seconds.values())
        found, tau = comparison.estimates()
        if any(done == analysis.pairs for analysis in INTERIM_ANALYSES):
            different, alike = comparison.judge(found, levels_on_the_way(INTERIM_ANALYSES, done))
            comparison.open = set(STEPS) - different - alike
        steps = {
            str(step): OpenStep(
                SECONDS,
                noise_per_root_second(comparison.pairs[step]),
                tuple(pair.seconds for pair in comparison.pairs[step]),
            )
            for step in FREE
            if step in comparison.open
        }
        others = len(comparison.open) - len(steps)
        budget = Budget(60 * minutes - spent_s, BESIDES_S, PER_SECOND)
        rest = divide(steps, max(others, not steps), budget, tau if done > 2 else 0.005, done, most - done)
        if not rest.pairs or not comparison.open:
            return Levels(tuple(planned(INTERIM_ANALYSES, done)))
        seconds = {int(step): length for step, length in rest.seconds.items()}


@dataclass
class Figures:
    """Over all comparisons of a design: errors, hits of intervals, known steps, widths by step."""

    different: int = 0
    ever: int = 0
    alike: int = 0
    hits: list[bool] = field(default_factory=list)
    hits_left_out: list[bool] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    widths: list[list[float]] = field(default_factory=lambda: [[] for _ in STEPS])


def simulate(noise: Noise, minutes: float, trials: int, *, replanned: bool) -> Figures:
    chance, figures = random.Random(f"{SEED} {noise.name}"), Figures()
    mixed = [DIFFERING.get(step, 0.0) for step in STEPS]
    run = adaptive if replanned else fixed
    for _ in range(trials):
        for truth in ([0.0] * len(STEPS), [math.log1p(MARGIN)] * len(STEPS), mixed):
            comparison = Comparison(noise, truth, chance)
            levels = run(comparison, minutes)
            found, _ = comparison.estimates()
            different, alike = comparison.judge(found, levels)
            if truth is mixed:
                figures.known.append(len(different | alike))
                most = max(len(pairs) for pairs in comparison.pairs)
                for step, each in zip(STEPS, found, strict=True):
                    interval = paired_interval(each)
                    hit = (
                        interval.low is not None
                        and interval.high is not None
                        and (interval.low <= math.exp(truth[step]) <= interval.high)
                    )
                    figures.hits.append(hit)
                    if len(comparison.pairs[step]) < most:
                        figures.hits_left_out.append(hit)
                    elif interval.low and interval.high:
                        figures.widths[step].append(math.sqrt(interval.high / interval.low) - 1)
            elif truth[0]:
                figures.alike += bool(alike)
            else:
                figures.different += bool(different)
                figures.ever += bool(comparison.named)
    return figures


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    most = LEVEL + 2.33 * math.sqrt(LEVEL * (1 - LEVEL) / trials)
    broken = []
    print(f"{trials} comparisons of ten steps each; a pair as planned takes {PAIR_S:.0f} s")
    print(
        f"{'noise':<8}{'minutes':>8}{'':>10}{'different':>11}{'ever':>7}{'same':>7}{'covered':>9}{'left out':>10}"
        f"{'known':>7}{'widths':>8}"
    )
    for noise in (SHARED, QUIET):
        for minutes in (6 * PAIR_S / 60, 18 * PAIR_S / 60, math.inf):
            plain = simulate(noise, minutes, trials, replanned=False)
            for name, found in (("fixed", plain), ("adaptive", simulate(noise, minutes, trials, replanned=True))):
                errors = [count / trials for count in (found.different, found.ever, found.alike)]
                left_out = f"{fmean(found.hits_left_out):.1%}" if found.hits_left_out else "-"
                narrower = median(
                    median(own) / median(other)
                    for own, other in zip(found.widths, plain.widths, strict=True)
                    if own and other
                )
                print(
                    f"{noise.name:<8}{minutes:>8.0f}{name:>10}{errors[0]:>11.1%}{errors[1]:>7.1%}{errors[2]:>7.1%}"
                    f"{fmean(found.hits):>9.1%}{left_out:>10}{fmean(found.known):>7.1f}{narrower:>8.2f}",
                    flush=True,
                )
                where = f"{noise.name}, {minutes:.0f} minutes, {name}"
                broken += [f"{where}: wrong in {error:.1%}" for error in errors if error > most]
                if fmean(found.hits) < LEAST_COVERAGE:
                    broken.append(f"{where}: intervals cover {fmean(found.hits):.1%}")
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
