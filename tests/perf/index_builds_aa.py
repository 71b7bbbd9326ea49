"""How much narrower is what is known of an index build in slices? A build with itself, as it is and as it was.

    python -m tests.perf.index_builds_aa 16.3-prebuilt --before TREE [--rounds 3] [--repeats 6] [BENCH OPTIONS]

TREE is a work tree of a revision that built indexes on one server after the other (`git worktree add TREE 5b244832`).
Each round is two runs of `bench` with --aa in slices, one by each tree, first the one, then the other. Printed are, for
each tree: the half width of the interval of l.x in each run, its median, how many intervals hold 1, the scatter of the
pairs' log ratios; and the ratio of the median widths, new to old.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

STEP = "l.x"
PLAN = ("--steps", "l.i0,l.x")
NEW = Path(__file__).resolve().parents[2]


@dataclass
class Tree:
    """What runs of one revision came to."""

    name: str
    path: Path
    halves: list[float] = field(default_factory=list)  # of intervals, as a part of the ratio
    held: int = 0  # intervals that hold 1
    logs: list[float] = field(default_factory=list)  # of pairs, less their run's mean

    def bench(self, out: Path, *words: str) -> str:
        command = [sys.executable, "-m", "engine", *words, "--out", str(out)]
        return subprocess.run(command, cwd=self.path, check=True, stdout=subprocess.PIPE, text=True).stdout

    def take(self, compared: dict[str, Any]) -> str:
        """Add a comparison; say what it came to."""
        rate = next(r for r in compared["ratios"] if (r["step"], r["metric"]) == (STEP, "rate_per_s"))
        half = math.sqrt(rate["high"] / rate["low"]) - 1
        self.halves.append(half)
        self.held += rate["low"] <= 1 <= rate["high"]
        cells = [cell for cell in compared["cells"] if cell["step"] == STEP]
        rates: dict[int, dict[str, float]] = {}
        for cell in cells:
            rates.setdefault(cell["repeat"], {})[cell["control"]] = cell["rate_per_s"]
        logs = [math.log(both["aa"] / both[""]) for both in rates.values() if len(both) == 2]
        self.logs += [log - fmean(logs) for log in logs]
        return f"{rate['ratio']:.4f} [{rate['low']:.4f}-{rate['high']:.4f}], half width {half:.2%}: {rate['verdict']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("build")
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=6)
    asked, more = parser.parse_known_args()  # what is none of these is for bench
    old, new = Tree("before", asked.before.resolve()), Tree("now", NEW)
    with tempfile.TemporaryDirectory(prefix="index-builds-aa-") as folder:
        Path(folder).chmod(0o755)
        for number in range(asked.rounds):
            for tree in (old, new) if number % 2 else (new, old):
                out = Path(folder) / f"{tree.name}-{number}"
                plan = ("--pg", asked.build, "--aa", "--interleave", "slices", "--repeats", str(asked.repeats))
                tree.bench(out, "run", *plan, *PLAN, *more, "--seed", str(number + 1), "--plain", "--allow-concurrent")
                found = tree.take(json.loads(tree.bench(out, "compare", "--json")))
                print(f"round {number + 1}, {tree.name}: {found}; load {os.getloadavg()[0]:.1f}", flush=True)
    for tree in (old, new):
        print(
            f"{tree.name}: median half width {median(tree.halves):.2%}, {tree.held} of {len(tree.halves)} intervals "
            f"hold 1, pairs scatter by {stdev(tree.logs):.2%}"
        )
    print(f"width now to before: {median(new.halves) / median(old.halves):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
