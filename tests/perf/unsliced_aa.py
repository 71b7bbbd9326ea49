"""What does it save to stop the other server while one builds its index? A build with itself, as it is and left alone.

    python -m tests.perf.unsliced_aa 16.3-prebuilt [--rounds 3] [--repeats 4] [BENCH OPTIONS]

Each round is two runs of `bench` with --aa in slices, one with --stop busy and one with --stop none. Printed are, of
each of the two and all its pairs, for each step that is not sliced: the scatter of the logarithms of its rate and
server CPU ratios, whose truth is 0, and the CPU time that the other server used in the step, as a part of the step's.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, stdev

from engine.analysis.run_results import load

STOPS = ("busy", "none")
SMALL = ("--rows", "400000", "--steps", "l.i0,l.x", "--set", "autovacuum_naptime=1s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4)
    asked, more = parser.parse_known_args()  # what is none of these is for bench
    with tempfile.TemporaryDirectory(prefix="unsliced-aa-") as folder:
        Path(folder).chmod(0o755)
        for number in range(asked.rounds):
            for stop in STOPS if number % 2 else STOPS[::-1]:
                words = ("--pg", asked.build, "--aa", "--interleave", "slices", "--repeats", str(asked.repeats))
                call = [sys.executable, "-m", "engine", "run", *words, *SMALL, "--stop", stop, *more, "--plain"]
                out = ("--out", f"{folder}/{stop}", "--allow-concurrent")
                subprocess.run([*call, *out], check=True, stdout=subprocess.DEVNULL)
                print(f"round {number + 1}, --stop {stop}: load {os.getloadavg()[0]:.1f}", flush=True)
        for stop in STOPS:
            for line in told(Path(folder) / stop):
                print(f"--stop {stop:<5} {line}")
    return 0


def told(runs: Path) -> list[str]:
    """A line for each step without slices of all runs in a folder."""
    ratios: dict[tuple[str, str], list[float]] = {}
    spilled: dict[str, list[float]] = {}
    for path in runs.iterdir():
        cells = load(path).cells
        for base in (cell for cell in cells if not cell.cell.subject.control):
            (other,) = (each for each in cells if each.cell.repeat == base.cell.repeat and each is not base)
            for name, step in base.steps.items():
                pair = (step, other.steps[name])
                shares = [each.figures["spill_over_share"] for each in pair]
                if None in shares:
                    continue
                spilled.setdefault(name, []).extend(shares)
                for metric in ("rate_per_s", "server_cpu_us_per_op"):
                    first, second = (each.figures[metric] for each in pair)
                    ratios.setdefault((name, metric), []).append(math.log(second / first))
    return [
        f"{name}: {metric} scatters by {stdev(found):.1%} over {len(found)} pairs; the other server used "
        f"{fmean(spilled[name]):.1%} as much CPU on average, {max(spilled[name]):.1%} at most"
        for (name, metric), found in ratios.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
