"""The cost of measuring, by `bench` itself: a table of comparisons, on this machine as it is.

    python -m tests.perf.cost [--rows clients,slices] [--build 16.3-prebuilt] [--rounds 4] [BENCH OPTIONS]

A row is a command line of `bench run` with two endings, which run in turns, in the order ABBA. Printed are for each of
its figures the medians of both and the ratio of the second to the first, with its 95% interval over the rounds, and
whether it keeps its promise. Figures of different machines do not compare; shares and ratios do. Exit code 1
if a promise is broken by more than chance. Rows that need root or a PMU fail without.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from engine.analysis.statistics.inference import estimate, paired_interval
from tests.perf.layouts import bench

Cell = dict[str, Any]
Figure = Callable[[dict[str, Any]], float]  # of `bench compare --json`


def mean_of(value: Callable[[Cell], float | None]) -> Figure:
    """A figure of a run: the mean over its cells and the steps that have one."""

    def of(comparison: dict[str, Any]) -> float:
        return fmean(cost for cell in comparison["cells"] if (cost := value(cell)) is not None)

    return of


def client_share(cell: Cell) -> float | None:
    """The client's part of all CPU time of an operation."""
    client, server = cell["client_cpu_us_per_op"], cell["server_cpu_us_per_op"]
    return client / (client + server) if client is not None and server is not None else None


def half_width(comparison: dict[str, Any]) -> float:
    rates = [ratio for ratio in comparison["ratios"] if ratio["metric"] == "rate_per_s" and ratio["low"]]
    return fmean((ratio["high"] / ratio["low"]) ** 0.5 - 1 for ratio in rates)


SERVER_CPU = mean_of(lambda cell: cell["server_cpu_us_per_op"])
RATE = mean_of(lambda cell: cell["rate_per_s"])


@dataclass(frozen=True)
class Row:
    """`most` is the promised ratio of the second ending to the first, by figure; None promises nothing."""

    plan: str
    endings: tuple[str, str]
    figures: dict[str, tuple[Figure, float | None]]


ONE = "--repeats 1 --interleave cells"
SELECTS = f"--workload pgbench-select --protocol prepared --pgbench-scale 1 --clients 1 --seconds 10 {ONE}"
CPU_PER_OP = "server CPU per op"
CPU: dict[str, tuple[Figure, float | None]] = {CPU_PER_OP: (SERVER_CPU, None), "rate": (RATE, None)}
TABLE = {
    "clients": Row(
        ONE,
        (
            "--workload pgbench-select --protocol prepared --pgbench-scale 4 --clients 1 --seconds 10",
            "--workload oltp -O rows=400000 -O seconds=10 --steps load,vacuum,point-query",
        ),
        {"client's share of the CPU time": (mean_of(client_share), 1.5)},
    ),
    "counters": Row(SELECTS, ("--counters off", "--counters hardware"), CPU | {CPU_PER_OP: (SERVER_CPU, 1.01)}),
    "sched": Row(SELECTS, ("--probes none", "--probes sched"), CPU),
    "planner": Row(SELECTS, ("--probes none", "--probes planner"), CPU),
    "slices": Row(
        "--aa --repeats 3 --rows 20000 --query-seconds 6 --steps l.i0,qr100",
        ("--slice-ms 50", "--slice-ms 20"),
        {"half width of an interval": (half_width, 0.9)},
    ),
}  # fmt: skip


def compared(words: list[str], out: Path) -> dict[str, Any]:
    if code := subprocess.run(bench(out, "run", *words, "--plain"), stdout=subprocess.DEVNULL).returncode:
        sys.exit(code)  # bench has said why
    output = subprocess.run(bench(out, "compare", "--json"), check=True, capture_output=True, text=True).stdout
    comparison: dict[str, Any] = json.loads(output)
    return comparison


def measured(name: str, row: Row, rounds: int, options: list[str]) -> bool:
    """Print a line for each figure of a row; return whether the promises are kept."""
    pairs: list[tuple[dict[str, float], ...]] = []
    with tempfile.TemporaryDirectory(prefix="pgbed-cost-") as folder:
        Path(folder).chmod(0o755)
        for number in range(rounds):
            both = {}
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                words = [*row.plan.split(), *row.endings[place].split(), "--seed", str(number + 1), *options]
                comparison = compared(words, Path(folder) / f"{number}-{place}")
                both[place] = {figure: value(comparison) for figure, (value, _) in row.figures.items()}
            pairs.append((both[0], both[1]))
    good = True
    for figure, (_, most) in row.figures.items():
        first, second = (median(pair[place][figure] for pair in pairs) for place in (0, 1))
        interval = paired_interval(estimate([after[figure] / before[figure] for before, after in pairs]))
        low, high = interval.low or 0.0, interval.high or float("inf")
        kept = most is None or low <= most
        good = good and kept
        promise = "" if most is None else f"  {'kept' if kept else 'BROKEN'} (at most {most:g})"
        values = f"{first:>12,.3g}{second:>12,.3g}{interval.ratio:>9.3f} [{low:.3f}-{high:.3f}]"
        print(f"{name:<10}{figure:<32}{values}{promise}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(TABLE))
    parser.add_argument("--build", default="16.3-prebuilt")
    parser.add_argument("--rounds", type=int, default=4)
    asked, more = parser.parse_known_args()  # all others are for bench
    print(f"{'':<42}{'first':>12}{'second':>12}{'ratio':>9}")
    good = [measured(row, TABLE[row], asked.rounds, ["--pg", asked.build, *more]) for row in asked.rows.split(",")]
    print(f"load average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
