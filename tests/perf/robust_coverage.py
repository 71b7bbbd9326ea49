"""May a verdict on totals rest on an estimate that leaves rare events out? A simulation with known truth.

    python -m tests.perf.robust_coverage [--trials 200]

Blocks of two servers in slices: noise, spikes of interference that hit either side alike and halve what a block did
in a part of it, and rare stalls of the other server, which are a real difference in totals. Estimates of ten steps of
five pairs of clusters, by the engine's own level 2:

- totals: what the engine does;
- Huber: the M-estimator of the blocks' log ratios (95 % efficient for normal noise);
- test: Huber, unless `Typical.has_rare_events` finds, at 5 %, that totals differ from what is typical; then totals;
- seen: Huber, unless the server was seen to stall in any pair of the step, as the engine's detector sees stalls: of
  those that are shorter than its threshold it sees none, of the others all;
- allowed: Huber, its interval widened by what may have been missed: the upper 95 % bound of the gap to totals.

Printed are, for stalls that are worth so much in all, and last for so many ms: how often the 95 % interval holds the
truth of totals, and its median half width as a multiple of that of totals.

Exit code 1 when totals, on which verdicts rest, cover less than 93 %; or when one of the others covers at least that
everywhere and is narrower by a tenth: then verdicts should rest on it.
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

from engine.analysis.slice_estimates import Slices, log_ratio, pooled, typical, typical_of
from engine.analysis.statistics import paired_interval
from engine.results.slice_ratio import LogRatio, variance_of_mean

SEED = 20261125
STEPS, PAIRS, BLOCKS = 10, 5, 60
NOISE, SPIKES = 0.06, 0.06  # sd of a block's log ratio; the share of blocks with a spike, on either side
CLUSTER_SD = 0.004
BLOCK_MS = 100.0  # a server's two slices
SEEN_MS = 2000.0  # of a stall
K = 1.345  # of Huber's psi, in standard deviations
LEAST_COVERAGE, WORTH_IT = 0.93, 0.9
METHODS = ("totals", "Huber", "test", "seen", "allowed")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """Stalls of the other server: what they cost in all, as a share, and how long each is."""

    cost: float
    stall_ms: float = 40.0


LINES = (
    Line(0.0), Line(0.002), Line(0.004), Line(0.006), Line(0.008), Line(0.012), Line(0.02),
    Line(0.006, 90.0), Line(0.006, 3000.0),
)  # fmt: skip


def made(
    line: Line, series: int, rng: np.random.Generator
) -> tuple[list[tuple[Slices, Slices]], npt.NDArray[np.bool_]]:
    """So many pairs of servers (base, other), and whether one was seen to stall."""
    shape = (series, BLOCKS)
    time_ms = np.full(shape, BLOCK_MS)
    logs = [rng.normal(0, NOISE / math.sqrt(2), shape) for _ in range(2)]
    for side in logs:
        side += np.where(rng.random(shape) < SPIKES / 2, np.log1p(-rng.uniform(0.2, 0.7, shape)), 0.0)
    # A stall makes its slice longer: time in which nothing is done. So long as it costs `cost` of all time.
    per_block = line.cost / (1 - line.cost) * BLOCK_MS / line.stall_ms
    stalls = rng.poisson(per_block, shape)
    longer = time_ms + stalls * line.stall_ms
    pairs = []
    for each in range(series):
        base, other = (np.exp(side[each])[:, None] * BLOCK_MS * np.ones((1, 2)) / 2 for side in logs)
        pairs.append(
            (Slices(base, time_ms[each][:, None] / 2 * np.ones((1, 2))),
             Slices(other, longer[each][:, None] / 2 * np.ones((1, 2))))
        )  # fmt: skip
    return pairs, (stalls.sum(axis=1) > 0) & (line.stall_ms >= SEEN_MS)


def huber(base: Slices, other: Slices) -> LogRatio:
    """The M-estimator of location of the blocks' log ratios, its scale from the median absolute deviation."""
    rates = [side.numerators.sum(axis=1) / side.denominators.sum(axis=1) for side in (base, other)]
    logs = np.log(rates[1]) - np.log(rates[0])
    middle = float(np.median(logs))
    scale = max(float(np.median(np.abs(logs - middle))) / 0.6745, 1e-9)
    for _ in range(50):
        psi = np.clip((logs - middle) / scale, -K, K)
        inside = float(np.mean(np.abs(logs - middle) < K * scale))
        step = scale * float(psi.mean()) / max(inside, 0.1)
        middle += step
        if abs(step) < 1e-9:
            break
    influence = scale * np.clip((logs - middle) / scale, -K, K) / max(inside, 0.1)
    return LogRatio(middle, variance_of_mean((influence - influence.mean()).tolist()), len(logs))


def judged(steps: Sequence[Sequence[LogRatio]]) -> list[tuple[float, float]]:
    """The 95 % intervals of the steps of one comparison."""
    bounds = [paired_interval(step.estimate) for step in pooled(steps).steps]
    return [(math.log(each.low or 0), math.log(each.high or 0)) for each in bounds]


def comparison(line: Line, rng: np.random.Generator) -> dict[str, list[tuple[float, float]]]:
    """The intervals of ten steps, by method."""
    pairs, seen = made(line, STEPS * PAIRS, rng)
    clusters = (CLUSTER_SD * rng.standard_normal(len(pairs))).tolist()
    totals: list[LogRatio] = []
    robust: list[LogRatio] = []
    gaps = []
    for (base, other), by in zip(pairs, clusters, strict=True):
        for found, ratio in ((totals, log_ratio(base, other)), (robust, huber(base, other))):
            found.append(LogRatio(ratio.theta + by, ratio.variance, ratio.blocks))
        gaps.append(typical(base, other))
    places = [range(start, start + PAIRS) for start in range(0, len(pairs), PAIRS)]
    of_step = [[totals[place] for place in each] for each in places]
    of_huber = [[robust[place] for place in each] for each in places]
    middles = [typical_of([gap for place in each if (gap := gaps[place]) is not None]) for each in places]
    rare = [middle.has_rare_events() for middle in middles]
    stalled = [any(seen[place] for place in each) for each in places]

    def unless(these: Sequence[bool]) -> list[tuple[float, float]]:
        return judged([plain if this else other for this, plain, other in zip(these, of_step, of_huber, strict=True)])

    by_huber = judged(of_huber)
    allowed = []
    for (low, high), middle in zip(by_huber, middles, strict=True):
        error = 1.645 * math.sqrt(middle.gap_variance)
        allowed.append((low + min(0.0, middle.gap - error), high + max(0.0, middle.gap + error)))
    return {"totals": judged(of_step), "Huber": by_huber, "test": unless(rare), "seen": unless(stalled),
            "allowed": allowed}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200, help="comparisons of ten steps")
    trials = parser.parse_args().trials
    print(f"ten steps of {PAIRS} pairs of {BLOCKS} blocks, {trials} comparisons: intervals that hold the truth, width")
    print(f"{'stalls cost':<12}{'each':>8}" + "".join(f"{method:>16}" for method in METHODS))
    least = dict.fromkeys(METHODS, 1.0)
    widths: dict[str, list[float]] = {method: [] for method in METHODS}
    for line in LINES:
        rng = np.random.default_rng(SEED)
        found: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
        for _ in range(trials):
            for method, intervals in comparison(line, rng).items():
                found[method] += intervals
        truth, texts = math.log1p(-line.cost), []
        plain = median(high - low for low, high in found["totals"])
        for method, intervals in found.items():
            cover = fmean(low <= truth <= high for low, high in intervals)
            width = median(high - low for low, high in intervals) / plain
            least[method] = min(least[method], cover)
            widths[method].append(width)
            texts.append(f"{cover:>9.1%}{width:>6.2f}x")
        print(f"{line.cost:<12.1%}{line.stall_ms:>5.0f} ms" + "".join(texts), flush=True)
    print("least       " + " " * 8 + "".join(f"{least[method]:>9.1%}       " for method in METHODS))
    broken = [f"totals cover only {least['totals']:.1%}"] if least["totals"] < LEAST_COVERAGE else []
    broken += [
        f"{method} keeps the promise and is narrower: verdicts should rest on it"
        for method in METHODS[1:]
        if least[method] >= LEAST_COVERAGE and median(widths[method]) <= WORTH_IT
    ]
    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
