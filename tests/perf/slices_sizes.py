"""Do slices of different lengths, and none at all, find the same ratio of two builds? On this machine as it is.

    PGBED_SERVERS=... python -m tests.perf.slices_sizes [BASE OTHER] [--rounds 4] [--step qr100]

One pair of clusters. In each round, in an order that is drawn, both servers are driven by the conductor in slices of
20, 50, 250 and 1000 ms, and one after the other without it (`alone`: base and other, or other and base, the whole time
of a stretch for each). The clients are those of the query step. A stretch of 1000 ms lasts longer, as a block of it is
4 s. Printed are theta of the rate for each length with its error (by the blocks; for `alone` by the rounds) and how far
each is from the mean of all others, in errors. Exit code 1 when the lengths do not agree (chi-squared, 5 %), or `alone`
does not agree with them (t, 5 %).
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from scipy import special

from engine.analysis.slice_estimates import self_check
from engine.analysis.slice_verdicts import PARTS
from engine.builds import resolve
from engine.postgres.server import Server
from engine.results.comparison import RATE
from engine.results.slice_ratio import LogRatio
from engine.slices.block_order import SliceSeed
from tests.support.interleaved_servers import (
    NORMAL_95,
    Block,
    at_work,
    interleaved,
    own_ratios_of,
    percent,
    query_step,
    ratio_of,
    servers_up,
    whole_blocks,
)
from workloads.counter_page import Control, Word
from workloads.insert.steps import Step

LENGTHS_MS = {20.0: 8.0, 50.0: 8.0, 250.0: 10.0, 1000.0: 28.0}  # length of a slice: seconds of a stretch
ALONE_S = 5.0  # each server
SETTLING_S = 0.5
LEVEL = 0.05


def alone(servers: Sequence[Server], step: Step, seed: int, chance: random.Random) -> float:
    """The log ratio of the rates of two servers that work one after the other."""
    rates = [0.0, 0.0]
    for side in chance.sample((0, 1), 2):
        with at_work(servers[side], step, seed) as run:
            run.page.words[Control.START_NS] = time.monotonic_ns()
            time.sleep(SETTLING_S)
            counts = []
            for wait_s in (ALONE_S, 0):
                counts.append((run.word(1, "query", Word.STATEMENTS), time.monotonic_ns()))
                time.sleep(wait_s)
        (first, began_ns), (last, ended_ns) = counts
        rates[side] = (last - first) / (ended_ns - began_ns)
    return math.log(rates[1] / rates[0])


def agreement(found: dict[float, LogRatio], inflation: float) -> tuple[float, float, float]:
    """The mean of the lengths, weighted by their errors; its variance; the p-value of all having the same truth."""
    weights = {length: 1 / ((ratio.variance or math.inf) * inflation) for length, ratio in found.items()}
    whole = sum(weights.values())
    mean = sum(weights[length] * ratio.theta for length, ratio in found.items()) / whole
    chi_squared = sum(weights[length] * (ratio.theta - mean) ** 2 for length, ratio in found.items())
    return mean, 1 / whole, float(special.chdtrc(len(found) - 1, chi_squared))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("builds", nargs="*", default=["12.11-prebuilt", "16.3-prebuilt"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--step", default="qr100")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    pair = [resolve.local_build(label, Path(os.environ["PGBED_SERVERS"]) / label) for label in asked.builds]
    chance, step = random.Random(asked.seed), query_step(asked.rows, asked.step)
    blocks: dict[float, list[Block]] = {length: [] for length in LENGTHS_MS}
    unsliced: list[float] = []
    with servers_up(pair, asked.rows) as servers:
        for number in range(1, asked.rounds + 1):
            for length in chance.sample([*LENGTHS_MS, 0.0], len(LENGTHS_MS) + 1):
                if not length:
                    unsliced.append(alone(servers, step, asked.seed, chance))
                    continue
                with interleaved(servers, step, length, SliceSeed(asked.seed, number, f"{length:g}")) as duet:
                    duet.drive(LENGTHS_MS[length])
                    blocks[length] += whole_blocks(duet.slices)
            print(f"round {number}: alone {percent(unsliced[-1])}, load {os.getloadavg()[0]:.1f}", flush=True)
    found = {length: ratio_of(each, PARTS[RATE]) for length, each in blocks.items()}
    few = [f"{length:g} ms" for length, ratio in found.items() if ratio.variance is None]
    if few:
        sys.exit(f"too few blocks of {', '.join(few)} for an error: give more --rounds")
    check = self_check([own for each in blocks.values() for own in own_ratios_of(each, PARTS[RATE])])
    mean, variance, p_value = agreement(found, check.inflation)
    print(f"rate of {asked.builds[1]} to {asked.builds[0]}, {asked.step}; self-check f {check.f:.2f}")
    for length, ratio in found.items():
        error = math.sqrt((ratio.variance or math.inf) * check.inflation)
        others, others_variance, _ = agreement({k: v for k, v in found.items() if k != length}, check.inflation)
        off = (ratio.theta - others) / math.hypot(error, math.sqrt(others_variance))
        print(f"{length:>5.0f} ms {percent(ratio.theta, NORMAL_95 * error):>20} {ratio.blocks:>5} blocks, "
              f"{off:+.1f} errors from the others")  # fmt: skip
    error, degrees = stdev(unsliced) / math.sqrt(len(unsliced)), len(unsliced) - 1
    half = float(special.stdtrit(degrees, 1 - LEVEL / 2)) * error
    print(f"   alone {percent(fmean(unsliced), half):>20} {len(unsliced):>5} rounds")
    off = (fmean(unsliced) - mean) / math.hypot(error, math.sqrt(variance))
    apart = 2 * float(special.stdtr(degrees, -abs(off)))
    print(f"the lengths agree: p = {p_value:.2f}; alone agrees with them: p = {apart:.2f}")
    return 1 if min(p_value, apart) < LEVEL else 0


if __name__ == "__main__":
    sys.exit(main())
