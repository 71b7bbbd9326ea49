"""Do intervals hold across boots where A/A runs of other boots are known? A simulation, the same on every run.

    python -m tests.perf.boots_coverage [--trials 400]

Machines are drawn whose boots change the log ratio of two servers with a known standard deviation, half of the variance
common to all ten steps. Each has A/A runs of six pairs, one in each of 3 to 8 boots, and then a comparison of equal
servers in one more boot, whose truth is a ratio of 1 whatever the boot. Pairs scatter within and between clusters as in
`tests.perf.time_budget`; the engine's own estimates, component between boots and intervals are used. Printed are the
coverage of the 95 % intervals without the component and with it, the median of how much wider these are, and how often
any of ten steps is called different, without and with it. The last lines have steps that boots change unlike, of which
the worse half is told, too, and a comparison whose pairs are of two boots.

Exit code 1 when intervals with the component cover less than 93 %.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from engine.analysis.boots import Control, between_boots, widened
from engine.analysis.slice_estimates import pooled
from engine.analysis.statistics import ALPHA, Estimate, holm_shares, p_value, paired_interval
from engine.results.comparison import MIN_PAIRS
from engine.results.slice_ratio import LogRatio
from tests.perf.time_budget import QUIET, SHARED, STEPS, Noise

SEED = 20261126
PAIRS, BLOCKS, MARGIN = 6, 40, 0.02
LEAST_COVERAGE = 0.93
EVEN = (1.0,) * len(STEPS)
UNLIKE = tuple(0.5 if step % 2 else math.sqrt(1.75) for step in STEPS)  # times the sd: the mean of the squares is 1


@dataclass(frozen=True)
class Line:
    """`between` is the standard deviation of boots, `boots` the number of those with A/A runs."""

    noise: Noise
    boots: int
    between: float
    steps: tuple[float, ...] = EVEN
    compared_boots: int = 1

    @property
    def name(self) -> str:
        unlike = ", unlike steps" if self.steps != EVEN else ""
        two = ", pairs of two boots" if self.compared_boots > 1 else ""
        return f"{self.noise.name}, {self.boots} boots, {self.between:.1%}{unlike}{two}"


LINES = (
    *(Line(noise, boots, sd) for noise in (SHARED, QUIET) for boots in (3, 4, 6, 8) for sd in (0.0, 0.005, 0.01, 0.02)),
    Line(QUIET, 4, 0.01, UNLIKE),
    Line(SHARED, 4, 0.01, UNLIKE),
    Line(QUIET, 4, 0.01, compared_boots=2),
)


@dataclass
class Found:
    """What intervals say: one entry for each step of each comparison, or each comparison."""

    plain: list[bool] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    worse: list[bool] = field(default_factory=list)  # of the steps that boots change most
    wider: list[float] = field(default_factory=list)
    false_plain: list[bool] = field(default_factory=list)
    false: list[bool] = field(default_factory=list)


def measured(line: Line, boots: int, chance: random.Random) -> list[Estimate]:
    """A run of equal servers, whose pairs are spread over this many boots."""
    pairs: list[list[LogRatio]] = [[] for _ in STEPS]
    half = math.sqrt(0.5)
    for boot in range(boots):
        shared = chance.gauss(0, 1)
        effects = [line.between * factor * half * (shared + chance.gauss(0, 1)) for factor in line.steps]
        for _ in range(boot, PAIRS, boots):
            clusters = chance.gauss(0, 1)
            for step, own in zip(STEPS, pairs, strict=True):
                within = line.noise.within[step]
                variance = within**2 * chance.gammavariate((BLOCKS - 1) / 2, 2 / (BLOCKS - 1))
                between = line.noise.between * half * (clusters + chance.gauss(0, 1))
                own.append(LogRatio(effects[step] + between + chance.gauss(0, within), variance, BLOCKS))
    return [step.estimate for step in pooled(pairs).steps]


def any_named(estimates: Sequence[Estimate]) -> bool:
    p_values = [p_value(each) for each in estimates]
    levels = [ALPHA * share for share in holm_shares(p_values)]
    return any(
        p <= level and abs(math.expm1(each.mean)) >= MARGIN and each.pairs >= MIN_PAIRS
        for p, level, each in zip(p_values, levels, estimates, strict=True)
    )


def compare(line: Line, chance: random.Random, found: Found) -> None:
    controls: dict[int, list[Control]] = {step: [] for step in STEPS}
    for boot in range(line.boots):
        for step, estimate in zip(STEPS, measured(line, 1, chance), strict=True):
            controls[step].append(Control(estimate, str(boot)))
    components = between_boots(controls)
    of = [boot for boot in range(line.compared_boots) for _ in range(boot, PAIRS, line.compared_boots)]
    plain = measured(line, line.compared_boots, chance)
    wide = [widened(each, components[step], of) for step, each in zip(STEPS, plain, strict=True)]
    for step, one, other in zip(STEPS, plain, wide, strict=True):
        narrow, interval = paired_interval(one), paired_interval(other)
        found.plain.append(not narrow.excludes_one())
        found.held.append(not interval.excludes_one())
        if line.steps[step] == max(line.steps):
            found.worse.append(not interval.excludes_one())
        found.wider.append(width(interval.low, interval.high) / width(narrow.low, narrow.high))
    found.false_plain.append(any_named(plain))
    found.false.append(any_named(wide))


def width(low: float | None, high: float | None) -> float:
    return math.log((high or 0.0) / (low or 1.0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=400, help="comparisons of ten steps for each line")
    trials = parser.parse_args().trials
    print(f"{trials} comparisons of ten steps a line: 95 % intervals that hold the truth, width, any false verdict")
    print(f"{'noise, boots, sd between them':<48}{'without':>8}{'with':>8}{'worse':>8}{'wider':>8}{'false':>15}")
    broken = []
    for line in LINES:
        chance, found = random.Random(SEED), Found()
        for _ in range(trials):
            compare(line, chance, found)
        held = min(fmean(found.held), fmean(found.worse))
        print(
            f"{line.name:<48}{fmean(found.plain):>8.1%}{fmean(found.held):>8.1%}{fmean(found.worse):>8.1%}"
            f"{median(found.wider):>7.2f}x{fmean(found.false_plain):>8.1%}{fmean(found.false):>7.1%}",
            flush=True,
        )
        if held < LEAST_COVERAGE:
            broken.append(f"{line.name}: only {held:.1%} of the intervals hold the truth")
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
