"""The part of a ratio that is the place of functions: layouts of one build against each other, on this machine.

    python -m tests.perf.layouts 17.11 [--comparisons 10] [--repeats 4] [BENCH OPTIONS]

Comparison k is a run of `bench --pg BUILD:layout2k-1,BUILD:layout2k` in slices: two backends linked from the same
objects, folder by folder in orders of their own. A log ratio of such a run scatters by the measurement (known from
its interval) and by two layouts. Printed are for each step the standard deviation of one layout and its 95% interval:
if layouts scatter by t, the sum of r²/(2t² + s²) over the runs has a chi-square distribution.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scipy.optimize import brentq
from scipy.stats import chi2

STEPS = ("--rows", "100000", "--rows-written", "100000", "--query-seconds", "12", "--steps", "l.i0,qr100,qp100")
MOST = 1.0  # of a standard deviation

Pair = tuple[float, float]  # a log ratio and its standard error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build")
    parser.add_argument("--comparisons", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=4)
    asked, more = parser.parse_known_args()  # all others are for bench
    pairs_of: dict[str, list[Pair]] = {}
    with tempfile.TemporaryDirectory(prefix="layouts-") as folder:
        Path(folder).chmod(0o755)
        for number in range(1, asked.comparisons + 1):
            begun_s = time.monotonic()
            labels = ",".join(f"{asked.build}:layout{layout}" for layout in (2 * number - 1, 2 * number))
            for step, pair in pairs(labels, Path(folder) / str(number), asked.repeats, more).items():
                pairs_of.setdefault(step, []).append(pair)
                print(f"{number:>3} {step:<8} {math.exp(pair[0]):.4f} ±{pair[1]:.2%}")
            print(f"    {time.monotonic() - begun_s:.0f} s", flush=True)
    print("standard deviation of a layout:")
    for step, logs in pairs_of.items():
        print(f"    {step:<8} {spread(logs, 0.5):.2%} [{spread(logs, 0.025):.2%}, {spread(logs, 0.975):.2%}]")
    return 0


def pairs(labels: str, out: Path, repeats: int, more: Sequence[str]) -> dict[str, Pair]:
    run = ("--pg", labels, *STEPS, "--interleave", "slices", "--repeats", str(repeats), "--plain", *more)
    subprocess.run(bench(out, *run), check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run(bench(out, "compare", "--json"), check=True, capture_output=True, text=True).stdout
    return {
        ratio["step"]: with_error(ratio["ratio"], ratio["low"], ratio["high"])
        for ratio in json.loads(said)["ratios"]
        if ratio["metric"] == "rate_per_s" and ratio["low"]
    }


def with_error(ratio: float, low: float, high: float) -> Pair:
    """The log of a ratio, and the standard error that its 95% interval shows."""
    return math.log(ratio), math.log(high / low) / (2 * 1.96)


def bench(out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "engine", *words, "--out", str(out)]


def spread(measured: Sequence[Pair], quantile: float) -> float:
    """The standard deviation that exceeds the true one with this probability; 0 if the errors explain all."""
    wanted = chi2.ppf(1 - quantile, len(measured))

    def excess(deviation: float) -> float:
        return float(sum(ratio**2 / (2 * deviation**2 + error**2) for ratio, error in measured) - wanted)

    return float(brentq(excess, 0, MOST)) if excess(0) > 0 > excess(MOST) else 0.0


if __name__ == "__main__":
    sys.exit(main())
