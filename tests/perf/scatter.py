"""Where does the scatter of pairs come from? Two equal servers in slices, on this machine as it is.

    PGBED_SERVERS=... python -m tests.perf.scatter [BUILD] [--clusters 3] [--starts 4] [--processes 3] [--seconds 8]

Each pair of fresh clusters is started several times, and after each start a step's clients several times, for some
seconds each. The log ratio of the rates, whose truth is 0, varies for four reasons. Printed are for each step their
standard deviations, from the mean squares of a nested analysis of variance: within a set of processes (as the blocks
tell), between sets of client and server processes, between starts, between clusters; 0 where a mean square is no larger
than those below it explain. Each is known from few: with the defaults that of processes is certain to about a seventh,
of starts to a quarter, of clusters to no more than a half.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, variance

from engine.analysis.slice_verdicts import PARTS
from engine.builds import resolve
from engine.core.model import Build
from engine.postgres.server import Server
from engine.results.comparison import RATE
from engine.results.slice_ratio import LogRatio
from engine.slices.block_order import SliceSeed
from tests.support.interleaved_servers import interleaved, query_step, ratio_of, servers_up, whole_blocks

STEPS = ("qr100", "qp500")
ROWS, SLICE_MS, SETTLING_S = 30_000, 20.0, 1.0

Start = list[LogRatio]  # of each set of processes
Cluster = list[Start]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build", nargs="?", default="18.6-prebuilt")
    parser.add_argument("--clusters", type=int, default=3)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    asked = parser.parse_args()
    build = resolve.local_build(asked.build, Path(os.environ["PGBED_SERVERS"]) / asked.build)
    found: dict[str, list[Cluster]] = {step: [] for step in STEPS}
    for number in range(asked.clusters):
        for step, cluster in measured(build, number, asked.starts, asked.processes, asked.seconds).items():
            found[step].append(cluster)
            means = " ".join(f"{fmean(ratio.theta for ratio in start):+.2%}" for start in cluster)
            print(f"clusters {number + 1}, {step}: starts at {means}; load {os.getloadavg()[0]:.1f}", flush=True)
    for step, clusters in found.items():
        print(f"{step}: {'; '.join(f'{level} {sd:.2%}' for level, sd in components(clusters).items())}")


def measured(build: Build, number: int, starts: int, processes: int, seconds: float) -> dict[str, Cluster]:
    """One pair of fresh clusters."""
    found: dict[str, Cluster] = {step: [] for step in STEPS}
    with servers_up([build, build], ROWS) as servers:
        for start in range(starts):
            for server in servers if start else ():
                server.restart()
            for each in found.values():
                each.append([])
            for place in range(processes):
                for step, cluster in found.items():
                    seed = SliceSeed((number * starts + start) * processes + place, 1, step)
                    cluster[-1].append(one(servers, step, seed, seconds))
    return found


def one(servers: Sequence[Server], step: str, seed: SliceSeed, seconds: float) -> LogRatio:
    with interleaved(servers, query_step(ROWS, step), SLICE_MS, seed) as duet:
        duet.drive(SETTLING_S)
        settled = len(duet.slices)
        duet.drive(seconds)
        return ratio_of(whole_blocks(duet.slices[settled:]), PARTS[RATE])


def components(clusters: Sequence[Cluster]) -> dict[str, float]:
    """The standard deviation that each level adds."""
    starts = [start for cluster in clusters for start in cluster]
    within = fmean(ratio.variance or math.nan for start in starts for ratio in start)
    between = fmean(variance(ratio.theta for ratio in start) for start in starts)
    means = [[fmean(ratio.theta for ratio in start) for start in cluster] for cluster in clusters]
    of_starts = fmean(map(variance, means))
    of_clusters = variance(map(fmean, means))
    parts = {
        "within": within,
        "processes": between - within,
        "starts": of_starts - between / len(starts[0]),
        "clusters": of_clusters - of_starts / len(means[0]),
    }
    return {level: math.sqrt(max(0.0, part)) for level, part in parts.items()}


if __name__ == "__main__":
    main()
