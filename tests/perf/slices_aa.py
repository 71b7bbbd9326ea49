"""Do slices keep their promise where nothing differs? Comparisons of a build with itself, on this machine as it is.

    python -m tests.perf.slices_aa 16.3-prebuilt [--comparisons 10] [--repeats 5] [--neighbour] [BENCH OPTIONS]

Each comparison is a run of `bench` with --aa and --interleave slices; with --neighbour a program burns both CPUs in
bursts of 0.5 to 20 s meanwhile. Printed are, for each comparison, the ratio of every sliced step with its interval and
verdict, and, over all: false verdicts, intervals that hold 1, and for each step their half width, the share of its wall
time in which statements were counted, and of its slices in which some clients waited for others. Exit code 1 when more
than one comparison in ten has a false verdict, or fewer than nine intervals in ten hold 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from engine.journal.reader import JournalReader

SMALL = (
    "--rows",
    "100000",
    "--rows-written",
    "100000",
    "--query-seconds",
    "12",
    "--steps",
    "l.i0,l.x,l.i1,qr100,qr500,qp1000",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build")
    parser.add_argument("--comparisons", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--neighbour", action="store_true")
    asked, more = parser.parse_known_args()  # what is none of these is for bench
    false = held = intervals = 0
    halves: dict[str, list[float]] = {}
    shares: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="slices-aa-") as folder:
        Path(folder).chmod(0o755)
        for number in range(1, asked.comparisons + 1):
            begun_s = time.monotonic()
            with neighbour(asked.neighbour):
                ratios = comparison(asked.build, Path(folder), number, asked.repeats, more)
            for step, counted, ragged in counted_shares(Path(folder)):
                shares.setdefault(step, []).append((counted, ragged))
            rates = [ratio for ratio in ratios if ratio["metric"] == "rate_per_s" and ratio["step"] in shares]
            wrong = [ratio for ratio in rates if ratio["verdict"] in ("faster", "slower")]
            false += bool(wrong)
            for ratio in rates:
                low, high = ratio["low"] or 0.0, ratio["high"] or math.inf  # none of a single pair
                intervals += 1
                held += low <= 1 <= high
                halves.setdefault(ratio["step"], []).append(math.sqrt(high / low) - 1 if low else math.inf)
                print(f"{number:>3} {ratio['step']:<8} {ratio['ratio']:.4f} [{low:.4f}-{high:.4f}] {ratio['verdict']}")
            print(f"    {time.monotonic() - begun_s:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"comparisons with a false verdict: {false} of {asked.comparisons}")
    print(f"intervals that hold 1: {held} of {intervals}; medians of each step:")
    for step, found in shares.items():
        counted, ragged = (median(each) for each in zip(*found, strict=True))
        half = median(halves.get(step, [math.inf]))
        print(f"    {step:<8} half width {half:.2%}, counted {counted:.1%} of its time, ragged {ragged:.1%} of slices")
    return 1 if false > max(1, asked.comparisons / 10) or held < 0.9 * intervals else 0


def comparison(build: str, out: Path, seed: int, repeats: int, options: list[str]) -> list[dict[str, Any]]:
    """The ratios of one run."""
    command = [sys.executable, "-m", "engine"]
    plan = ("--pg", build, "--aa", "--interleave", "slices", "--repeats", str(repeats), "--seed", str(seed), *SMALL)
    subprocess.run([*command, *plan, *options, "--plain", "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([*command, "compare", "--json", "--out", str(out)], check=True, capture_output=True)
    ratios: list[dict[str, Any]] = json.loads(done.stdout)["ratios"]
    return ratios


def counted_shares(out: Path) -> Iterator[tuple[str, float, float]]:
    """Of every repeat of the newest run and sliced step: the parts of its time that were counted, and ragged."""
    run = max(path.parent for path in out.glob("*/manifest.json"))
    with JournalReader(run) as reader:
        steps: dict[tuple[int, str], list[tuple[int, int, int, int]]] = {}
        repeats = {cell.id: cell.repeat for cell in reader.manifest.cells}
        for attempt in reader.attempts():
            for step in reader.steps(attempt.id):
                rows = reader.slices(step.id)
                if rows:
                    counted = sum(row.counted_ns for row in rows)
                    place = steps.setdefault((repeats[attempt.cell], step.name), [])
                    ragged = sum(row.imbalance_ns for row in rows)
                    ended_ns = rows[-1].counted_from_ns + rows[-1].counted_ns
                    place.append((rows[0].opened_ns, ended_ns, counted, ragged))
    for (_, name), sides in steps.items():
        length = max(side[1] for side in sides) - min(side[0] for side in sides)
        counted = sum(side[2] for side in sides)
        yield name, counted / length, sum(side[3] for side in sides) / counted


@contextmanager
def neighbour(wanted: bool) -> Iterator[None]:
    """Burns all CPUs in bursts, log-uniform from 0.5 to 20 s, with as long a pause between them."""
    over = threading.Event()

    def burn() -> None:
        chance = random.Random(1)
        while not over.is_set():
            length = math.exp(chance.uniform(math.log(0.5), math.log(20)))
            burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
            over.wait(length)
            for burner in burners:
                burner.kill()
                burner.wait()
            over.wait(length)

    thread = threading.Thread(target=burn)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if wanted:
            thread.join()


if __name__ == "__main__":
    sys.exit(main())
