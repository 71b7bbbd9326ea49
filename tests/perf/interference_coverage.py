"""Do intervals hold the truth when ratios are adjusted for what others did? A simulation with known truth.

    python -m tests.perf.interference_coverage [--trials 200]

Slices of two servers in ABBA blocks: each has noise of its own; a hypervisor takes the CPU away for a part of some
slices, of which the meter sees a part; tasks of others come and go, and slow down whoever runs. In some lines one
server is slower throughout, or stalls now and then: the truth is that of totals. In the last its own work makes others'
tasks wait, and what that costs is part of the truth. Ten steps of five pairs of clusters are judged together, as the
engine does. Printed are, for each line, with and without adjustment: how often the 95 % interval holds the truth, and
its median half width; by how much adjustment moves the mean effect, and in how many steps each covariate was used.

Exit code 1 when an adjusted interval covers less than 93 %, an effect moves by more than 0.3 %, or a covariate that a
server causes is used.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from engine.analysis.interference import STOLEN, TASKS, StepRatios, step_ratios
from engine.analysis.slice_estimates import Slices, pooled, self_check
from engine.analysis.statistics import paired_interval
from engine.results.slice_ratio import LogRatio

SEED = 20261124
STEPS, PAIRS, BLOCKS = 10, 5, 60
SLICE_NS, WORK = 50e6, 1000.0
CLUSTER_SD = 0.005
LEAST_COVERAGE, MOST_MOVED = 0.93, 0.003

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """`stolen` is the share of slices from which time is stolen, `tasks` the mean number of others' tasks.

    Both are rare events in their way: they come in bursts. `slower` is an effect on the other server; it loses all of
    `stall` of a slice in a share `stalls` of them. `caused` others' tasks wait after its slices, because of it.
    """

    name: str
    stolen: float = 0.0
    tasks: float = 0.0
    slower: float = 0.0
    stalls: float = 0.0
    stall: float = 0.6
    caused: float = 0.0

    @property
    def truth(self) -> float:
        return math.log1p(-self.slower) + math.log1p(-self.stalls * self.stall)


LINES = (
    Line("nothing"),
    Line("stolen time", stolen=0.15),
    Line("others' tasks", tasks=0.7),
    Line("both", stolen=0.15, tasks=0.7),
    Line("both, 3 % slower", stolen=0.15, tasks=0.7, slower=0.03),
    Line("both, rare stalls", stolen=0.15, tasks=0.7, stalls=0.02),
    Line("caused by a server", tasks=0.3, caused=0.3),
)


def bursts(share: float, shape: tuple[int, int], rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Whether a burst is on, in `share` of all slices; it lasts for four on average."""
    end = 0.25
    begin = end * share / (1 - share)
    on = np.zeros(shape, dtype=np.bool_)
    state = rng.random(shape[0]) < share
    for place in range(shape[1]):
        change = rng.random(shape[0])
        state = np.where(state, change >= end, change < begin)
        on[:, place] = state
    return on


def waiting(mean: float, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Others' tasks at the bounds of slices: they come at a constant rate, and stay for five slices on average."""
    found = np.zeros(shape)
    state = rng.poisson(mean, shape[0])
    for place in range(shape[1]):
        state = rng.binomial(state, 0.8) + rng.poisson(0.2 * mean, shape[0])
        found[:, place] = state
    return found


def made(line: Line, series: int, rng: np.random.Generator) -> list[tuple[Slices, Slices]]:
    """So many pairs of servers (base, other)."""
    turns = 4 * BLOCKS
    shape = (series, turns)
    swapped = rng.random((series, BLOCKS)) < 0.5
    is_other = np.repeat(swapped, 4, axis=1) ^ np.tile(np.array([False, True, True, False]), BLOCKS)
    tasks = waiting(line.tasks, (series, turns + 1), rng)
    tasks[:, 1:] += np.where(is_other, rng.poisson(line.caused, shape), 0)
    between = (tasks[:, :-1] + tasks[:, 1:]) / 2
    stolen = bursts(line.stolen, shape, rng) * rng.uniform(0.05, 0.7, shape)
    seen = stolen * rng.uniform(0.2, 1.0, shape)
    logs = rng.normal(0, 0.08, shape) - np.log1p(0.5 * between) + np.log1p(-stolen)
    stalled = (rng.random(shape) < line.stalls) * line.stall
    logs += np.where(is_other, math.log1p(-line.slower) + np.log1p(-stalled), 0.0)
    done = WORK * np.exp(logs)
    own = np.argsort(is_other.reshape(series, BLOCKS, 4), axis=2, kind="stable")  # the base's two places first
    parts = [np.take_along_axis(part.reshape(series, BLOCKS, 4), own, axis=2) for part in (done, seen, 2 * between)]

    def side(each: int, turn: int) -> Slices:
        work, lost, others = (part[each, :, turn : turn + 2] for part in parts)
        return Slices(work, np.full_like(work, SLICE_NS), covariates={STOLEN: SLICE_NS * lost, TASKS: others})

    return [(side(each, 0), side(each, 2)) for each in range(series)]


def truth_of_caused(line: Line) -> float:
    """What the tasks that a server causes cost it, in the long run: found by a simulation without noise of its own."""
    if not line.caused:
        return line.truth
    rng = np.random.default_rng(SEED + 1)
    sums = np.zeros(2)
    for base, other in made(line, 2000, rng):
        sums += base.numerators.sum(), other.numerators.sum()
    return float(math.log(sums[1] / sums[0]))


def estimates(steps: Sequence[StepRatios], clusters: Floats, *, adjusted: bool) -> list[tuple[float, float, float]]:
    """(mean log ratio, low, high) of the steps of one comparison."""
    ratios = [
        [
            LogRatio(ratio.theta + by, ratio.variance, ratio.blocks)
            for ratio, by in zip(step.ratios if adjusted else step.plain, add, strict=True)
        ]
        for step, add in zip(steps, clusters.tolist(), strict=True)
    ]
    check = self_check([own for step in steps for own in (step.own if adjusted else step.plain_own)])
    found = []
    for step in pooled(ratios, check.inflation).steps:
        bounds = paired_interval(step.estimate)
        found.append((step.estimate.mean, math.log(bounds.low or 0), math.log(bounds.high or 0)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200, help="comparisons of ten steps")
    trials = parser.parse_args().trials
    broken = []
    print(f"ten steps of {PAIRS} pairs of {BLOCKS} blocks, {trials} comparisons")
    print(f"{'':<20}{'as it is':>16}{'adjusted':>16}{'narrower':>10}{'moved':>9}{'stolen':>8}{'tasks':>7}")
    for line in LINES:
        rng = np.random.default_rng(SEED)
        truth = truth_of_caused(line)
        both: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
        used: list[tuple[str, ...]] = []
        for _ in range(trials):
            pairs = made(line, STEPS * PAIRS, rng)
            steps = [step_ratios(pairs[start : start + PAIRS]) for start in range(0, len(pairs), PAIRS)]
            used += [step.by for step in steps]
            clusters = CLUSTER_SD * rng.standard_normal((STEPS, PAIRS))
            for adjusted, found in both.items():
                found += estimates(steps, clusters, adjusted=adjusted)
        cover = {key: fmean(low <= truth <= high for _, low, high in found) for key, found in both.items()}
        half = {key: median((high - low) / 2 for _, low, high in found) for key, found in both.items()}
        moved = fmean(mean for mean, *_ in both[True]) - fmean(mean for mean, *_ in both[False])
        shares = {name: fmean(name in by for by in used) for name in (STOLEN, TASKS)}
        print(
            f"{line.name:<20}{cover[False]:>8.1%}{half[False]:>8.2%}{cover[True]:>8.1%}{half[True]:>8.2%}"
            f"{half[True] / half[False]:>10.2f}{moved:>+9.2%}{shares[STOLEN]:>8.0%}{shares[TASKS]:>7.0%}",
            flush=True,
        )
        if cover[True] < LEAST_COVERAGE:
            broken.append(f"{line.name}: adjusted intervals hold the truth in {cover[True]:.1%}")
        if abs(moved) > MOST_MOVED:
            broken.append(f"{line.name}: adjustment moves the effect by {moved:+.2%}")
        if line.caused and shares[TASKS] > 0.05:
            broken.append(f"{line.name}: tasks that a server causes are used in {shares[TASKS]:.0%} of steps")
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
